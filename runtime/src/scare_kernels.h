/* Float32 kernels for generated code. `scare_<kernel>_f32` is the counterpart of the NumPy kernel of that name in
 * `scare/kernels`, which defines what it computes; this header defines how its arguments lie in memory.
 *
 * Shapes are given as [rows][columns], the last index fastest. Outputs come first, then values, then constant tables,
 * then sizes and numbers. "In place": the output may use the memory of an input of its size. "Work": scratch numbers
 * after the output. No loop or branch depends on a value: every call with the same sizes takes the same time.
 *
 * A table in blocks of four: the columns of a matrix [inputs][outputs], four at a time as [inputs][4], those left over
 * one at a time as [inputs]. */
#ifndef SCARE_KERNELS_H
#define SCARE_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- window ---- */

/* hats [knots][channels]. Rows in runs that lie between the same two knots: run [runs][2] is the lower knot and the
 * number of rows, fraction [rows] each row's share of the upper knot. */
void scare_hat_basis_f32(float *hats, const float *x, const uint16_t *run, const float *fraction, uint32_t runs,
                         uint32_t channels, uint32_t knots);

/* out [lenses][channels], x [rows][channels], weight [1 + rows][lenses] in blocks of four, bias first. */
void scare_lens_f32(float *out, const float *x, const float *weight, uint32_t rows, uint32_t channels, uint32_t lenses);

/* out [bins][channels], x [rows][channels], length [bins] rows of each bin, weight [rows]. */
void scare_bins_f32(float *out, const float *x, const uint16_t *length, const float *weight, uint32_t bins,
                    uint32_t channels);

/* ---- linear ---- */

/* out [rows][outputs], x [rows][inputs], weight [inputs][outputs] in blocks of four; row r starts at bias + r step:
 * step is 0 for one bias [outputs], `outputs` for a bias of every row. */
void scare_dense_f32(float *out, const float *x, const float *weight, const float *bias, uint32_t rows, uint32_t inputs,
                     uint32_t outputs, uint32_t step);

/* out, z [rows][width], g [width], share [rows]. In place. */
void scare_add_outer_f32(float *out, const float *z, const float *g, const float *share, uint32_t rows, uint32_t width);

/* ---- pointwise: all in place ---- */

void scare_add_f32(float *out, const float *a, const float *b, uint32_t count);
void scare_relu_f32(float *out, const float *x, uint32_t count);
void scare_gelu_f32(float *out, const float *x, uint32_t count);

/* out, x [rows][width], gain, bias [width]. */
void scare_layer_norm_f32(float *out, const float *x, const float *gain, const float *bias, uint32_t rows,
                          uint32_t width, float epsilon);

/* Like the above, for a width of 8. */
void scare_layer_norm_8_f32(float *out, const float *x, const float *gain, const float *bias, uint32_t rows,
                            float epsilon);

/* ---- attention ---- */

/* codes [rows], x [rows][width]; supports are a multiple of 16, bits of four, at most 32. Sharpness and supports are in
 * powers of two: kernel = 2^(unit x . support - sharpness). The table: bias [bits]; then for every 16 supports
 * themselves [width][16] and their projection [16][bits], both in blocks of four. */
void scare_hash_codes_f32(uint32_t *codes, const float *x, const float *table, uint32_t rows, uint32_t width,
                          uint32_t supports, uint32_t bits, float sharpness, float epsilon);

/* out [queries][width], q [queries], k [keys], v [keys][width]. Work: keys. */
void scare_bitwise_attention_f32(float *out, const uint32_t *q, const uint32_t *k, const float *v, uint32_t queries,
                                 uint32_t keys, uint32_t width, uint32_t bits, uint32_t bias);

/* Like the above, with the bias for the query's own value only, queries being the last keys. Work: keys. */
void scare_memory_attention_f32(float *out, const uint32_t *q, const uint32_t *k, const float *v, uint32_t queries,
                                uint32_t keys, uint32_t width, uint32_t bits, uint32_t bias);

/* out [queries][heads][values], q [queries][heads][width], k [keys][heads][width], v [keys][heads][values]; scores are
 * multiplied by the factor. Work: keys. */
void scare_softmax_attention_f32(float *out, const float *q, const float *k, const float *v, uint32_t queries,
                                 uint32_t keys, uint32_t heads, uint32_t width, uint32_t values, float factor);

/* out [heads][queries][keys], q [queries][heads][width], k [keys][heads][width]. */
void scare_attention_scores_f32(float *out, const float *q, const float *k, uint32_t queries, uint32_t keys,
                                uint32_t heads, uint32_t width);

/* out [queries][heads][values], score [heads][queries][keys], v [keys][heads][values]. Work: keys. */
void scare_softmax_mix_f32(float *out, const float *score, const float *v, uint32_t queries, uint32_t keys,
                           uint32_t heads, uint32_t values);

/* ---- state space ---- */

/* out, x [rows][width]. In place. */
void scare_rms_norm_f32(float *out, const float *x, uint32_t rows, uint32_t width, float epsilon);

/* In place. */
void scare_silu_f32(float *out, const float *x, uint32_t count);
void scare_multiply_f32(float *out, const float *a, const float *b, uint32_t count);

/* out [kept][width], x [rows][width]. */
void scare_newest_rows_f32(float *out, const float *x, uint32_t rows, uint32_t width, uint32_t kept);

/* out, x [rows][features], taps [lags][features], bias [features]. In place. */
void scare_causal_convolution_f32(float *out, const float *x, const float *taps, const float *bias, uint32_t rows,
                                  uint32_t features, uint32_t lags);

/* out [heads][width], x [rows][heads][width], b [rows][states], c [states], dt [rows][heads], decay, direct [heads].
 * Work: heads. */
