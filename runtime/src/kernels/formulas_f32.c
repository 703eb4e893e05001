#include "scare_kernels.h"
#include "scare_port.h"

void scare_polynomial_f32(float *out, const float *x, const uint8_t *powers, const float *weight, uint32_t terms,
                          uint32_t inputs, uint32_t outputs) {
    for (uint32_t o = 0; o < outputs; o++) out[o] = *weight++;
    for (uint32_t m = 0; m < terms; m++) {
        float term = 1.0f;
        for (uint32_t i = 0; i < inputs; i++) {
            for (uint32_t power = *powers++; power > 0; power--) term *= x[i];
        }
        for (uint32_t o = 0; o < outputs; o++) out[o] = SCARE_MLA(term, *weight++, out[o]);
    }
}

void scare_products_f32(float *out, const float *x, uint32_t count, float limit) {
    float *clamped = out + count * (count - 1u) / 2u;
    SCARE_ROLLED
    for (uint32_t i = 0; i < count; i++) {
        float above = x[i] < -limit ? -limit : x[i];
        clamped[i] = above > limit ? limit : above;
    }
    SCARE_ROLLED
    for (const float *end = clamped + count; clamped != end; clamped++) {
        float first = *clamped;
        SCARE_ROLLED
        for (const float *second = clamped; second != end; second++) *out++ = first * *second;
    }
}

void scare_blend_f32(float *out, const float *formulas, const float *x, const float *passages, uint32_t count) {
    float sum = formulas[0];
    for (uint32_t k = 0; k < count; k++, passages += 4) {
        float between = SCARE_MLA(x[0], passages[2], passages[3]);
        float share = x[0] < passages[0] ? 0.0f : x[0] >= passages[1] ? 1.0f : between;
        sum = SCARE_MLA(share, formulas[k + 1] - formulas[k], sum);
    }
    out[0] = sum;
}

void scare_divide_f32(float *out, const float *a, const float *b, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) out[i] = a[i] / b[i];
}
