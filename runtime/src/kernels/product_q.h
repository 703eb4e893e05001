/* Products of words and weights of 16 bits, four outputs at a time. */
#ifndef SCARE_PRODUCT_Q_H
#define SCARE_PRODUCT_Q_H

#include "fixed_q.h"

/* A word times four weights, the halves of two words, each product to its own sum. */
SCARE_INLINE void scare_add_to_four(scare_words *sum, int32_t x, int32_t first, int32_t second) {
    sum->a = scare_add_half(x, first, sum->a);
    sum->b = scare_add_upper(x, first, sum->b);
    sum->c = scare_add_half(x, second, sum->c);
    sum->d = scare_add_upper(x, second, sum->d);
}

/* Four outputs of inputs that are `stride` words apart: two inputs at a time, a last one alone. */
SCARE_INLINE scare_words scare_mix_four(const int32_t *x, uint32_t stride, uint32_t inputs, const void **weights,
                                        scare_words sum) {
    const void *table = *weights;
    SCARE_ROLLED
    for (const int32_t *end = x + inputs / 2u * 2u * stride; x != end; x += 2u * stride) {
        scare_words next = scare_next_four(&table);
        scare_add_to_four(&sum, x[0], next.a, next.b);
        scare_add_to_four(&sum, x[stride], next.c, next.d);
    }
    if (inputs % 2u) {
        scare_words next = scare_next_four(&table);
        scare_add_to_four(&sum, x[0], next.a, next.b);
    }
    *weights = table;
    return sum;
}

#endif
