/* What depends on compiler and processor. */
#ifndef SCARE_PORT_H
#define SCARE_PORT_H

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

#endif
