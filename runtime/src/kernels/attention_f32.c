#include "scare_kernels.h"
#include "math_f32.h"
#include "product_f32.h"

#define CHUNK 16u /* supports at a time */
#define BITS 32u

/* One bit for each sum that is not negative. */
SCARE_INLINE uint32_t signs(scare_four sum) {
    uint32_t bits = sum.a >= 0.0f ? 1u : 0u;
    bits |= sum.b >= 0.0f ? 2u : 0u;
    bits |= sum.c >= 0.0f ? 4u : 0u;
    return bits | (sum.d >= 0.0f ? 8u : 0u);
}

void scare_hash_codes_f32(uint32_t *codes, const float *x, const float *table, uint32_t rows, uint32_t width,
                          uint32_t supports, uint32_t bits, float sharpness, float epsilon) {
    float kernel[CHUNK], sums[BITS];
    for (uint32_t r = 0; r < rows; r++, x += width) {
        const float *same = x;
        float squares = scare_add_dot(epsilon, x, &same, width);
        float inverse = 1.0f / scare_sqrt(squares);
        const float *before = table, *next = table + bits;
        uint32_t code = 0;
        for (uint32_t s = 0; s < supports; s += CHUNK, before = sums) {
            SCARE_ROLLED for (uint32_t i = 0; i < CHUNK; i += 4) {
                scare_four dot = {0.0f, 0.0f, 0.0f, 0.0f};
                scare_add_products(&dot, x, &next, width);
                dot.a = scare_exp2_f32(SCARE_MLA(dot.a, inverse, -sharpness));
                dot.b = scare_exp2_f32(SCARE_MLA(dot.b, inverse, -sharpness));
                dot.c = scare_exp2_f32(SCARE_MLA(dot.c, inverse, -sharpness));
                dot.d = scare_exp2_f32(SCARE_MLA(dot.d, inverse, -sharpness));
                scare_store_four(kernel + i, dot);
            }
            code = 0;
            SCARE_ROLLED for (uint32_t b = 0; b < bits; b += 4) {
                scare_four sum = scare_load_four(before + b);
                scare_add_products(&sum, kernel, &next, CHUNK);
                scare_store_four(sums + b, sum);
                code |= signs(sum) << b;
            }
        }
        codes[r] = code;
    }
}

/* The rows of v, weighted, times a factor. */
SCARE_INLINE void mix(float *out, const float *share, const float *v, uint32_t rows, uint32_t step, uint32_t columns,
                      float factor) {
    uint32_t d = 0;
    for (; d + 4 <= columns; d += 4) {
        scare_four sum = {0.0f, 0.0f, 0.0f, 0.0f};
        const float *from = v + d;
        SCARE_ROLLED for (uint32_t r = 0; r < rows; r++, from += step - 4) scare_add_product(&sum, share[r], &from);
        scare_four scaled = {sum.a * factor, sum.b * factor, sum.c * factor, sum.d * factor};
        scare_store_four(out + d, scaled);
    }
    SCARE_ROLLED for (; d < columns; d++) {
        float sum = 0.0f;
        SCARE_ROLLED for (uint32_t r = 0; r < rows; r++) sum = SCARE_MLA(share[r], v[r * step + d], sum);
        out[d] = sum * factor;
    }
}

SCARE_INLINE int32_t agreement(uint32_t a, uint32_t b, uint32_t bits) {
    return (int32_t)bits - 2 * (int32_t)scare_count_bits(a ^ b);
}

void scare_bitwise_attention_f32(float *out, const uint32_t *q, const uint32_t *k, const float *v, uint32_t queries,
                                 uint32_t keys, uint32_t width, uint32_t bits, uint32_t bias) {
    float *share = out + queries * width;
    for (uint32_t i = 0; i < queries; i++) {
        int32_t total = 0;
        SCARE_ROLLED for (uint32_t j = 0; j < keys; j++) {
            int32_t similarity = agreement(q[i], k[j], bits + bias);
            total += similarity;
            share[j] = (float)similarity;
        }
        mix(out + i * width, share, v, keys, width, width, 1.0f / (float)total);
    }
}

void scare_memory_attention_f32(float *out, const uint32_t *q, const uint32_t *k, const float *v, uint32_t queries,
                                uint32_t keys, uint32_t width, uint32_t bits, uint32_t bias) {
    float *share = out + queries * width;
    for (uint32_t i = 0; i < queries; i++) {
        int32_t total = (int32_t)(bias * keys);
        SCARE_ROLLED for (uint32_t j = 0; j < keys; j++) {
            int32_t similarity = agreement(q[i], k[j], bits);
            total += similarity;
            share[j] = (float)similarity;
        }
        share[keys - queries + i] += (float)bias;
        mix(out + i * width, share, v, keys, width, width, 1.0f / (float)total);
    }
}

static float largest(const float *x, uint32_t count) {
    float most = x[0];
    for (uint32_t i = 1; i < count; i++) most = x[i] > most ? x[i] : most;
    return most;
}

/* share = exp(score - largest score); what they sum to. */
static float exponentials(float *share, const float *score, uint32_t count) {
    float most = largest(score, count), total = 0.0f;
    for (uint32_t i = 0; i < count; i++) {
        share[i] = scare_exp_f32(score[i] - most);
        total += share[i];
    }
    return total;
}

static void scores(float *out, const float *q, const float *k, uint32_t keys, uint32_t step, uint32_t width,
                   float factor) {
    for (uint32_t j = 0; j < keys; j++, k += step) {
        const float *next = k;
        out[j] = factor * scare_add_dot(0.0f, q, &next, width);
    }
}

void scare_softmax_attention_f32(float *out, const float *q, const float *k, const float *v, uint32_t queries,
                                 uint32_t keys, uint32_t heads, uint32_t width, uint32_t values, float factor) {
    float *share = out + queries * heads * values;
    for (uint32_t i = 0; i < queries; i++) {
        for (uint32_t h = 0; h < heads; h++) {
            uint32_t row = i * heads + h;
            scores(share, q + row * width, k + h * width, keys, heads * width, width, factor);
            float total = exponentials(share, share, keys);
            mix(out + row * values, share, v + h * values, keys, heads * values, values, 1.0f / total);
        }
    }
}

void scare_attention_scores_f32(float *out, const float *q, const float *k, uint32_t queries, uint32_t keys,
                                uint32_t heads, uint32_t width) {
    for (uint32_t h = 0; h < heads; h++) {
        for (uint32_t i = 0; i < queries; i++, out += keys) {
            scores(out, q + (i * heads + h) * width, k + h * width, keys, heads * width, width, 1.0f);
        }
    }
}

void scare_softmax_mix_f32(float *out, const float *score, const float *v, uint32_t queries, uint32_t keys,
                           uint32_t heads, uint32_t values) {
    float *share = out + queries * heads * values;
    for (uint32_t h = 0; h < heads; h++) {
        for (uint32_t i = 0; i < queries; i++, score += keys) {
            float total = exponentials(share, score, keys);
            mix(out + (i * heads + h) * values, share, v + h * values, keys, heads * values, values, 1.0f / total);
        }
    }
}
