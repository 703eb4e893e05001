/* Arithmetic of the fixed-point kernels; its Python counterpart is scare/kernels/fixed_point.py. */
#ifndef SCARE_FIXED_Q_H
#define SCARE_FIXED_Q_H

#include <stdint.h>

#include "scare_port.h"

#if defined(__ARM_FEATURE_DSP) || defined(__ARM_FEATURE_SAT)
#include <arm_acle.h>
#endif

/* Two int16_t on a word boundary as a word, the first in the low half. A processor that has no unaligned loads would
 * otherwise read byte by byte. */
SCARE_INLINE int32_t scare_pair(const int16_t *numbers) {
    int32_t pair;
    __builtin_memcpy(&pair, __builtin_assume_aligned(numbers, 4), sizeof pair);
    return pair;
}

/* One word, then four. */
SCARE_INLINE scare_words scare_next_five(const void **table, int32_t *first) {
#if SCARE_ASSEMBLY
    register int32_t before __asm__("r0"), a __asm__("r1"), b __asm__("r2"), c __asm__("r3"), d __asm__("r4");
    __asm__("ldmia %[at]!, {r0-r4}"
            : "=r"(before), "=r"(a), "=r"(b), "=r"(c), "=r"(d), [at] "+r"(*table)
            : "m"(*(const int32_t (*)[5])(*table)));
    *first = before;
    return (scare_words){a, b, c, d};
#else
    *first = scare_next_word(table);
    return scare_next_four(table);
#endif
}

/* Keep a compiler from turning a moving pointer into an index, which costs additions. */
#define SCARE_WALK(pointer) __asm__("" : "+r"(pointer))

/* The halves of a pair, and a pair of two halves. */
SCARE_INLINE int32_t scare_low(int32_t pair) {
    return (int16_t)(uint16_t)((uint32_t)pair & 0xffffu);
}

SCARE_INLINE int32_t scare_high(int32_t pair) {
    return pair >> 16;
}

/* The low half without a sign. */
SCARE_INLINE int32_t scare_lower(int32_t word) {
    return (int32_t)((uint32_t)word & 0xffffu);
}

SCARE_INLINE int32_t scare_pack(int32_t low, int32_t high) {
    return (int32_t)(((uint32_t)low & 0xffffu) | ((uint32_t)high << 16));
}

/* The upper halves of two words. */
SCARE_INLINE int32_t scare_pack_upper(int32_t low, int32_t high) {
    return (int32_t)(((uint32_t)low >> 16) | ((uint32_t)high & 0xffff0000u));
}

