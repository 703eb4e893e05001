/* Every kernel as scare_blob.c calls and checks it. Made by `python -m scare.export.blob_kernels`: do not edit. */
#ifndef SCARE_BLOB_KERNELS_H
#define SCARE_BLOB_KERNELS_H

/* clang-format off */

/* How a formula is written: scare/kernels/c_extents.py. */
enum {
    OP_BYTE = 0x10,
    OP_HALF = 0x11,
    OP_WORD = 0x12,
    OP_ADD = 0x20,
    OP_SUBTRACT = 0x21,
    OP_MULTIPLY = 0x22,
    OP_DIVIDE = 0x23,
    OP_REMAINDER = 0x24,
    OP_POWER = 0x25,
    OP_LESS = 0x26,
    OP_NOT_ABOVE = 0x27,
    OP_EQUAL = 0x28,
    OP_MAXIMUM = 0x29,
    OP_TOTAL = 0x30,
    OP_LARGEST = 0x31,
    OP_LAST = 0x32,
    REACHES = 0x80,
    HOLDS = 0x90,
    END = 0xff,
    KIND_SIZE = 0x00,
    KIND_WORD = 0x01,
    KIND_SIGNED = 0x02,
    KIND_POINTER = 0x80,
    KIND_OUTPUT = 0x40,
    KIND_OVER = 0x20,
};

/* Rules begin with the number of parameters and the kind of each. */
#if SCARE_BLOB_FLOAT32
static const uint8_t rules_add_f32[] = {4, 194, 162, 162, 0, 3, 128, 3, 129, 3, 130, 255};
static const uint32_t *call_add_f32(const uint32_t *a, unsigned char *const *base) {
    scare_add_f32(at(a[0], base), at(a[1], base), at(a[2], base), a[3]);
    return a + 4;
}

static const uint8_t rules_add_outer_f32[] = {6, 194, 162, 130, 130, 0, 0, 4, 5, 34, 128, 4, 5, 34, 129, 5, 130, 4, 131, 255};
static const uint32_t *call_add_outer_f32(const uint32_t *a, unsigned char *const *base) {
    scare_add_outer_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], a[5]);
    return a + 6;
}

static const uint8_t rules_affine_f32[] = {6, 194, 162, 130, 130, 0, 0, 4, 5, 34, 128, 4, 5, 34, 129, 5, 130, 5, 131, 255};
static const uint32_t *call_affine_f32(const uint32_t *a, unsigned char *const *base) {
    scare_affine_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], a[5]);
    return a + 6;
}

static const uint8_t rules_attention_scores_f32[] = {7, 194, 130, 130, 0, 0, 0, 0, 3, 5, 34, 6, 34, 129, 4, 5, 34, 6, 34, 130, 5, 3, 34, 4, 34, 128, 255};
static const uint32_t *call_attention_scores_f32(const uint32_t *a, unsigned char *const *base) {
    scare_attention_scores_f32(at(a[0], base), at(a[1], base), at(a[2], base), a[3], a[4], a[5], a[6]);
    return a + 7;
}

static const uint8_t rules_bins_f32[] = {6, 194, 130, 129, 130, 0, 0, 4, 130, 48, 2, 0, 1, 131, 48, 2, 0, 1, 5, 34, 129, 4, 5, 34, 128, 255};
static const uint32_t *call_bins_f32(const uint32_t *a, unsigned char *const *base) {
    scare_bins_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], a[5]);
    return a + 6;
}

static const uint8_t rules_bitwise_attention_f32[] = {9, 194, 130, 130, 130, 0, 0, 0, 0, 1, 4, 129, 5, 130, 5, 6, 34, 131, 4, 6, 34, 5, 32, 128, 5, 7, 8, 32, 34, 16, 31, 37, 38, 144, 255};
static const uint32_t *call_bitwise_attention_f32(const uint32_t *a, unsigned char *const *base) {
    scare_bitwise_attention_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], a[5], a[6], a[7], a[8]);
    return a + 9;
}

static const uint8_t rules_blend_f32[] = {5, 194, 130, 130, 130, 0, 16, 1, 128, 4, 16, 1, 32, 129, 16, 1, 130, 16, 4, 4, 34, 131, 255};
static const uint32_t *call_blend_f32(const uint32_t *a, unsigned char *const *base) {
    scare_blend_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4]);
    return a + 5;
}

static const uint8_t rules_causal_convolution_f32[] = {7, 194, 162, 130, 130, 0, 0, 0, 4, 5, 34, 128, 4, 5, 34, 129, 6, 5, 34, 130, 5, 131, 255};
static const uint32_t *call_causal_convolution_f32(const uint32_t *a, unsigned char *const *base) {
    scare_causal_convolution_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], a[5], a[6]);
    return a + 7;
}

static const uint8_t rules_dense_f32[] = {8, 194, 130, 130, 130, 0, 0, 0, 0, 4, 6, 34, 128, 4, 5, 34, 129, 5, 6, 34, 130, 6, 4, 16, 1, 33, 7, 34, 32, 131, 16, 1, 4, 39, 144, 255};
static const uint32_t *call_dense_f32(const uint32_t *a, unsigned char *const *base) {
    scare_dense_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], a[5], a[6], a[7]);
    return a + 8;
}

static const uint8_t rules_divide_f32[] = {4, 194, 162, 162, 0, 3, 128, 3, 129, 3, 130, 255};
static const uint32_t *call_divide_f32(const uint32_t *a, unsigned char *const *base) {
    scare_divide_f32(at(a[0], base), at(a[1], base), at(a[2], base), a[3]);
    return a + 4;
}

static const uint8_t rules_feed_forward_8_f32[] = {6, 194, 130, 130, 0, 0, 0, 3, 5, 34, 128, 3, 16, 8, 34, 129, 5, 4, 16, 9, 5, 32, 34, 32, 130, 4, 16, 16, 36, 16, 0, 40, 144, 255};
static const uint32_t *call_feed_forward_8_f32(const uint32_t *a, unsigned char *const *base) {
    scare_feed_forward_8_f32(at(a[0], base), at(a[1], base), at(a[2], base), a[3], a[4], a[5]);
    return a + 6;
}

