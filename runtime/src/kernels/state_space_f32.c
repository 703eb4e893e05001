#include "scare_kernels.h"
#include "math_f32.h"
#include "product_f32.h"

void scare_rms_norm_f32(float *out, const float *x, uint32_t rows, uint32_t width, float epsilon) {
    float share = 1.0f / (float)width;
    for (uint32_t r = 0; r < rows; r++, x += width, out += width) {
        float squares = 0.0f;
        for (uint32_t d = 0; d < width; d++) squares = SCARE_MLA(x[d], x[d], squares);
        float inverse = 1.0f / scare_sqrt(SCARE_MLA(squares, share, epsilon));
        for (uint32_t d = 0; d < width; d++) out[d] = x[d] * inverse;
    }
}

void scare_silu_f32(float *out, const float *x, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) out[i] = x[i] / (1.0f + scare_exp_f32(-x[i]));
}

void scare_multiply_f32(float *out, const float *a, const float *b, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) out[i] = a[i] * b[i];
}

void scare_newest_rows_f32(float *out, const float *x, uint32_t rows, uint32_t width, uint32_t kept) {
    x += (rows - kept) * width;
    for (uint32_t i = 0; i < kept * width; i++) out[i] = x[i];
}

void scare_causal_convolution_f32(float *out, const float *x, const float *taps, const float *bias, uint32_t rows,
                                  uint32_t features, uint32_t lags) {
    for (uint32_t t = rows; t-- > 0;) {
        uint32_t first = t + 1 < lags ? lags - 1 - t : 0;
        for (uint32_t f = 0; f < features; f++) {
            float sum = bias[f];
            for (uint32_t k = lags; k-- > first;) {
                sum = SCARE_MLA(x[(t + 1 + k - lags) * features + f], taps[k * features + f], sum);
            }
            out[t * features + f] = sum;
        }
    }
}

void scare_state_space_f32(float *out, const float *x, const float *b, const float *c, const float *dt,
                           const float *decay, const float *direct, uint32_t rows, uint32_t heads, uint32_t states,
                           uint32_t width) {
    float *later = out + heads * width;
    const float *last = x + (rows - 1) * heads * width;
    for (uint32_t h = 0; h < heads; h++) {
        later[h] = 0.0f;
        for (uint32_t p = 0; p < width; p++) out[h * width + p] = direct[h] * last[h * width + p];
    }
    for (uint32_t t = rows; t-- > 0;) {
        const float *next = c;
        float seen = scare_add_dot(0.0f, b + t * states, &next, states);
        for (uint32_t h = 0; h < heads; h++) {
            float step = scare_softplus_f32(dt[t * heads + h]);
            float share = scare_exp_f32(decay[h] * later[h]) * step * seen;
            const float *row = x + (t * heads + h) * width;
            for (uint32_t p = 0; p < width; p++) out[h * width + p] = SCARE_MLA(share, row[p], out[h * width + p]);
            later[h] += step;
        }
    }
}
