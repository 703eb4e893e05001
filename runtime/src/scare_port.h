/* What depends on compiler and processor. */
#ifndef SCARE_PORT_H
#define SCARE_PORT_H

#include <stdint.h>

/* a * b + c, rounded twice. A Cortex-M4F has one instruction that rounds once, but it takes longer than these two, and
 * not every processor has it: compile with -ffp-contract=off, or results differ in their last bits. */
#define SCARE_MLA(a, b, c) ((a) * (b) + (c))

/* Whether the processor has the floating-point registers and instructions of a Cortex-M4F. */
#if defined(__thumb2__) && defined(__ARM_FP)
#define SCARE_VFP 1
#else
#define SCARE_VFP 0
#endif

#define SCARE_ABS(x) __builtin_fabsf(x)

/* A body that is specialised for each set of constant arguments. */
#define SCARE_INLINE static inline __attribute__((always_inline))

/* The instruction itself where there is one: without -fno-math-errno a compiler adds a call of the library's sqrtf. */
SCARE_INLINE float scare_sqrt(float x) {
#if SCARE_VFP
    __asm__("vsqrt.f32 %0, %1" : "=t"(x) : "t"(x));
    return x;
#else
    return __builtin_sqrtf(x);
#endif
}

/* A body that is rarely run, or short: optimised for size. */
#if defined(__clang__)
#define SCARE_COMPACT __attribute__((minsize))
#else
#define SCARE_COMPACT
#endif
#define SCARE_SMALL static __attribute__((noinline)) SCARE_COMPACT

/* A condition that is true about half of the time. */
#if defined(__clang__)
#define SCARE_EVEN(condition) __builtin_expect_with_probability(condition, 1, 0.5)
#else
#define SCARE_EVEN(condition) (condition)
#endif

/* Do not unroll the next loop: it is rarely run, or its body is long, so flash matters more than branches. */
#if defined(__clang__)
#define SCARE_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define SCARE_ROLLED
#endif

/* Unroll the next loop where its number of turns is known: GCC does not if it optimises for size. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 8
#define SCARE_UNROLLED _Pragma("GCC unroll 16")
#else
#define SCARE_UNROLLED
#endif

/* Where the assembly of a Cortex-M4 may be used; the C next to it is equal in every bit. It saves r7 itself, which some
 * compilers use as the frame pointer. */
#if defined(__thumb2__) && defined(__ARM_FEATURE_DSP) && defined(__OPTIMIZE__) && !defined(SCARE_PLAIN)
#define SCARE_ASSEMBLY 1
#else
#define SCARE_ASSEMBLY 0
#endif

/* Load words of a table, which is aligned to four bytes, and advance; in one instruction where possible. */
typedef struct {
    int32_t a, b, c, d;
} scare_words;

SCARE_INLINE int32_t scare_next_word(const void **table) {
    int32_t word;
    __builtin_memcpy(&word, __builtin_assume_aligned(*table, 4), sizeof word);
    *table = (const int8_t *)*table + sizeof word;
    return word;
}

SCARE_INLINE scare_words scare_next_four(const void **table) {
#if SCARE_ASSEMBLY
    register int32_t a __asm__("r0"), b __asm__("r1"), c __asm__("r2"), d __asm__("r3");
    __asm__("ldmia %[at]!, {r0-r3}"
            : "=r"(a), "=r"(b), "=r"(c), "=r"(d), [at] "+r"(*table)
            : "m"(*(const int32_t (*)[4])(*table)));
    return (scare_words){a, b, c, d};
#else
    scare_words words;
    __builtin_memcpy(&words, __builtin_assume_aligned(*table, 4), sizeof words);
    *table = (const int8_t *)*table + sizeof words;
    return words;
#endif
}

/* Store a word, or four, and advance. */
SCARE_INLINE void scare_put_word(void **to, int32_t word) {
    __builtin_memcpy(__builtin_assume_aligned(*to, 4), &word, sizeof word);
    *to = (int8_t *)*to + sizeof word;
}

SCARE_INLINE void scare_put_four(void **to, scare_words words) {
    __builtin_memcpy(__builtin_assume_aligned(*to, 4), &words, sizeof words);
    *to = (int8_t *)*to + sizeof words;
}

#endif
