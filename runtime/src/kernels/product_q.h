/* Products of words and weights of 16 bits, four outputs at a time. */
#ifndef SCARE_PRODUCT_Q_H
#define SCARE_PRODUCT_Q_H

#include "fixed_q.h"

/* The products of pairs with four columns of pairs, each column added to its own sum; on to the next columns. */
SCARE_INLINE scare_words scare_add_columns(const int32_t *weights, uint32_t count, const void **columns,
                                           scare_words sum) {
#if SCARE_ASSEMBLY
    register const int32_t *weight __asm__("r4") = weights, *end __asm__("r5") = weights + count;
    register const void *table __asm__("r6") = *columns;
    register int32_t a __asm__("r8") = sum.a, b __asm__("r9") = sum.b, c __asm__("r10") = sum.c;
    register int32_t d __asm__("r11") = sum.d;
    __asm__("1: ldr r12, [r4], #4\n"
            "ldmia r6!, {r0-r3}\n"
            "smlad r8, r12, r0, r8\n"
            "smlad r9, r12, r1, r9\n"
            "smlad r10, r12, r2, r10\n"
            "smlad r11, r12, r3, r11\n"
            "cmp r4, r5\n"
            "bne 1b"
            : "+r"(weight), "+r"(end), "+r"(table), "+r"(a), "+r"(b), "+r"(c), "+r"(d)
            :
            : "r0", "r1", "r2", "r3", "r12", "cc", "memory");
    *columns = table;
    return (scare_words){a, b, c, d};
#else
    SCARE_ROLLED
    for (const int32_t *end = weights + count; weights != end; weights++)
        scare_add_each(&sum, *weights, scare_next_four(columns));
    return sum;
#endif
}

/* A word times four weights, the halves of two words, each product to its own sum. */
SCARE_INLINE void scare_add_to_four(scare_words *sum, int32_t x, int32_t first, int32_t second) {
    sum->a = scare_add_half(x, first, sum->a);
    sum->b = scare_add_upper(x, first, sum->b);
    sum->c = scare_add_half(x, second, sum->c);
    sum->d = scare_add_upper(x, second, sum->d);
}

/* Two inputs that are `bytes` apart times four outputs each, `couples` times, at least once; on to what follows. */
SCARE_INLINE scare_words scare_mix_couples(const int32_t **x, uint32_t bytes, uint32_t couples, const void **weights,
                                           scare_words sum) {
#if SCARE_ASSEMBLY
    register const int32_t *from __asm__("r4") = *x;
    register const void *table __asm__("r5") = *weights;
    register uint32_t distance __asm__("r6") = bytes;
    register int32_t a __asm__("r8") = sum.a, b __asm__("r9") = sum.b, c __asm__("r10") = sum.c;
    register int32_t d __asm__("r11") = sum.d;
    register uint32_t left __asm__("r12") = couples;
    __asm__("1: ldr lr, [r4]\n"
            "ldmia r5!, {r0-r3}\n"
            "smlawb r8, lr, r0, r8\n"
            "smlawt r9, lr, r0, r9\n"
            "smlawb r10, lr, r1, r10\n"
            "smlawt r11, lr, r1, r11\n"
            "ldr lr, [r4, r6]\n"
            "add r4, r4, r6, lsl #1\n"
            "smlawb r8, lr, r2, r8\n"
            "smlawt r9, lr, r2, r9\n"
            "smlawb r10, lr, r3, r10\n"
            "smlawt r11, lr, r3, r11\n"
            "subs r12, r12, #1\n"
            "bne 1b"
            : "+r"(from), "+r"(table), "+r"(distance), "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(left)
            :
            : "r0", "r1", "r2", "r3", "lr", "cc", "memory");
    *x = from, *weights = table;
    return (scare_words){a, b, c, d};
#else
    uint32_t stride = bytes / (uint32_t)sizeof **x;
    SCARE_ROLLED
    for (const int32_t *end = *x + 2u * couples * stride; *x != end; *x += 2u * stride) {
        scare_words next = scare_next_four(weights);
        scare_add_to_four(&sum, (*x)[0], next.a, next.b);
        scare_add_to_four(&sum, (*x)[stride], next.c, next.d);
    }
    return sum;
#endif
}

/* Like the above, for inputs side by side. */
SCARE_INLINE scare_words scare_mix_neighbours(const int32_t **x, uint32_t couples, const void **weights,
                                              scare_words sum) {
#if SCARE_ASSEMBLY
    register const int32_t *from __asm__("r4") = *x;
    register const void *table __asm__("r5") = *weights;
    register int32_t a __asm__("r8") = sum.a, b __asm__("r9") = sum.b, c __asm__("r10") = sum.c;
    register int32_t d __asm__("r11") = sum.d;
    register uint32_t left __asm__("r12") = couples;
    __asm__("1: ldmia r4!, {r6, lr}\n"
            "ldmia r5!, {r0-r3}\n"
            "smlawb r8, r6, r0, r8\n"
            "smlawt r9, r6, r0, r9\n"
            "smlawb r10, r6, r1, r10\n"
            "smlawt r11, r6, r1, r11\n"
            "smlawb r8, lr, r2, r8\n"
            "smlawt r9, lr, r2, r9\n"
            "smlawb r10, lr, r3, r10\n"
            "smlawt r11, lr, r3, r11\n"
            "subs r12, r12, #1\n"
            "bne 1b"
            : "+r"(from), "+r"(table), "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(left)
            :
            : "r0", "r1", "r2", "r3", "r6", "lr", "cc", "memory");
    *x = from, *weights = table;
    return (scare_words){a, b, c, d};
#else
    return scare_mix_couples(x, (uint32_t)sizeof **x, couples, weights, sum);
#endif
}

/* Four outputs of inputs that are `stride` words apart: two inputs at a time, a last one alone. */
SCARE_INLINE scare_words scare_mix_four(const int32_t *x, uint32_t stride, uint32_t inputs, const void **weights,
                                        scare_words sum) {
    const void *table = *weights;
    if (inputs >= 2u && stride == 1u) sum = scare_mix_neighbours(&x, inputs / 2u, &table, sum);
    if (inputs >= 2u && stride != 1u)
        sum = scare_mix_couples(&x, stride * (uint32_t)sizeof *x, inputs / 2u, &table, sum);
    if (inputs % 2u) {
        scare_words next = scare_next_four(&table);
        scare_add_to_four(&sum, x[0], next.a, next.b);
    }
    *weights = table;
    return sum;
}

#endif