static const uint8_t rules_feed_forward_f32[] = {7, 194, 130, 130, 0, 0, 0, 0, 3, 6, 34, 128, 3, 4, 34, 129, 6, 5, 16, 1, 4, 32, 6, 32, 34, 32, 130, 5, 16, 16, 36, 16, 0, 40, 144, 255};
static const uint32_t *call_feed_forward_f32(const uint32_t *a, unsigned char *const *base) {
    scare_feed_forward_f32(at(a[0], base), at(a[1], base), at(a[2], base), a[3], a[4], a[5], a[6]);
    return a + 7;
}

static const uint8_t rules_feed_forward_gelu_f32[] = {7, 194, 130, 130, 0, 0, 0, 0, 3, 6, 34, 128, 3, 4, 34, 129, 6, 5, 16, 1, 4, 32, 6, 32, 34, 32, 130, 5, 16, 16, 36, 16, 0, 40, 144, 255};
static const uint32_t *call_feed_forward_gelu_f32(const uint32_t *a, unsigned char *const *base) {
    scare_feed_forward_gelu_f32(at(a[0], base), at(a[1], base), at(a[2], base), a[3], a[4], a[5], a[6]);
    return a + 7;
}

static const uint8_t rules_gelu_f32[] = {3, 194, 162, 0, 2, 128, 2, 129, 255};
static const uint32_t *call_gelu_f32(const uint32_t *a, unsigned char *const *base) {
    scare_gelu_f32(at(a[0], base), at(a[1], base), a[2]);
    return a + 3;
}

static const uint8_t rules_hash_codes_f32[] = {9, 194, 130, 130, 0, 0, 0, 0, 3, 3, 3, 128, 3, 4, 34, 129, 6, 5, 4, 6, 32, 34, 32, 130, 5, 16, 16, 36, 16, 0, 40, 144, 6, 16, 4, 36, 16, 0, 40, 144, 6, 16, 32, 39, 144, 255};
static const uint32_t *call_hash_codes_f32(const uint32_t *a, unsigned char *const *base) {
    scare_hash_codes_f32(at(a[0], base), at(a[1], base), at(a[2], base), a[3], a[4], a[5], a[6], real(a[7]), real(a[8]));
    return a + 9;
}

static const uint8_t rules_hat_basis_f32[] = {7, 194, 130, 129, 130, 0, 0, 0, 16, 2, 4, 34, 130, 48, 2, 1, 2, 131, 48, 2, 1, 2, 5, 34, 129, 6, 5, 34, 128, 49, 2, 0, 2, 16, 2, 32, 6, 39, 144, 255};
static const uint32_t *call_hat_basis_f32(const uint32_t *a, unsigned char *const *base) {
    scare_hat_basis_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], a[5], a[6]);
    return a + 7;
}

static const uint8_t rules_layer_norm_8_f32[] = {6, 194, 162, 130, 130, 0, 3, 4, 16, 8, 34, 128, 4, 16, 8, 34, 129, 16, 8, 130, 16, 8, 131, 255};
static const uint32_t *call_layer_norm_8_f32(const uint32_t *a, unsigned char *const *base) {
    scare_layer_norm_8_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], real(a[5]));
    return a + 6;
}

static const uint8_t rules_layer_norm_f32[] = {7, 194, 162, 130, 130, 0, 0, 3, 4, 5, 34, 128, 4, 5, 34, 129, 5, 130, 5, 131, 255};
static const uint32_t *call_layer_norm_f32(const uint32_t *a, unsigned char *const *base) {
    scare_layer_norm_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], a[5], real(a[6]));
    return a + 7;
}

static const uint8_t rules_leaky_relu_f32[] = {4, 194, 162, 0, 3, 2, 128, 2, 129, 255};
static const uint32_t *call_leaky_relu_f32(const uint32_t *a, unsigned char *const *base) {
    scare_leaky_relu_f32(at(a[0], base), at(a[1], base), a[2], real(a[3]));
    return a + 4;
}

static const uint8_t rules_lens_f32[] = {6, 194, 130, 130, 0, 0, 0, 5, 4, 34, 128, 3, 4, 34, 129, 3, 16, 1, 32, 5, 34, 130, 255};
static const uint32_t *call_lens_f32(const uint32_t *a, unsigned char *const *base) {
    scare_lens_f32(at(a[0], base), at(a[1], base), at(a[2], base), a[3], a[4], a[5]);
    return a + 6;
}

static const uint8_t rules_lstm_f32[] = {6, 194, 130, 130, 0, 0, 0, 16, 3, 5, 34, 128, 3, 4, 34, 129, 16, 4, 5, 34, 16, 1, 4, 32, 5, 32, 34, 130, 255};
static const uint32_t *call_lstm_f32(const uint32_t *a, unsigned char *const *base) {
    scare_lstm_f32(at(a[0], base), at(a[1], base), at(a[2], base), a[3], a[4], a[5]);
    return a + 6;
}

static const uint8_t rules_memory_attention_f32[] = {9, 194, 130, 130, 130, 0, 0, 0, 0, 1, 4, 129, 5, 130, 5, 6, 34, 131, 4, 6, 34, 5, 32, 128, 5, 7, 8, 32, 34, 16, 31, 37, 38, 144, 4, 5, 39, 144, 255};
static const uint32_t *call_memory_attention_f32(const uint32_t *a, unsigned char *const *base) {
    scare_memory_attention_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], a[5], a[6], a[7], a[8]);
    return a + 9;
}

static const uint8_t rules_multiply_f32[] = {4, 194, 162, 162, 0, 3, 128, 3, 129, 3, 130, 255};
static const uint32_t *call_multiply_f32(const uint32_t *a, unsigned char *const *base) {
    scare_multiply_f32(at(a[0], base), at(a[1], base), at(a[2], base), a[3]);
    return a + 4;
}

static const uint8_t rules_newest_rows_f32[] = {5, 194, 130, 0, 0, 0, 4, 3, 34, 128, 2, 3, 34, 129, 4, 2, 39, 144, 255};
static const uint32_t *call_newest_rows_f32(const uint32_t *a, unsigned char *const *base) {
    scare_newest_rows_f32(at(a[0], base), at(a[1], base), a[2], a[3], a[4]);
    return a + 5;
}

