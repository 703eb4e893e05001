#include "scare_kernels.h"
#include "product_f32.h"

void scare_dense_f32(float *out, const float *x, const float *weight, const float *bias, uint32_t rows, uint32_t inputs,
                     uint32_t outputs, uint32_t step) {
    uint32_t o = 0;
    for (; o + 4 <= outputs; o += 4, weight += 4 * inputs) {
        for (uint32_t r = 0; r < rows; r++) {
            const float *next = weight;
            scare_four sum = scare_load_four(bias + r * step + o);
            scare_add_many_products(&sum, x + r * inputs, &next, inputs);
            scare_store_four(out + r * outputs + o, sum);
        }
    }
    for (; o < outputs; o++, weight += inputs) {
        for (uint32_t r = 0; r < rows; r++) {
            const float *next = weight;
            out[r * outputs + o] = scare_add_dot(bias[r * step + o], x + r * inputs, &next, inputs);
        }
    }
}

void scare_add_outer_f32(float *out, const float *z, const float *g, const float *share, uint32_t rows,
                         uint32_t width) {
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t d = 0; d < width; d++) {
            out[r * width + d] = SCARE_MLA(share[r], g[d], z[r * width + d]);
        }
    }
}
