/* What depends on compiler and processor. */
#ifndef SCARE_PORT_H
#define SCARE_PORT_H

/* a * b + c: rounded once where the processor can, or where a host build must equal one that can. */
#if defined(__ARM_FEATURE_FMA) || defined(__FMA__) || defined(SCARE_EXACT_FMA)
#define SCARE_FMA(a, b, c) __builtin_fmaf((a), (b), (c))
#else
#define SCARE_FMA(a, b, c) ((a) * (b) + (c))
#endif

/* Whether the processor has the floating-point registers and instructions of a Cortex-M4F. */
#if defined(__ARM_FEATURE_FMA) && defined(__ARM_FP) && !defined(__aarch64__)
#define SCARE_VFP 1
#else
#define SCARE_VFP 0
#endif

#define SCARE_SQRT(x) __builtin_sqrtf(x)
#define SCARE_ABS(x) __builtin_fabsf(x)

/* A body that is compiled anew for each set of constant arguments. */
#define SCARE_INLINE static inline __attribute__((always_inline))

/* A body that is seldom used: small rather than fast. */
#if defined(__clang__)
#define SCARE_SMALL static __attribute__((noinline, minsize))
#else
#define SCARE_SMALL static __attribute__((noinline))
#endif

/* The loop that follows is seldom run, or its body is long enough: flash is worth more than its branches. */
#if defined(__clang__)
#define SCARE_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define SCARE_ROLLED
#endif

#endif