static const uint8_t rules_patches_f32[] = {7, 194, 130, 0, 0, 0, 0, 0, 4, 5, 34, 3, 34, 128, 2, 3, 34, 129, 16, 1, 2, 39, 144, 255};
static const uint32_t *call_patches_f32(const uint32_t *a, unsigned char *const *base) {
    scare_patches_f32(at(a[0], base), at(a[1], base), a[2], a[3], a[4], a[5], a[6]);
    return a + 7;
}

static const uint8_t rules_polynomial_f32[] = {7, 194, 130, 128, 130, 0, 0, 0, 6, 128, 5, 129, 4, 5, 34, 130, 16, 1, 4, 32, 6, 34, 131, 255};
static const uint32_t *call_polynomial_f32(const uint32_t *a, unsigned char *const *base) {
    scare_polynomial_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], a[5], a[6]);
    return a + 7;
}

static const uint8_t rules_products_f32[] = {4, 194, 130, 0, 3, 2, 2, 16, 1, 32, 34, 16, 2, 35, 128, 2, 129, 255};
static const uint32_t *call_products_f32(const uint32_t *a, unsigned char *const *base) {
    scare_products_f32(at(a[0], base), at(a[1], base), a[2], real(a[3]));
    return a + 4;
}

static const uint8_t rules_read_out_8_f32[] = {6, 194, 130, 130, 130, 0, 0, 16, 1, 128, 4, 16, 8, 34, 129, 5, 16, 9, 34, 130, 16, 1, 4, 16, 8, 5, 32, 34, 32, 131, 5, 16, 16, 36, 16, 0, 40, 144, 255};
static const uint32_t *call_read_out_8_f32(const uint32_t *a, unsigned char *const *base) {
    scare_read_out_8_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], a[5]);
    return a + 6;
}

static const uint8_t rules_read_out_f32[] = {7, 194, 130, 130, 130, 0, 0, 0, 16, 1, 128, 4, 5, 34, 129, 6, 16, 1, 5, 32, 34, 130, 16, 1, 4, 5, 6, 32, 34, 32, 131, 6, 16, 16, 36, 16, 0, 40, 144, 255};
static const uint32_t *call_read_out_f32(const uint32_t *a, unsigned char *const *base) {
    scare_read_out_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], a[5], a[6]);
    return a + 7;
}

static const uint8_t rules_read_out_gelu_f32[] = {7, 194, 130, 130, 130, 0, 0, 0, 16, 1, 128, 4, 5, 34, 129, 6, 16, 1, 5, 32, 34, 130, 16, 1, 4, 5, 6, 32, 34, 32, 131, 6, 16, 16, 36, 16, 0, 40, 144, 255};
static const uint32_t *call_read_out_gelu_f32(const uint32_t *a, unsigned char *const *base) {
    scare_read_out_gelu_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], a[5], a[6]);
    return a + 7;
}

static const uint8_t rules_relu_f32[] = {3, 194, 162, 0, 2, 128, 2, 129, 255};
static const uint32_t *call_relu_f32(const uint32_t *a, unsigned char *const *base) {
    scare_relu_f32(at(a[0], base), at(a[1], base), a[2]);
    return a + 3;
}

static const uint8_t rules_restore_f32[] = {4, 194, 162, 130, 0, 16, 1, 128, 16, 1, 129, 16, 2, 3, 34, 130, 16, 1, 3, 39, 144, 255};
static const uint32_t *call_restore_f32(const uint32_t *a, unsigned char *const *base) {
    scare_restore_f32(at(a[0], base), at(a[1], base), at(a[2], base), a[3]);
    return a + 4;
}

static const uint8_t rules_rms_norm_f32[] = {5, 194, 162, 0, 0, 3, 2, 3, 34, 128, 2, 3, 34, 129, 255};
static const uint32_t *call_rms_norm_f32(const uint32_t *a, unsigned char *const *base) {
    scare_rms_norm_f32(at(a[0], base), at(a[1], base), a[2], a[3], real(a[4]));
    return a + 5;
}

static const uint8_t rules_sigmoid_mean_f32[] = {4, 194, 130, 0, 0, 3, 128, 2, 3, 34, 129, 255};
static const uint32_t *call_sigmoid_mean_f32(const uint32_t *a, unsigned char *const *base) {
    scare_sigmoid_mean_f32(at(a[0], base), at(a[1], base), a[2], a[3]);
    return a + 4;
}

static const uint8_t rules_silu_f32[] = {3, 194, 162, 0, 2, 128, 2, 129, 255};
static const uint32_t *call_silu_f32(const uint32_t *a, unsigned char *const *base) {
    scare_silu_f32(at(a[0], base), at(a[1], base), a[2]);
    return a + 3;
}

static const uint8_t rules_softmax_attention_f32[] = {10, 194, 130, 130, 130, 0, 0, 0, 0, 0, 3, 4, 6, 34, 7, 34, 129, 5, 6, 34, 7, 34, 130, 5, 6, 34, 8, 34, 131, 4, 6, 34, 8, 34, 5, 32, 128, 16, 1, 5, 39, 144, 255};
static const uint32_t *call_softmax_attention_f32(const uint32_t *a, unsigned char *const *base) {
    scare_softmax_attention_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], a[5], a[6], a[7], a[8], real(a[9]));
    return a + 10;
}

static const uint8_t rules_softmax_mix_f32[] = {7, 194, 130, 130, 0, 0, 0, 0, 5, 3, 34, 4, 34, 129, 4, 5, 34, 6, 34, 130, 3, 5, 34, 6, 34, 4, 32, 128, 16, 1, 4, 39, 144, 255};
static const uint32_t *call_softmax_mix_f32(const uint32_t *a, unsigned char *const *base) {
    scare_softmax_mix_f32(at(a[0], base), at(a[1], base), at(a[2], base), a[3], a[4], a[5], a[6]);
    return a + 7;
}

static const uint8_t rules_standardize_f32[] = {5, 194, 162, 130, 0, 0, 3, 4, 34, 128, 3, 4, 34, 129, 16, 2, 4, 34, 130, 255};
static const uint32_t *call_standardize_f32(const uint32_t *a, unsigned char *const *base) {
    scare_standardize_f32(at(a[0], base), at(a[1], base), at(a[2], base), a[3], a[4]);
    return a + 5;
}

