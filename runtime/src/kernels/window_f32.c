#include "scare_kernels.h"
#include "product_f32.h"

void scare_hat_basis_f32(float *hats, const float *x, const uint16_t *run, const float *fraction, uint32_t runs,
                         uint32_t channels, uint32_t knots) {
    SCARE_ROLLED for (uint32_t i = 0; i < knots * channels; i++) hats[i] = 0.0f;
    SCARE_ROLLED for (; runs > 0; runs--, run += 2) {
        uint32_t rows = run[1];
        float *lower = hats + run[0] * channels;
        SCARE_ROLLED for (uint32_t c = 0; c < channels; c++) {
            const float *number = x + c, *share = fraction;
            float all = 0.0f, upper = 0.0f;
            uint32_t left = rows;
            SCARE_ROLLED for (; channels == 1 && left >= 4; left -= 4) {
                scare_add_shares(&all, &upper, &number, &share);
            }
            SCARE_ROLLED for (; left > 0; left--, number += channels) {
                all += *number;
                upper = SCARE_MLA(*number, *share++, upper);
            }
            lower[c] += all - upper;
            lower[channels + c] += upper;
        }
        x += rows * channels;
        fraction += rows;
    }
}

void scare_lens_f32(float *out, const float *x, const float *weight, uint32_t rows, uint32_t channels,
                    uint32_t lenses) {
    uint32_t l = 0;
    for (; l + 4 <= lenses; l += 4, weight += 4 * (rows + 1)) {
        for (uint32_t c = 0; c < channels; c++) {
            const float *next = weight + 4, *number = x + c;
            scare_four sum = scare_load_four(weight);
            for (uint32_t left = rows; left > 0;) {
                uint32_t piece = left < SCARE_PIECE ? left : SCARE_PIECE;
                scare_four part = {0.0f, 0.0f, 0.0f, 0.0f};
                for (uint32_t t = 0; t < piece; t++, number += channels) scare_add_product(&part, *number, &next);
                sum.a += part.a, sum.b += part.b, sum.c += part.c, sum.d += part.d;
                left -= piece;
            }
            float *to = out + l * channels + c;
            to[0] = sum.a;
            to[channels] = sum.b;
            to[2 * channels] = sum.c;
            to[3 * channels] = sum.d;
        }
    }
    SCARE_ROLLED for (; l < lenses; l++, weight += rows + 1) {
        SCARE_ROLLED for (uint32_t c = 0; c < channels; c++) {
            float sum = weight[0];
            SCARE_ROLLED for (uint32_t t = 0; t < rows; t++) sum = SCARE_MLA(x[t * channels + c], weight[t + 1], sum);
            out[l * channels + c] = sum;
        }
    }
}

void scare_bins_f32(float *out, const float *x, const uint16_t *length, const float *weight, uint32_t bins,
                    uint32_t channels) {
    for (uint32_t l = 0; l < bins; l++) {
        uint32_t rows = length[l];
        for (uint32_t c = 0; c < channels; c++) {
            float sum = 0.0f;
            for (uint32_t t = 0; t < rows; t++) sum = SCARE_MLA(x[t * channels + c], weight[t], sum);
            *out++ = sum;
        }
        x += rows * channels;
        weight += rows;
    }
}
