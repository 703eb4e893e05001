#include "scare_kernels.h"
#include "math_f32.h"

void scare_leaky_relu_f32(float *out, const float *x, uint32_t count, float slope) {
    for (uint32_t i = 0; i < count; i++) {
        float bent = slope * x[i];
        out[i] = x[i] > bent ? x[i] : bent;
    }
}

void scare_sigmoid_mean_f32(float *out, const float *x, uint32_t rows, uint32_t width) {
    float share = 1.0f / (float)rows;
    for (uint32_t d = 0; d < width; d++) {
        float sum = 0.0f;
        for (uint32_t t = 0; t < rows; t++) sum += scare_sigmoid_f32(x[t * width + d]);
        out[d] = sum * share;
    }
}