static const uint8_t rules_state_space_f32[] = {11, 194, 130, 130, 130, 130, 130, 130, 0, 0, 0, 0, 8, 10, 34, 8, 32, 128, 7, 8, 34, 10, 34, 129, 7, 9, 34, 130, 9, 131, 7, 8, 34, 132, 8, 133, 8, 134, 16, 1, 7, 39, 144, 255};
static const uint32_t *call_state_space_f32(const uint32_t *a, unsigned char *const *base) {
    scare_state_space_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), at(a[5], base), at(a[6], base), a[7], a[8], a[9], a[10]);
    return a + 11;
}

static const uint8_t rules_token_rows_f32[] = {9, 194, 130, 130, 130, 130, 0, 0, 0, 0, 5, 8, 34, 128, 5, 6, 34, 129, 7, 7, 16, 0, 40, 8, 34, 41, 130, 5, 131, 8, 7, 6, 32, 5, 32, 34, 132, 16, 1, 6, 39, 144, 255};
static const uint32_t *call_token_rows_f32(const uint32_t *a, unsigned char *const *base) {
    scare_token_rows_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), a[5], a[6], a[7], a[8]);
    return a + 9;
}

static const uint8_t rules_trees_f32[] = {8, 194, 130, 128, 130, 130, 0, 0, 0, 16, 1, 5, 6, 37, 16, 1, 33, 34, 32, 130, 16, 1, 5, 6, 16, 1, 32, 37, 16, 1, 33, 34, 32, 131, 16, 2, 7, 34, 132, 49, 2, 0, 1, 16, 1, 32, 7, 41, 129, 16, 1, 5, 16, 4, 32, 16, 4, 35, 32, 128, 16, 1, 6, 39, 6, 16, 6, 39, 34, 144, 255};
static const uint32_t *call_trees_f32(const uint32_t *a, unsigned char *const *base) {
    scare_trees_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), a[5], a[6], a[7]);
    return a + 8;
}

static const uint8_t rules_trees_wide_f32[] = {8, 194, 130, 129, 130, 130, 0, 0, 0, 16, 1, 5, 6, 37, 16, 1, 33, 34, 32, 130, 16, 1, 5, 6, 16, 1, 32, 37, 16, 1, 33, 34, 32, 131, 16, 2, 7, 34, 132, 49, 2, 0, 1, 16, 1, 32, 7, 41, 129, 16, 1, 5, 16, 4, 32, 16, 4, 35, 32, 128, 16, 1, 6, 39, 6, 16, 6, 39, 34, 144, 255};
static const uint32_t *call_trees_wide_f32(const uint32_t *a, unsigned char *const *base) {
    scare_trees_wide_f32(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), a[5], a[6], a[7]);
    return a + 8;
}

static const uint8_t rules_window_moments_f32[] = {5, 194, 130, 0, 0, 3, 16, 2, 3, 34, 128, 2, 3, 34, 129, 255};
static const uint32_t *call_window_moments_f32(const uint32_t *a, unsigned char *const *base) {
    scare_window_moments_f32(at(a[0], base), at(a[1], base), a[2], a[3], real(a[4]));
    return a + 5;
}

#endif

#if SCARE_BLOB_FIXED
static const uint8_t rules_add_q[] = {5, 194, 162, 162, 0, 0, 3, 128, 3, 129, 3, 130, 4, 16, 31, 39, 144, 255};
static const uint32_t *call_add_q(const uint32_t *a, unsigned char *const *base) {
    scare_add_q(at(a[0], base), at(a[1], base), at(a[2], base), a[3], a[4]);
    return a + 5;
}

static const uint8_t rules_bins_q[] = {10, 194, 129, 129, 129, 130, 0, 0, 0, 0, 0, 8, 131, 6, 130, 8, 132, 7, 16, 1, 33, 5, 34, 6, 32, 129, 8, 7, 34, 128, 16, 1, 7, 39, 144, 49, 3, 0, 1, 6, 39, 144, 16, 1, 9, 39, 9, 16, 62, 39, 34, 144, 255};
static const uint32_t *call_bins_q(const uint32_t *a, unsigned char *const *base) {
    scare_bins_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), a[5], a[6], a[7], a[8], a[9]);
    return a + 10;
}

static const uint8_t rules_bitwise_attention_8_q[] = {7, 194, 130, 130, 130, 0, 0, 0, 4, 129, 4, 130, 4, 16, 8, 34, 131, 4, 16, 8, 34, 4, 16, 1, 32, 16, 2, 35, 16, 10, 34, 32, 128, 16, 1, 4, 39, 4, 16, 32, 39, 34, 144, 4, 5, 34, 18, 0, 0, 1, 0, 39, 144, 6, 16, 14, 39, 144, 5, 6, 37, 34, 17, 255, 127, 39, 144, 255};
static const uint32_t *call_bitwise_attention_8_q(const uint32_t *a, unsigned char *const *base) {
    scare_bitwise_attention_8_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], a[5], a[6]);
    return a + 7;
}

static const uint8_t rules_bitwise_attention_q[] = {8, 194, 130, 130, 130, 0, 0, 0, 0, 4, 129, 4, 130, 4, 5, 34, 131, 4, 5, 34, 4, 16, 1, 32, 16, 2, 35, 5, 16, 2, 32, 34, 32, 128, 16, 1, 4, 39, 4, 16, 32, 39, 34, 144, 5, 16, 4, 36, 16, 0, 40, 144, 4, 6, 34, 18, 0, 0, 1, 0, 39, 144, 7, 16, 17, 39, 144, 255};
static const uint32_t *call_bitwise_attention_q(const uint32_t *a, unsigned char *const *base) {
    scare_bitwise_attention_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], a[5], a[6], a[7]);
    return a + 8;
}

static const uint8_t rules_dense_1_q[] = {6, 194, 130, 129, 0, 2, 0, 16, 1, 128, 3, 129, 3, 16, 1, 32, 16, 2, 35, 16, 2, 34, 130, 5, 16, 31, 39, 144, 255};
static const uint32_t *call_dense_1_q(const uint32_t *a, unsigned char *const *base) {
    scare_dense_1_q(at(a[0], base), at(a[1], base), at(a[2], base), a[3], (int32_t)a[4], a[5]);
    return a + 6;
}