/* A sum that wraps around, as those of instructions do: numbers of a file may not fit (scare_blob.h). */
SCARE_INLINE int32_t scare_plus(int32_t a, int32_t b) {
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

/* sum + both products of two pairs. */
SCARE_INLINE int32_t scare_add_pairs(int32_t a, int32_t b, int32_t sum) {
#if defined(__ARM_FEATURE_DSP)
    return __smlad(a, b, sum);
#else
    return scare_plus(scare_plus(sum, scare_low(a) * scare_low(b)), scare_high(a) * scare_high(b));
#endif
}

/* sum + the products of four pairs with four others. */
SCARE_INLINE int32_t scare_add_all(const int32_t *pairs, scare_words others, int32_t sum) {
    sum = scare_add_pairs(pairs[0], others.a, sum);
    sum = scare_add_pairs(pairs[1], others.b, sum);
    sum = scare_add_pairs(pairs[2], others.c, sum);
    return scare_add_pairs(pairs[3], others.d, sum);
}

/* The products of a pair with four others, each to its own sum. */
SCARE_INLINE void scare_add_each(scare_words *sum, int32_t pair, scare_words others) {
    sum->a = scare_add_pairs(pair, others.a, sum->a);
    sum->b = scare_add_pairs(pair, others.b, sum->b);
    sum->c = scare_add_pairs(pair, others.c, sum->c);
    sum->d = scare_add_pairs(pair, others.d, sum->d);
}

/* sum + both squares; the sum may use all 32 bits. */
SCARE_INLINE int32_t scare_add_squares(int32_t pair, int32_t sum) {
#if defined(__ARM_FEATURE_DSP)
    return __smlad(pair, pair, sum);
#else
    int32_t low = scare_low(pair), high = scare_high(pair);
    return (int32_t)((uint32_t)sum + (uint32_t)(low * low) + (uint32_t)(high * high));
#endif
}

/* Bytes 0 and 2 of a word as a pair; shifted right by 8 first, bytes 1 and 3. */
SCARE_INLINE int32_t scare_even_bytes(int32_t word) {
#if defined(__ARM_FEATURE_DSP)
    return __sxtb16(word);
#else
    return scare_pack((int8_t)(word & 0xff), (int8_t)((word >> 16) & 0xff));
#endif
}

SCARE_INLINE int32_t scare_odd_bytes(int32_t word) {
    return scare_even_bytes((int32_t)(((uint32_t)word >> 8) | ((uint32_t)word << 24)));
}

/* word * half / 2^16, rounded down, in products of 32 bits: one of 64 is a call or several instructions elsewhere. */
SCARE_INLINE int32_t scare_multiply_half(int32_t word, int32_t half) {
    return scare_plus((word >> 16) * half, (scare_lower(word) * half) >> 16);
}

/* The product of a word and a half-word without its lowest 16 bits, plus a word. */
SCARE_INLINE int32_t scare_add_half(int32_t word, int32_t half, int32_t sum) {
#if defined(__ARM_FEATURE_DSP)
    return __smlawb(word, half, sum);
#else
    return scare_plus(sum, scare_multiply_half(word, scare_low(half)));
#endif
}

/* Like the above, with the upper half of a pair. */
SCARE_INLINE int32_t scare_add_upper(int32_t word, int32_t pair, int32_t sum) {
#if defined(__ARM_FEATURE_DSP)
    return __smlawt(word, pair, sum);
#else
    return scare_plus(sum, scare_multiply_half(word, scare_high(pair)));
#endif
}

/* The upper word of a product. */
SCARE_INLINE int32_t scare_multiply_wide(int32_t a, int32_t b) {
    return (int32_t)(((int64_t)a * b) >> 32);
}

/* In products of 32 bits on a core that has no longer ones. */
SCARE_INLINE uint64_t scare_square(int32_t number) {
#if defined(__ARM_ARCH_6M__)
    int32_t high = number >> 16, low = scare_lower(number);
    return ((uint64_t)(uint32_t)(high * high) << 32) + ((uint64_t)((int64_t)(high * low)) << 17) +
           (uint32_t)low * (uint32_t)low;
#else
    return (uint64_t)((int64_t)number * number);
#endif
}

/* sum / 2^bits, to the nearest; at least one bit. */
SCARE_INLINE int32_t scare_rounded(int64_t sum, uint32_t bits) {
    return (int32_t)((int64_t)((uint64_t)sum + ((uint64_t)1 << (bits - 1u))) >> bits);
}

SCARE_INLINE int32_t scare_least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

SCARE_INLINE int32_t scare_most(int32_t a, int32_t b) {
    return a > b ? a : b;
}

/* Clamp to 0 … 32767. */
SCARE_INLINE int32_t scare_positive_half(int32_t number) {
#if defined(__ARM_FEATURE_SAT)
    return (int32_t)__usat(number, 15);
#else
    return scare_most(scare_least(number, 32767), 0);
#endif
}

SCARE_INLINE int32_t scare_shifted(int32_t number, uint32_t left) {
    return (int32_t)((uint32_t)number << left);
}

/* How far numbers may be shifted left without overflow; `bits` are their scare_magnitudes. */
SCARE_INLINE uint32_t scare_spare_bits(uint32_t bits) {
    return (bits == 0u ? 32u : (uint32_t)__builtin_clz(bits)) - 1u;
}

/* number, or -number - 1 if it is negative: as long in bits. */
SCARE_INLINE uint32_t scare_magnitude(int32_t number) {
    return (uint32_t)(number ^ (number >> 31));
}

/* The magnitudes of several numbers, or-ed together. */
SCARE_INLINE uint32_t scare_magnitudes(const int32_t *numbers, uint32_t count) {
    uint32_t bits = 0u;
    SCARE_UNROLLED
    for (uint32_t i = 0u; i < count; i++) bits |= scare_magnitude(numbers[i]);
    return bits;
}

/* Scale to `bits` bits and a sign: shift left by the spare bits, then right, dropping the lowest bits. */
SCARE_INLINE int32_t scare_to_top(int32_t number, uint32_t spare, uint32_t bits) {
    return scare_shifted(number, spare) >> (31u - bits);
}

/* 1 / sqrt(x) on [1/4, 1] as a polynomial, the constant term first. */
static const int32_t scare_root_powers[] = {3667952, -37684117, 245915320, -803525001, 1021246694};

/* 1 / sqrt(x) in Q27 for x in Q30 from 1/4 to 1. */
SCARE_INLINE int32_t scare_inverse_root_of(int32_t x) {
    const int32_t *powers = scare_root_powers;
    int32_t root = scare_multiply_wide(powers[4], x) + powers[3];
    root = scare_multiply_wide(root, x) + powers[2];
    root = scare_multiply_wide(root, x) + powers[1];
    root = (scare_multiply_wide(root, x) + powers[0]) * 512;
    int32_t rest = (3 << 24) - scare_multiply_wide(x, scare_multiply_wide(root, root));
    return scare_multiply_wide(root, rest * 32); /* Newton: r (3 - x r^2) / 2 */
}

/* A number times 2^(even / 2 - 1). */
SCARE_INLINE int32_t scare_normalised(int32_t number, uint32_t even) {
    return even ? scare_shifted(number, even / 2u - 1u) : number >> 1;
}

/* The row x as pairs in Q15, divided by the root of the sum of its squares and `extra`. */
SCARE_INLINE void scare_to_unit_pairs(const int32_t *x, uint32_t width, uint64_t extra, int32_t *pairs) {
    uint64_t square = extra;
    SCARE_UNROLLED
    for (uint32_t i = 0u; i < width; i++) square += scare_square(x[i]);
    uint32_t even = (uint32_t)__builtin_clzll(square | 1u) & ~1u;
    int32_t factor = scare_inverse_root_of((int32_t)(square << even >> 34)) >> 11;
    factor -= factor >> 13; /* never longer than 1, when it is rounded down */
    SCARE_UNROLLED
    for (uint32_t i = 0u; i < width; i += 2u) {
        int32_t second = i + 1u < width ? scare_normalised(x[i + 1u], even) : 0;
        int32_t pair = scare_pack_upper(scare_normalised(x[i], even), second);
        pairs[i / 2u] = scare_pack(scare_add_half(factor, pair, 0), scare_add_upper(factor, pair, 0));
    }
}

#if SCARE_ASSEMBLY
/* Of the row in r4 to r11 and the sum of its squares in r1 and r2 make pairs in r4 to r7; where the polynomial of the
 * root is, r12 says. */
#define SCARE_TIMES_FACTOR(pair) "smulwb r2, r1, " pair "\nsmulwt r3, r1, " pair "\npkhbt " pair ", r2, r3, lsl #16\n"
#define SCARE_ROW_TO_TOP            \
    "cmp r2, #0\n"                  \
    "itt eq\n"                      \
    "lsreq r2, r1, #2\n"            \
    "lsleq r1, r1, #30\n"           \
    "clz r3, r2\n"                  \
    "bic r3, r3, #1\n"              \
    "rsb lr, r3, #34\n"             \
    "sub r3, r3, #2\n"              \
    "lsl r2, r2, r3\n"              \
    "lsr r1, r1, lr\n"              \
    "orr r2, r2, r1\n"              \
    "lsr r3, r3, #1\n"              \
    "it eq\n"                       \
    "addeq r3, r3, #15\n"           \
    "lsl r4, r4, r3\n"              \
    "lsl r5, r5, r3\n"              \
    "lsl r6, r6, r3\n"              \
    "lsl r7, r7, r3\n"              \
    "lsl r8, r8, r3\n"              \
    "lsl r9, r9, r3\n"              \
    "lsl r10, r10, r3\n"            \
    "lsl r11, r11, r3\n"            \
    "pkhtb r4, r5, r4, asr #16\n"   \
    "pkhtb r5, r7, r6, asr #16\n"   \
    "pkhtb r6, r9, r8, asr #16\n"   \
    "pkhtb r7, r11, r10, asr #16\n" \
    "ldmia r12, {r8-r12}\n"         \
    "smmla r1, r12, r2, r11\n"      \
    "smmla r1, r1, r2, r10\n"       \
    "smmla r1, r1, r2, r9\n"        \
    "smmla r1, r1, r2, r8\n"        \
    "lsl r1, r1, #9\n"              \
    "smmul r3, r1, r1\n"            \
    "smmul r3, r2, r3\n"            \
    "rsb r3, r3, #0x3000000\n"      \
    "lsl r3, r3, #5\n"              \
    "smmul r1, r1, r3\n"            \
    "asr r1, r1, #11\n"             \
    "sub r1, r1, r1, asr #13\n"
#define SCARE_ADD_SQUARES(number) "smlal r1, r2, " number ", " number "\n"
#endif

#endif
