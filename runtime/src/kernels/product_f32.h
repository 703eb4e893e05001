/* The products that most of the time goes into: four sums side by side.
 *
 * Constants are stored in the order in which they are read, [inputs][4]. Each sum adds its products in the order of
 * the inputs, with and without assembly, so both give the same bits. The assembly loads many numbers by one
 * instruction; it uses s0 to s11 and keeps the sums in s12 to s15, so no register has to be saved. */
#ifndef SCARE_PRODUCT_F32_H
#define SCARE_PRODUCT_F32_H

#include <stdint.h>

#include "scare_port.h"

typedef struct {
    float a, b, c, d;
} scare_four;

#if SCARE_VFP

#define SCARE_NUMBERS(count, at) "m"(*(const float (*)[count])(at))

SCARE_INLINE scare_four scare_load_four(const float *from) {
    register float a __asm__("s12"), b __asm__("s13"), c __asm__("s14"), d __asm__("s15");
    __asm__("vldmia %[from], {s12-s15}"
            : "=t"(a), "=t"(b), "=t"(c), "=t"(d)
            : [from] "r"(from), SCARE_NUMBERS(4, from));
    scare_four four = {a, b, c, d};
    return four;
}

SCARE_INLINE void scare_store_four(float *to, scare_four four) {
    register float a __asm__("s12") = four.a, b __asm__("s13") = four.b;
    register float c __asm__("s14") = four.c, d __asm__("s15") = four.d;
    __asm__("vstmia %[to], {s12-s15}" : "=m"(*(float (*)[4])to) : [to] "r"(to), "t"(a), "t"(b), "t"(c), "t"(d));
}

/* sum + x weight[4], and on to the next weights */
SCARE_INLINE void scare_add_product(scare_four *sum, float x, const float **weight) {
    register float a __asm__("s12") = sum->a, b __asm__("s13") = sum->b;
    register float c __asm__("s14") = sum->c, d __asm__("s15") = sum->d;
    __asm__("vldmia %[w]!, {s0-s3}\n\t"
            "vmul.f32 s0, %[x], s0\n\t"
            "vmul.f32 s1, %[x], s1\n\t"
            "vmul.f32 s2, %[x], s2\n\t"
            "vmul.f32 s3, %[x], s3\n\t"
            "vadd.f32 s12, s12, s0\n\t"
            "vadd.f32 s13, s13, s1\n\t"
            "vadd.f32 s14, s14, s2\n\t"
            "vadd.f32 s15, s15, s3"
            : "+t"(a), "+t"(b), "+t"(c), "+t"(d), [w] "+r"(*weight)
            : [x] "t"(x), SCARE_NUMBERS(4, *weight)
            : "s0", "s1", "s2", "s3");
    sum->a = a, sum->b = b, sum->c = c, sum->d = d;
}