static const uint8_t rules_dense_q[] = {8, 194, 130, 129, 130, 128, 0, 0, 0, 5, 7, 34, 128, 5, 6, 34, 129, 7, 16, 3, 32, 16, 4, 35, 16, 4, 34, 6, 16, 1, 32, 16, 2, 35, 16, 2, 34, 34, 130, 7, 16, 3, 32, 16, 4, 35, 16, 4, 34, 131, 7, 132, 16, 1, 6, 39, 144, 49, 4, 0, 1, 16, 31, 39, 144, 255};
static const uint32_t *call_dense_q(const uint32_t *a, unsigned char *const *base) {
    scare_dense_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), a[5], a[6], a[7]);
    return a + 8;
}

static const uint8_t rules_feed_forward_8_q[] = {9, 194, 130, 129, 129, 130, 0, 0, 0, 2, 5, 16, 8, 34, 128, 5, 16, 8, 34, 129, 6, 16, 7, 32, 16, 8, 35, 16, 8, 34, 16, 10, 34, 130, 16, 8, 6, 16, 7, 32, 16, 8, 35, 16, 8, 34, 34, 131, 16, 8, 132, 6, 16, 128, 39, 144, 7, 16, 31, 39, 144, 16, 0, 8, 39, 8, 17, 232, 3, 39, 34, 144, 255};
static const uint32_t *call_feed_forward_8_q(const uint32_t *a, unsigned char *const *base) {
    scare_feed_forward_8_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), a[5], a[6], a[7], (int32_t)a[8]);
    return a + 9;
}

static const uint8_t rules_feed_forward_q[] = {10, 194, 130, 129, 129, 130, 0, 0, 0, 0, 2, 5, 6, 34, 128, 5, 6, 34, 129, 7, 16, 7, 32, 16, 8, 35, 16, 8, 34, 16, 2, 6, 16, 7, 32, 16, 8, 35, 16, 8, 34, 32, 34, 130, 6, 16, 3, 32, 16, 4, 35, 16, 4, 34, 7, 16, 7, 32, 16, 8, 35, 16, 8, 34, 34, 131, 6, 16, 3, 32, 16, 4, 35, 16, 4, 34, 132, 16, 1, 6, 39, 6, 16, 32, 39, 34, 144, 7, 16, 128, 39, 144, 8, 16, 31, 39, 144, 16, 0, 9, 39, 9, 17, 232, 3, 39, 34, 144, 255};
static const uint32_t *call_feed_forward_q(const uint32_t *a, unsigned char *const *base) {
    scare_feed_forward_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), a[5], a[6], a[7], a[8], (int32_t)a[9]);
    return a + 10;
}

static const uint8_t rules_hash_codes_8_16_q[] = {7, 194, 130, 129, 130, 129, 0, 0, 5, 128, 5, 16, 8, 34, 129, 16, 128, 130, 16, 4, 131, 6, 16, 18, 34, 132, 16, 1, 6, 39, 6, 16, 32, 39, 34, 144, 6, 16, 4, 36, 16, 0, 40, 144, 255};
static const uint32_t *call_hash_codes_8_16_q(const uint32_t *a, unsigned char *const *base) {
    scare_hash_codes_8_16_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), a[5], a[6]);
    return a + 7;
}

static const uint8_t rules_hash_codes_q[] = {10, 194, 130, 129, 130, 129, 0, 0, 0, 0, 0, 5, 128, 5, 6, 34, 129, 7, 16, 7, 32, 16, 8, 35, 16, 8, 34, 6, 16, 7, 32, 16, 8, 35, 16, 8, 34, 34, 130, 9, 131, 8, 16, 2, 7, 16, 7, 32, 16, 8, 35, 16, 8, 34, 32, 34, 132, 16, 1, 6, 39, 6, 16, 32, 39, 34, 144, 16, 1, 7, 39, 7, 16, 64, 39, 34, 144, 16, 1, 8, 39, 8, 16, 32, 39, 34, 144, 16, 1, 9, 39, 9, 16, 12, 39, 34, 144, 255};
static const uint32_t *call_hash_codes_q(const uint32_t *a, unsigned char *const *base) {
    scare_hash_codes_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), a[5], a[6], a[7], a[8], a[9]);
    return a + 10;
}

static const uint8_t rules_hat_basis_q[] = {7, 194, 129, 129, 129, 0, 0, 0, 16, 4, 6, 16, 1, 33, 34, 130, 16, 2, 48, 2, 0, 4, 48, 2, 1, 4, 32, 34, 131, 5, 16, 1, 33, 4, 34, 16, 2, 48, 2, 0, 4, 34, 32, 129, 6, 5, 34, 128, 16, 2, 6, 39, 144, 16, 1, 5, 39, 144, 4, 16, 2, 36, 16, 0, 40, 144, 49, 2, 2, 4, 16, 31, 39, 144, 49, 2, 3, 4, 16, 31, 39, 144, 255};
static const uint32_t *call_hat_basis_q(const uint32_t *a, unsigned char *const *base) {
    scare_hat_basis_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], a[5], a[6]);
    return a + 7;
}

static const uint8_t rules_layer_norm_8_q[] = {6, 194, 162, 130, 0, 1, 1, 3, 16, 8, 34, 128, 3, 16, 8, 34, 129, 16, 16, 130, 16, 1, 3, 39, 144, 255};
static const uint32_t *call_layer_norm_8_q(const uint32_t *a, unsigned char *const *base) {
    scare_layer_norm_8_q(at(a[0], base), at(a[1], base), at(a[2], base), a[3], a[4], a[5]);
    return a + 6;
}

static const uint8_t rules_layer_norm_q[] = {7, 194, 162, 130, 0, 0, 1, 1, 3, 4, 34, 128, 3, 4, 34, 129, 16, 2, 4, 16, 1, 32, 16, 2, 35, 16, 2, 34, 34, 130, 16, 1, 4, 39, 4, 16, 32, 39, 34, 144, 255};
static const uint32_t *call_layer_norm_q(const uint32_t *a, unsigned char *const *base) {
    scare_layer_norm_q(at(a[0], base), at(a[1], base), at(a[2], base), a[3], a[4], a[5], a[6]);
    return a + 7;
}

