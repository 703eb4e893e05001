/* Functions of one number: without branches, the same bits on every processor with a fused multiply-add.
 * NaN gives NaN. No number is ever converted to an integer. */
#ifndef SCARE_MATH_F32_H
#define SCARE_MATH_F32_H

#include <stdint.h>

#include "scare_port.h"

#define SCARE_ROUND 12582912.0f /* 1.5 * 2^23: added and taken away again, it leaves the nearest whole number */
#define SCARE_ROUND_BITS 0x4b400000u

SCARE_INLINE float scare_from_bits(uint32_t bits) {
    float number;
    __builtin_memcpy(&number, &bits, sizeof number);
    return number;
}

SCARE_INLINE uint32_t scare_to_bits(float number) {
    uint32_t bits;
    __builtin_memcpy(&bits, &number, sizeof bits);
    return bits;
}

SCARE_INLINE float scare_clamp_f32(float x, float low, float high) {
    float raised = x < low ? low : x;
    return raised > high ? high : raised;
}

/* 2^n for the whole number that was rounded to `shifted` = n + SCARE_ROUND: 0 below n = -126, infinite above 127. */
SCARE_INLINE float scare_power_of_two_f32(float shifted) {
    int32_t exponent = (int32_t)(scare_to_bits(shifted) - (SCARE_ROUND_BITS - 127u));
    exponent = exponent < 0 ? 0 : exponent > 255 ? 255 : exponent;
    return scare_from_bits((uint32_t)exponent << 23);
}

/* (2^f - 1) / f for |f| <= 1/2, to 2^-26. */
SCARE_INLINE float scare_power_slope_f32(float f) {
    float sum = 0x1.4308fap-13f;
    sum = SCARE_MLA(sum, f, 0x1.5f07b4p-10f);
    sum = SCARE_MLA(sum, f, 0x1.3b2ba0p-7f);
    sum = SCARE_MLA(sum, f, 0x1.c6af6ep-5f);
    sum = SCARE_MLA(sum, f, 0x1.ebfbdep-3f);
    return SCARE_MLA(sum, f, 0x1.62e430p-1f);
}

/* 2^x for |x| < 2^22. */
SCARE_INLINE float scare_exp2_f32(float x) {
    float shifted = x + SCARE_ROUND;
    float f = x - (shifted - SCARE_ROUND);
    return SCARE_MLA(scare_power_slope_f32(f), f, 1.0f) * scare_power_of_two_f32(shifted);
}

/* What x log2(e) is beyond the whole number n = shifted - SCARE_ROUND: ln 2 in two parts, n times the first exact. */
SCARE_INLINE float scare_beyond_f32(float x, float shifted) {
    float n = shifted - SCARE_ROUND;
    return SCARE_MLA(n, -0x1.7f7d1cp-20f, SCARE_MLA(n, -0x1.62e400p-1f, x)) * 0x1.715476p+0f;
}

/* e^x: 0 below -87.7, infinite above 88.3. */
SCARE_INLINE float scare_exp_f32(float x) {
    float y = scare_clamp_f32(x, -100.0f, 100.0f);
    float shifted = SCARE_MLA(y, 0x1.715476p+0f, SCARE_ROUND);
    float f = scare_beyond_f32(y, shifted);
    return SCARE_MLA(scare_power_slope_f32(f), f, 1.0f) * scare_power_of_two_f32(shifted);
}

/* E / (E + 2) with E = e^2x - 1, which is precise near zero too. */
SCARE_INLINE float scare_tanh_f32(float x) {
    float y = scare_clamp_f32(x + x, -40.0f, 40.0f);
    float shifted = SCARE_MLA(y, 0x1.715476p+0f, SCARE_ROUND);
    float f = scare_beyond_f32(y, shifted);
    float power = scare_power_of_two_f32(shifted);
    float grown = SCARE_MLA(scare_power_slope_f32(f) * f, power, power - 1.0f);
    return grown / (grown + 2.0f);
}

SCARE_INLINE float scare_sigmoid_f32(float x) {
    return 1.0f / (1.0f + scare_exp_f32(-x));
}

/* log(1 + e^x) = max(x, 0) + log(1 + t), t = e^-|x|; log(1 + t) = 2 atanh(s), s = t / (2 + t). */
SCARE_INLINE float scare_softplus_f32(float x) {
    float t = scare_exp_f32(-SCARE_ABS(x));
    float s = t / (2.0f + t);
    float z = s * s;
    float sum = 0x1.208bd0p-2f;
    sum = SCARE_MLA(sum, z, 0x1.1e510cp-2f);
    sum = SCARE_MLA(sum, z, 0x1.99dae6p-2f);
    sum = SCARE_MLA(sum, z, 0x1.5554e0p-1f);
    sum = SCARE_MLA(sum, z, 2.0f);
    return SCARE_MLA(sum, s, x > 0.0f ? x : 0.0f);
}

/* x (1 + tanh(u)) / 2 = x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3). */
SCARE_INLINE float scare_gelu_one_f32(float x) {
    float slope = SCARE_MLA(x * x, -0x1.2444f2p-4f, -0x1.988454p+0f);
    return x / (1.0f + scare_exp_f32(x * slope));
}

/* How many bits of a word are set. */
SCARE_INLINE uint32_t scare_count_bits(uint32_t word) {
    word -= word >> 1 & 0x55555555u;
    word = (word & 0x33333333u) + (word >> 2 & 0x33333333u);
    word = (word + (word >> 4)) & 0x0f0f0f0fu;
    return word * 0x01010101u >> 24;
}

#endif
