#include "scare_kernels.h"
#include "math_f32.h"

void scare_add_f32(float *out, const float *a, const float *b, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) out[i] = a[i] + b[i];
}

void scare_relu_f32(float *out, const float *x, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) out[i] = x[i] < 0.0f ? 0.0f : x[i];
}

void scare_gelu_f32(float *out, const float *x, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) out[i] = scare_gelu_one_f32(x[i]);
}

SCARE_INLINE void layer_norm(float *out, const float *x, const float *gain, const float *bias, uint32_t rows,
                             uint32_t width, float epsilon) {
    float share = 1.0f / (float)width;
    for (uint32_t r = 0; r < rows; r++, x += width, out += width) {
        float sum = 0.0f, squares = 0.0f;
        for (uint32_t d = 0; d < width; d++) sum += x[d];
        float mean = sum * share;
        for (uint32_t d = 0; d < width; d++) {
            float centred = x[d] - mean;
            squares = SCARE_MLA(centred, centred, squares);
        }
        float inverse = 1.0f / scare_sqrt(SCARE_MLA(squares, share, epsilon));
        for (uint32_t d = 0; d < width; d++) out[d] = SCARE_MLA((x[d] - mean) * inverse, gain[d], bias[d]);
    }
}

void scare_layer_norm_f32(float *out, const float *x, const float *gain, const float *bias, uint32_t rows,
                          uint32_t width, float epsilon) {
    layer_norm(out, x, gain, bias, rows, width, epsilon);
}

void scare_layer_norm_8_f32(float *out, const float *x, const float *gain, const float *bias, uint32_t rows,
                            float epsilon) {
    layer_norm(out, x, gain, bias, rows, 8, epsilon);
}