static const uint8_t rules_lens_q[] = {6, 194, 130, 129, 0, 0, 0, 5, 4, 34, 128, 3, 4, 34, 129, 5, 16, 3, 32, 16, 4, 35, 16, 4, 34, 3, 16, 1, 32, 16, 2, 35, 16, 2, 34, 34, 130, 16, 1, 4, 39, 144, 255};
static const uint32_t *call_lens_q(const uint32_t *a, unsigned char *const *base) {
    scare_lens_q(at(a[0], base), at(a[1], base), at(a[2], base), a[3], a[4], a[5]);
    return a + 6;
}

static const uint8_t rules_newest_q[] = {5, 194, 129, 0, 0, 0, 4, 128, 4, 16, 1, 33, 2, 34, 3, 32, 129, 16, 1, 3, 39, 144, 16, 1, 4, 39, 144, 255};
static const uint32_t *call_newest_q(const uint32_t *a, unsigned char *const *base) {
    scare_newest_q(at(a[0], base), at(a[1], base), a[2], a[3], a[4]);
    return a + 5;
}

static const uint8_t rules_products_q[] = {5, 194, 130, 130, 0, 2, 3, 3, 16, 1, 32, 34, 16, 2, 35, 128, 3, 129, 3, 130, 16, 0, 4, 39, 4, 17, 255, 127, 39, 34, 144, 255};
static const uint32_t *call_products_q(const uint32_t *a, unsigned char *const *base) {
    scare_products_q(at(a[0], base), at(a[1], base), at(a[2], base), a[3], (int32_t)a[4]);
    return a + 5;
}

static const uint8_t rules_project_q[] = {12, 194, 129, 128, 129, 130, 0, 0, 0, 0, 0, 0, 0, 10, 16, 1, 7, 6, 34, 41, 34, 128, 6, 16, 1, 33, 5, 34, 8, 32, 9, 32, 129, 10, 10, 16, 4, 36, 16, 3, 40, 32, 16, 1, 16, 1, 7, 33, 6, 34, 41, 34, 8, 34, 130, 10, 10, 16, 4, 36, 16, 3, 40, 32, 16, 1, 16, 1, 7, 33, 6, 34, 41, 34, 9, 34, 131, 16, 3, 10, 34, 132, 7, 16, 1, 39, 144, 16, 1, 6, 39, 144, 8, 16, 8, 36, 16, 0, 40, 144, 9, 16, 2, 36, 16, 0, 40, 144, 16, 1, 11, 39, 11, 16, 62, 39, 34, 144, 5, 16, 2, 36, 16, 0, 40, 144, 255};
static const uint32_t *call_project_q(const uint32_t *a, unsigned char *const *base) {
    scare_project_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
    return a + 12;
}

static const uint8_t rules_read_out_8_q[] = {10, 194, 130, 129, 129, 129, 0, 0, 0, 2, 2, 16, 1, 128, 5, 6, 16, 7, 32, 16, 8, 35, 16, 8, 34, 34, 131, 5, 16, 8, 34, 129, 6, 16, 7, 32, 16, 8, 35, 16, 8, 34, 16, 10, 34, 130, 5, 16, 8, 34, 132, 16, 1, 6, 39, 6, 16, 128, 39, 34, 144, 7, 16, 31, 39, 144, 16, 0, 16, 31, 33, 8, 39, 8, 17, 232, 3, 39, 34, 144, 255};
static const uint32_t *call_read_out_8_q(const uint32_t *a, unsigned char *const *base) {
    scare_read_out_8_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), a[5], a[6], a[7], (int32_t)a[8], (int32_t)a[9]);
    return a + 10;
}

static const uint8_t rules_read_out_q[] = {11, 194, 130, 129, 129, 129, 0, 0, 0, 0, 2, 2, 16, 1, 128, 5, 7, 16, 7, 32, 16, 8, 35, 16, 8, 34, 34, 131, 5, 6, 34, 129, 7, 16, 7, 32, 16, 8, 35, 16, 8, 34, 16, 2, 6, 16, 7, 32, 16, 8, 35, 16, 8, 34, 32, 34, 130, 5, 6, 16, 1, 32, 16, 2, 35, 16, 2, 34, 34, 132, 16, 1, 6, 39, 6, 16, 32, 39, 34, 144, 7, 16, 128, 39, 144, 8, 16, 31, 39, 144, 16, 0, 16, 31, 33, 9, 39, 9, 17, 232, 3, 39, 34, 144, 255};
static const uint32_t *call_read_out_q(const uint32_t *a, unsigned char *const *base) {
    scare_read_out_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), a[5], a[6], a[7], a[8], (int32_t)a[9], (int32_t)a[10]);
    return a + 11;
}

static const uint8_t rules_result_q[] = {4, 194, 130, 2, 3, 16, 1, 128, 16, 1, 129, 255};
static const uint32_t *call_result_q(const uint32_t *a, unsigned char *const *base) {
    scare_result_q(at(a[0], base), at(a[1], base), (int32_t)a[2], real(a[3]));
    return a + 4;
}

static const uint8_t rules_softmax_attention_q[] = {13, 194, 130, 130, 130, 0, 0, 0, 0, 2, 2, 0, 0, 0, 4, 5, 34, 6, 34, 129, 4, 5, 34, 6, 34, 130, 4, 5, 34, 7, 34, 131, 4, 5, 34, 7, 16, 2, 6, 16, 1, 32, 16, 2, 35, 34, 32, 34, 4, 16, 1, 32, 16, 2, 35, 5, 34, 7, 34, 32, 128, 16, 1, 4, 39, 4, 16, 32, 39, 34, 144, 16, 1, 6, 39, 144, 16, 0, 8, 39, 144, 16, 0, 17, 232, 3, 33, 9, 39, 9, 17, 232, 3, 39, 34, 144, 6, 16, 2, 10, 34, 37, 34, 16, 30, 37, 39, 144, 4, 16, 13, 11, 32, 37, 34, 16, 31, 37, 38, 144, 11, 16, 15, 39, 144, 16, 1, 11, 12, 32, 39, 11, 12, 32, 16, 32, 39, 34, 144, 255};
static const uint32_t *call_softmax_attention_q(const uint32_t *a, unsigned char *const *base) {
    scare_softmax_attention_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), a[4], a[5], a[6], a[7], (int32_t)a[8], (int32_t)a[9], a[10], a[11], a[12]);
    return a + 13;
}

