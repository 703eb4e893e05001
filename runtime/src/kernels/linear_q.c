/* Fixed-point kernels: mixing features. */
#include "fixed_q.h"
#include "product_q.h"
#include "scare_fixed.h"

void scare_dense_q(int32_t *out, const int32_t *x, const int16_t *weights, const int32_t *bias, const uint8_t *shifts,
                   uint32_t rows, uint32_t inputs, uint32_t outputs) {
    SCARE_ROLLED
    for (const int32_t *end = x + rows * inputs; x != end; x += inputs) {
        const void *table = weights, *start = bias;
        const uint8_t *shift = shifts;
        SCARE_ROLLED
        for (uint32_t left = outputs; left > 0u;) {
            scare_words sum = scare_mix_four(x, 1u, inputs, &table, scare_next_four(&start));
            uint32_t count = left < 4u ? left : 4u;
            left -= count;
            *out++ = sum.a >> *shift++;
            if (count > 1u) *out++ = sum.b >> *shift++;
            if (count > 2u) *out++ = sum.c >> *shift++;
            if (count > 3u) *out++ = sum.d >> *shift++;
        }
    }
}

void scare_dense_1_q(int32_t *out, const int32_t *x, const int16_t *weights, uint32_t inputs, int32_t bias,
                     uint32_t shift) {
    const void *words = x, *table = weights;
    int32_t sum = bias;
    SCARE_ROLLED
    for (const int32_t *end = x + inputs / 4u * 4u; words != end;) {
        scare_words next = scare_next_four(&words);
        int32_t first = scare_next_word(&table), second = scare_next_word(&table);
        sum = scare_add_upper(next.b, first, scare_add_half(next.a, first, sum));
        sum = scare_add_upper(next.d, second, scare_add_half(next.c, second, sum));
    }
    SCARE_ROLLED
    for (uint32_t i = inputs / 4u * 4u; i < inputs; i++) sum = scare_add_half(x[i], weights[i], sum);
    *out = sum >> shift;
}