/* sum + x[4] weight[4][4], and on to the next inputs and weights */
SCARE_INLINE void scare_add_square(scare_four *sum, const float **x, const float **weight) {
    register float a __asm__("s12") = sum->a, b __asm__("s13") = sum->b;
    register float c __asm__("s14") = sum->c, d __asm__("s15") = sum->d;
    __asm__("vldmia %[x]!, {s0-s3}\n\t"
            "vldmia %[w]!, {s4-s11}\n\t"
            "vmul.f32 s4, s0, s4\n\t"
            "vmul.f32 s5, s0, s5\n\t"
            "vmul.f32 s6, s0, s6\n\t"
            "vmul.f32 s7, s0, s7\n\t"
            "vadd.f32 s12, s12, s4\n\t"
            "vadd.f32 s13, s13, s5\n\t"
            "vadd.f32 s14, s14, s6\n\t"
            "vadd.f32 s15, s15, s7\n\t"
            "vmul.f32 s8, s1, s8\n\t"
            "vmul.f32 s9, s1, s9\n\t"
            "vmul.f32 s10, s1, s10\n\t"
            "vmul.f32 s11, s1, s11\n\t"
            "vadd.f32 s12, s12, s8\n\t"
            "vadd.f32 s13, s13, s9\n\t"
            "vadd.f32 s14, s14, s10\n\t"
            "vadd.f32 s15, s15, s11\n\t"
            "vldmia %[w]!, {s4-s11}\n\t"
            "vmul.f32 s4, s2, s4\n\t"
            "vmul.f32 s5, s2, s5\n\t"
            "vmul.f32 s6, s2, s6\n\t"
            "vmul.f32 s7, s2, s7\n\t"
            "vadd.f32 s12, s12, s4\n\t"
            "vadd.f32 s13, s13, s5\n\t"
            "vadd.f32 s14, s14, s6\n\t"
            "vadd.f32 s15, s15, s7\n\t"
            "vmul.f32 s8, s3, s8\n\t"
            "vmul.f32 s9, s3, s9\n\t"
            "vmul.f32 s10, s3, s10\n\t"
            "vmul.f32 s11, s3, s11\n\t"
            "vadd.f32 s12, s12, s8\n\t"
            "vadd.f32 s13, s13, s9\n\t"
            "vadd.f32 s14, s14, s10\n\t"
            "vadd.f32 s15, s15, s11"
            : "+t"(a), "+t"(b), "+t"(c), "+t"(d), [x] "+r"(*x), [w] "+r"(*weight)
            : SCARE_NUMBERS(4, *x), SCARE_NUMBERS(16, *weight)
            : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11");
    sum->a = a, sum->b = b, sum->c = c, sum->d = d;
}

/* each sum + its product of x[4] weight[4], and on to the next of both */
SCARE_INLINE void scare_add_lanes(scare_four *sum, const float **x, const float **weight) {
    register float a __asm__("s12") = sum->a, b __asm__("s13") = sum->b;
    register float c __asm__("s14") = sum->c, d __asm__("s15") = sum->d;
    __asm__("vldmia %[x]!, {s0-s3}\n\t"
            "vldmia %[w]!, {s4-s7}\n\t"
            "vmul.f32 s4, s0, s4\n\t"
            "vmul.f32 s5, s1, s5\n\t"
            "vmul.f32 s6, s2, s6\n\t"
            "vmul.f32 s7, s3, s7\n\t"
            "vadd.f32 s12, s12, s4\n\t"
            "vadd.f32 s13, s13, s5\n\t"
            "vadd.f32 s14, s14, s6\n\t"
            "vadd.f32 s15, s15, s7"
            : "+t"(a), "+t"(b), "+t"(c), "+t"(d), [x] "+r"(*x), [w] "+r"(*weight)
            : SCARE_NUMBERS(4, *x), SCARE_NUMBERS(4, *weight)
            : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7");
    sum->a = a, sum->b = b, sum->c = c, sum->d = d;
}

/* all + sum of x[4], part + x[4] weight[4], and on to the next of both */
SCARE_INLINE void scare_add_shares(float *all, float *part, const float **x, const float **weight) {
    __asm__("vldmia %[x]!, {s0-s3}\n\t"
            "vldmia %[w]!, {s4-s7}\n\t"
            "vadd.f32 %[all], %[all], s0\n\t"
            "vmul.f32 s4, s0, s4\n\t"
            "vadd.f32 %[part], %[part], s4\n\t"
            "vadd.f32 %[all], %[all], s1\n\t"
            "vmul.f32 s5, s1, s5\n\t"
            "vadd.f32 %[part], %[part], s5\n\t"
            "vadd.f32 %[all], %[all], s2\n\t"
            "vmul.f32 s6, s2, s6\n\t"
            "vadd.f32 %[part], %[part], s6\n\t"
            "vadd.f32 %[all], %[all], s3\n\t"
            "vmul.f32 s7, s3, s7\n\t"
            "vadd.f32 %[part], %[part], s7"
            : [all] "+t"(*all), [part] "+t"(*part), [x] "+r"(*x), [w] "+r"(*weight)
            : SCARE_NUMBERS(4, *x), SCARE_NUMBERS(4, *weight)
            : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7");
}

#else

SCARE_INLINE scare_four scare_load_four(const float *from) {
    scare_four four = {from[0], from[1], from[2], from[3]};
    return four;
}

SCARE_INLINE void scare_store_four(float *to, scare_four four) {
    to[0] = four.a, to[1] = four.b, to[2] = four.c, to[3] = four.d;
}

SCARE_INLINE void scare_add_product(scare_four *sum, float x, const float **weight) {
    const float *w = *weight;
    sum->a = SCARE_MLA(x, w[0], sum->a);
    sum->b = SCARE_MLA(x, w[1], sum->b);
    sum->c = SCARE_MLA(x, w[2], sum->c);
    sum->d = SCARE_MLA(x, w[3], sum->d);
    *weight = w + 4;
}

SCARE_INLINE void scare_add_square(scare_four *sum, const float **x, const float **weight) {
    for (int i = 0; i < 4; i++) scare_add_product(sum, *(*x)++, weight);
}

SCARE_INLINE void scare_add_lanes(scare_four *sum, const float **x, const float **weight) {
    const float *number = *x, *w = *weight;
    sum->a = SCARE_MLA(number[0], w[0], sum->a);
    sum->b = SCARE_MLA(number[1], w[1], sum->b);
    sum->c = SCARE_MLA(number[2], w[2], sum->c);
    sum->d = SCARE_MLA(number[3], w[3], sum->d);
    *x = number + 4, *weight = w + 4;
}

SCARE_INLINE void scare_add_shares(float *all, float *part, const float **x, const float **weight) {
    for (int i = 0; i < 4; i++, (*x)++, (*weight)++) {
        *all += **x;
        *part = SCARE_MLA(**x, **weight, *part);
    }
}

#endif

/* sum + x[inputs] weight[inputs][4], and on to the next weights */
SCARE_INLINE void scare_add_products(scare_four *sum, const float *x, const float **weight, uint32_t inputs) {
    for (uint32_t i = inputs / 4; i > 0; i--) scare_add_square(sum, &x, weight);
    SCARE_ROLLED for (uint32_t i = inputs % 4; i > 0; i--) scare_add_product(sum, *x++, weight);
}

/* Like the above, for many inputs: sums of SCARE_PIECE products are added up, which rounds far less than one long sum. */
#define SCARE_PIECE 32u

SCARE_INLINE void scare_add_many_products(scare_four *sum, const float *x, const float **weight, uint32_t inputs) {
    SCARE_ROLLED while (inputs > 0) {
        uint32_t piece = inputs < SCARE_PIECE ? inputs : SCARE_PIECE;
        scare_four part = {0.0f, 0.0f, 0.0f, 0.0f};
        SCARE_ROLLED for (uint32_t i = piece / 4; i > 0; i--) scare_add_square(&part, &x, weight);
        SCARE_ROLLED for (uint32_t i = piece % 4; i > 0; i--) scare_add_product(&part, *x++, weight);
        sum->a += part.a, sum->b += part.b, sum->c += part.c, sum->d += part.d;
        inputs -= piece;
    }
}

/* sum + x[inputs] weight[inputs], and on to the next weights; in pieces too */
SCARE_INLINE float scare_add_dot(float sum, const float *x, const float **weight, uint32_t inputs) {
    SCARE_ROLLED while (inputs > 0) {
        uint32_t piece = inputs < SCARE_PIECE / 2 ? inputs : SCARE_PIECE / 2;
        scare_four part = {0.0f, 0.0f, 0.0f, 0.0f};
        SCARE_ROLLED for (uint32_t i = piece / 4; i > 0; i--) scare_add_lanes(&part, &x, weight);
        SCARE_ROLLED for (uint32_t i = piece % 4; i > 0; i--) part.a = SCARE_MLA(*x++, *(*weight)++, part.a);
        sum += (part.a + part.b) + (part.c + part.d);
        inputs -= piece;
    }
    return sum;
}

#endif