static const uint8_t rules_token_rows_1_8_q[] = {8, 194, 130, 130, 129, 129, 130, 0, 0, 6, 16, 8, 34, 128, 6, 129, 7, 7, 16, 0, 40, 16, 8, 34, 41, 130, 16, 8, 131, 16, 8, 7, 16, 1, 32, 16, 2, 35, 16, 2, 34, 34, 132, 6, 16, 9, 34, 133, 16, 1, 6, 39, 144, 255};
static const uint32_t *call_token_rows_1_8_q(const uint32_t *a, unsigned char *const *base) {
    scare_token_rows_1_8_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), at(a[5], base), a[6], a[7]);
    return a + 8;
}

static const uint8_t rules_token_rows_8_q[] = {9, 194, 130, 130, 129, 129, 130, 0, 0, 0, 6, 16, 8, 34, 128, 6, 7, 34, 129, 8, 8, 16, 0, 40, 16, 8, 34, 41, 130, 16, 8, 7, 34, 131, 16, 8, 8, 16, 1, 32, 16, 2, 35, 16, 2, 34, 34, 132, 6, 16, 9, 34, 133, 16, 1, 6, 39, 144, 16, 1, 7, 39, 144, 255};
static const uint32_t *call_token_rows_8_q(const uint32_t *a, unsigned char *const *base) {
    scare_token_rows_8_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), at(a[5], base), a[6], a[7], a[8]);
    return a + 9;
}

static const uint8_t rules_token_rows_q[] = {10, 194, 130, 130, 129, 129, 130, 0, 0, 0, 0, 6, 9, 34, 128, 6, 7, 34, 129, 8, 8, 16, 0, 40, 9, 34, 41, 130, 9, 7, 34, 131, 9, 8, 16, 1, 32, 16, 2, 35, 16, 2, 34, 34, 132, 9, 16, 4, 35, 6, 34, 16, 5, 34, 133, 16, 1, 6, 39, 144, 16, 1, 7, 39, 144, 9, 16, 4, 36, 16, 0, 40, 144, 255};
static const uint32_t *call_token_rows_q(const uint32_t *a, unsigned char *const *base) {
    scare_token_rows_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), at(a[5], base), a[6], a[7], a[8], a[9]);
    return a + 10;
}

static const uint8_t rules_trees_3_q[] = {9, 194, 130, 128, 129, 130, 0, 0, 0, 0, 16, 1, 5, 16, 7, 34, 32, 130, 16, 1, 5, 16, 15, 34, 32, 131, 16, 2, 6, 34, 132, 49, 2, 0, 1, 16, 1, 32, 6, 41, 129, 16, 1, 5, 16, 4, 32, 16, 4, 35, 32, 128, 5, 17, 0, 64, 39, 144, 7, 16, 31, 39, 144, 8, 16, 31, 39, 144, 255};
static const uint32_t *call_trees_3_q(const uint32_t *a, unsigned char *const *base) {
    scare_trees_3_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), a[5], a[6], a[7], a[8]);
    return a + 9;
}

static const uint8_t rules_trees_q[] = {10, 194, 130, 128, 129, 130, 0, 0, 0, 0, 0, 16, 1, 5, 6, 37, 16, 1, 33, 34, 32, 130, 16, 1, 5, 6, 16, 1, 32, 37, 16, 1, 33, 34, 32, 131, 16, 2, 7, 34, 132, 49, 2, 0, 1, 16, 1, 32, 7, 41, 129, 16, 1, 5, 16, 4, 32, 16, 4, 35, 32, 128, 16, 1, 6, 39, 6, 16, 6, 39, 34, 144, 5, 17, 0, 64, 39, 144, 8, 16, 31, 39, 144, 9, 16, 31, 39, 144, 255};
static const uint32_t *call_trees_q(const uint32_t *a, unsigned char *const *base) {
    scare_trees_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), a[5], a[6], a[7], a[8], a[9]);
    return a + 10;
}

static const uint8_t rules_trees_wide_q[] = {10, 194, 130, 129, 129, 130, 0, 0, 0, 0, 0, 16, 1, 5, 6, 37, 16, 1, 33, 34, 32, 130, 16, 1, 5, 6, 16, 1, 32, 37, 16, 1, 33, 34, 32, 131, 16, 2, 7, 34, 132, 49, 2, 0, 1, 16, 1, 32, 7, 41, 129, 16, 1, 5, 16, 4, 32, 16, 4, 35, 32, 128, 16, 1, 6, 39, 6, 16, 6, 39, 34, 144, 5, 17, 0, 64, 39, 144, 8, 16, 31, 39, 144, 9, 16, 31, 39, 144, 255};
static const uint32_t *call_trees_wide_q(const uint32_t *a, unsigned char *const *base) {
    scare_trees_wide_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), a[5], a[6], a[7], a[8], a[9]);
    return a + 10;
}