void scare_state_space_f32(float *out, const float *x, const float *b, const float *c, const float *dt,
                           const float *decay, const float *direct, uint32_t rows, uint32_t heads, uint32_t states,
                           uint32_t width);

/* ---- patches ---- */

/* out [count][patch][channels], x [rows][channels]. */
void scare_patches_f32(float *out, const float *x, uint32_t rows, uint32_t channels, uint32_t count, uint32_t patch,
                       uint32_t stride);

/* out, x [rows][width], scale, shift [width]. In place. */
void scare_affine_f32(float *out, const float *x, const float *scale, const float *shift, uint32_t rows,
                      uint32_t width);

/* moments [2][channels], x [rows][channels]. */
void scare_window_moments_f32(float *moments, const float *x, uint32_t rows, uint32_t channels, float epsilon);

/* out, x [rows][channels], moments [2][channels]. In place. */
void scare_standardize_f32(float *out, const float *x, const float *moments, uint32_t rows, uint32_t channels);

/* out, y [1], moments [2][channels]. In place. */
void scare_restore_f32(float *out, const float *y, const float *moments, uint32_t channels);

/* ---- formulas ---- */

/* out [outputs], x [inputs], powers [terms][inputs], weight [1 + terms][outputs]. */
void scare_polynomial_f32(float *out, const float *x, const uint8_t *powers, const float *weight, uint32_t terms,
                          uint32_t inputs, uint32_t outputs);

/* out [count (count + 1) / 2], x [count]. The clamped factors are kept at the end of the output until they are used. */
void scare_products_f32(float *out, const float *x, uint32_t count, float limit);

/* out [1], formulas [count + 1], passages [count][4]: low, high, slope, offset. */
void scare_blend_f32(float *out, const float *formulas, const float *x, const float *passages, uint32_t count);

/* In place. */
void scare_divide_f32(float *out, const float *a, const float *b, uint32_t count);

/* ---- choice ---- */

/* In place. */
void scare_leaky_relu_f32(float *out, const float *x, uint32_t count, float slope);

/* out [width], x [rows][width]. */
void scare_sigmoid_mean_f32(float *out, const float *x, uint32_t rows, uint32_t width);

/* ---- recurrent ---- */

/* out [size], x [rows][channels], table [size][1 + channels + size][4]: bias, input, hidden of the gates i, f, g, o.
 * Work: 2 size. */
void scare_lstm_f32(float *out, const float *x, const float *table, uint32_t rows, uint32_t channels, uint32_t size);

/* ---- fused ---- */

/* out [rows][outputs], seen [rows][channels], shared [inputs], share [rows]; the table: mix [inputs][outputs], local
 * [channels][outputs], bias [rows][outputs] on top of each other in blocks of four. Without mix: inputs is 0 and
 * shared [outputs]. */
void scare_token_rows_f32(float *out, const float *seen, const float *shared, const float *share, const float *table,
                          uint32_t rows, uint32_t channels, uint32_t inputs, uint32_t outputs);

/* out [rows][outputs], x [rows][width]; hidden is a multiple of 16. The table: outer bias [outputs]; then for every 16
 * hidden numbers inner [1 + width][16], bias first, and outer [16][outputs], both in blocks of four. With relu; outer
 * is halved. */
void scare_feed_forward_f32(float *out, const float *x, const float *table, uint32_t rows, uint32_t width,
                            uint32_t hidden, uint32_t outputs);

/* Like the above, for a width of 8. */
void scare_feed_forward_8_f32(float *out, const float *x, const float *table, uint32_t rows, uint32_t hidden,
                              uint32_t outputs);

/* Like the above, with gelu, outer as it is. */
void scare_feed_forward_gelu_f32(float *out, const float *x, const float *table, uint32_t rows, uint32_t width,
                                 uint32_t hidden, uint32_t outputs);

/* out [1], x [rows][width]; hidden is a multiple of 16. inner [1 + width][hidden], bias first, in blocks of four; outer:
 * a bias, then for each row of x the weights of its numbers and of its hidden layer, with relu: these are halved. */
void scare_read_out_f32(float *out, const float *x, const float *inner, const float *outer, uint32_t rows,
                        uint32_t width, uint32_t hidden);

/* Like the above, for a width of 8. */
void scare_read_out_8_f32(float *out, const float *x, const float *inner, const float *outer, uint32_t rows,
                          uint32_t hidden);

/* Like the first, with gelu, the weights as they are. */
void scare_read_out_gelu_f32(float *out, const float *x, const float *inner, const float *outer, uint32_t rows,
                             uint32_t width, uint32_t hidden);

/* ---- trees ---- */

/* out [1], x [inputs], guard [guarded][2]: low and high of the first inputs; 0 if one is outside or NaN. Trees are
 * perfect: the root is node 1, the children of n are 2 n and, above the threshold, 2 n + 1. After one unused number,
 * features [trees][2^depth - 1] is the input that each node compares, table [trees][2^depth - 1 + 2^depth] its
 * threshold, then the leaves. After the output, in trees + 1 bytes: the last node of each path, and 1 if the guarded
 * inputs are inside. */
void scare_trees_f32(float *out, const float *x, const uint8_t *features, const float *table, const float *guard,
                     uint32_t trees, uint32_t depth, uint32_t guarded);

/* Like the above, for more than 256 inputs. */
void scare_trees_wide_f32(float *out, const float *x, const uint16_t *features, const float *table, const float *guard,
                          uint32_t trees, uint32_t depth, uint32_t guarded);

#ifdef __cplusplus
}
#endif

#include "scare_fixed.h"

#endif
