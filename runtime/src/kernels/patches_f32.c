#include "scare_kernels.h"
#include "scare_port.h"

void scare_patches_f32(float *out, const float *x, uint32_t rows, uint32_t channels, uint32_t count, uint32_t patch,
                       uint32_t stride) {
    for (uint32_t p = 0; p < count; p++) {
        for (uint32_t i = 0; i < patch; i++) {
            uint32_t row = p * stride + i < rows ? p * stride + i : rows - 1;
            for (uint32_t c = 0; c < channels; c++) *out++ = x[row * channels + c];
        }
    }
}

void scare_affine_f32(float *out, const float *x, const float *scale, const float *shift, uint32_t rows,
                      uint32_t width) {
    for (uint32_t r = 0; r < rows; r++, x += width, out += width) {
        for (uint32_t d = 0; d < width; d++) out[d] = SCARE_MLA(x[d], scale[d], shift[d]);
    }
}

void scare_window_moments_f32(float *moments, const float *x, uint32_t rows, uint32_t channels, float epsilon) {
    float share = 1.0f / (float)rows;
    for (uint32_t c = 0; c < channels; c++) {
        float sum = 0.0f, squares = 0.0f;
        for (uint32_t t = 0; t < rows; t++) sum += x[t * channels + c];
        float mean = sum * share;
        for (uint32_t t = 0; t < rows; t++) {
            float centred = x[t * channels + c] - mean;
            squares = SCARE_MLA(centred, centred, squares);
        }
        moments[c] = mean;
        moments[channels + c] = scare_sqrt(SCARE_MLA(squares, share, epsilon));
    }
}

void scare_standardize_f32(float *out, const float *x, const float *moments, uint32_t rows, uint32_t channels) {
    for (uint32_t c = 0; c < channels; c++) {
        float inverse = 1.0f / moments[channels + c];
        for (uint32_t t = 0; t < rows; t++) out[t * channels + c] = (x[t * channels + c] - moments[c]) * inverse;
    }
}

void scare_restore_f32(float *out, const float *y, const float *moments, uint32_t channels) {
    out[0] = SCARE_MLA(y[0], moments[channels], moments[0]);
}