static const uint8_t rules_trees_window_q[] = {12, 194, 129, 129, 129, 130, 0, 0, 0, 0, 0, 0, 0, 16, 1, 5, 6, 37, 16, 1, 33, 34, 32, 130, 16, 1, 5, 6, 16, 1, 32, 37, 16, 1, 33, 34, 32, 131, 16, 2, 7, 34, 132, 49, 2, 0, 1, 16, 1, 32, 8, 9, 34, 41, 129, 16, 1, 5, 16, 4, 32, 16, 4, 35, 32, 128, 16, 1, 6, 39, 6, 16, 6, 39, 34, 144, 5, 17, 0, 64, 39, 144, 10, 16, 31, 39, 144, 11, 16, 31, 39, 144, 7, 8, 9, 34, 39, 144, 255};
static const uint32_t *call_trees_window_q(const uint32_t *a, unsigned char *const *base) {
    scare_trees_window_q(at(a[0], base), at(a[1], base), at(a[2], base), at(a[3], base), at(a[4], base), a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
    return a + 12;
}

#endif

static const scare_kernel kernels[] = {
#if SCARE_BLOB_FLOAT32
    {0x8b94ebe0u, call_add_f32, rules_add_f32},
    {0x927f7f2au, call_add_outer_f32, rules_add_outer_f32},
    {0x4d838575u, call_affine_f32, rules_affine_f32},
    {0x3882cfc5u, call_attention_scores_f32, rules_attention_scores_f32},
    {0x3ba90ecfu, call_bins_f32, rules_bins_f32},
    {0x78e4e383u, call_bitwise_attention_f32, rules_bitwise_attention_f32},
    {0x4653216cu, call_blend_f32, rules_blend_f32},
    {0x0ed442fdu, call_causal_convolution_f32, rules_causal_convolution_f32},
    {0x253e4a93u, call_dense_f32, rules_dense_f32},
    {0x35f8cce7u, call_divide_f32, rules_divide_f32},
    {0x0307871au, call_feed_forward_8_f32, rules_feed_forward_8_f32},
    {0x93f9cbbfu, call_feed_forward_f32, rules_feed_forward_f32},
    {0x6b7783b8u, call_feed_forward_gelu_f32, rules_feed_forward_gelu_f32},
    {0xf07e8810u, call_gelu_f32, rules_gelu_f32},
    {0xc260ee06u, call_hash_codes_f32, rules_hash_codes_f32},
    {0xb629e1d5u, call_hat_basis_f32, rules_hat_basis_f32},
    {0x8ab99089u, call_layer_norm_8_f32, rules_layer_norm_8_f32},
    {0xb2d75c09u, call_layer_norm_f32, rules_layer_norm_f32},
    {0xeed12a0cu, call_leaky_relu_f32, rules_leaky_relu_f32},
    {0x1dc84481u, call_lens_f32, rules_lens_f32},
    {0x23b4788bu, call_lstm_f32, rules_lstm_f32},
    {0xee0b0640u, call_memory_attention_f32, rules_memory_attention_f32},
    {0x39f10604u, call_multiply_f32, rules_multiply_f32},
    {0x4e90c6d4u, call_newest_rows_f32, rules_newest_rows_f32},
    {0x684d12c4u, call_patches_f32, rules_patches_f32},
    {0xf76381ccu, call_polynomial_f32, rules_polynomial_f32},
    {0x7bfddb7au, call_products_f32, rules_products_f32},
    {0xa108ed29u, call_read_out_8_f32, rules_read_out_8_f32},
    {0xf0a8cdf3u, call_read_out_f32, rules_read_out_f32},
    {0xd0dea957u, call_read_out_gelu_f32, rules_read_out_gelu_f32},
    {0x54246eafu, call_relu_f32, rules_relu_f32},
    {0x58a60223u, call_restore_f32, rules_restore_f32},
    {0xb6c9ed45u, call_rms_norm_f32, rules_rms_norm_f32},
    {0xd553e2c5u, call_sigmoid_mean_f32, rules_sigmoid_mean_f32},
    {0x16c13c2eu, call_silu_f32, rules_silu_f32},
    {0x46925f7cu, call_softmax_attention_f32, rules_softmax_attention_f32},
    {0x91a9c1b1u, call_softmax_mix_f32, rules_softmax_mix_f32},
    {0x9b9a6f7au, call_standardize_f32, rules_standardize_f32},
    {0x54479df5u, call_state_space_f32, rules_state_space_f32},
    {0xf9789ea2u, call_token_rows_f32, rules_token_rows_f32},
    {0x549ec078u, call_trees_f32, rules_trees_f32},
    {0xb34c037fu, call_trees_wide_f32, rules_trees_wide_f32},
    {0x8158390au, call_window_moments_f32, rules_window_moments_f32},
#endif
#if SCARE_BLOB_FIXED
    {0x3789f43au, call_add_q, rules_add_q},
    {0x2325cba5u, call_bins_q, rules_bins_q},
    {0x217059a0u, call_bitwise_attention_8_q, rules_bitwise_attention_8_q},
    {0xf0f263b5u, call_bitwise_attention_q, rules_bitwise_attention_q},
    {0x289dd33bu, call_dense_1_q, rules_dense_1_q},
    {0xe7ed1cd5u, call_dense_q, rules_dense_q},
    {0x1ea1ea21u, call_feed_forward_8_q, rules_feed_forward_8_q},
    {0x03796bd6u, call_feed_forward_q, rules_feed_forward_q},
    {0xa2286298u, call_hash_codes_8_16_q, rules_hash_codes_8_16_q},
    {0xa26c0ecfu, call_hash_codes_q, rules_hash_codes_q},
    {0x88054cb3u, call_hat_basis_q, rules_hat_basis_q},
    {0x06be464du, call_layer_norm_8_q, rules_layer_norm_8_q},
    {0x6c727efau, call_layer_norm_q, rules_layer_norm_q},
    {0x4785a67cu, call_lens_q, rules_lens_q},
    {0x66e2da58u, call_newest_q, rules_newest_q},
    {0xf382b35eu, call_products_q, rules_products_q},
    {0xea126444u, call_project_q, rules_project_q},
    {0xe01a7a16u, call_read_out_8_q, rules_read_out_8_q},
    {0xdad311cbu, call_read_out_q, rules_read_out_q},
    {0xd0cc24dcu, call_result_q, rules_result_q},
    {0xd70bebeeu, call_softmax_attention_q, rules_softmax_attention_q},
    {0x70eddbe5u, call_token_rows_1_8_q, rules_token_rows_1_8_q},
    {0xbdc75a32u, call_token_rows_8_q, rules_token_rows_8_q},
    {0x6781d90eu, call_token_rows_q, rules_token_rows_q},
    {0xaa0f914bu, call_trees_3_q, rules_trees_3_q},
    {0x8a68de3fu, call_trees_q, rules_trees_q},
    {0x74eea8b2u, call_trees_wide_q, rules_trees_wide_q},
    {0x7ff4f0bbu, call_trees_window_q, rules_trees_window_q},
#endif
};

/* clang-format on */

#endif
