/* Integer kernels: small products of words and weights of 16 bits. */
#include "fixed_s8.h"
#include "scare_integer.h"

SCARE_INLINE int64_t dot(const int32_t *x, const int16_t *weights, uint32_t count, uint32_t step)
{
    int64_t sum = 0;
    for (const int16_t *end = weights + count; weights != end; weights++, x += step) sum += (int64_t)*x * *weights;
    return sum;
}

void scare_dense_s8(const int32_t *x, uint32_t rows, uint32_t inputs, uint32_t outputs, const int16_t *weights,
                    const int32_t *bias, const uint8_t *shifts, int32_t *out)
{
    for (uint32_t row = 0u; row < rows; row++, x += inputs)
        for (uint32_t i = 0u; i < outputs; i++)
            *out++ = scare_rounded(dot(x, weights + i * inputs, inputs, 1u), shifts[i]) + bias[i];
}

void scare_lens_s8(const int32_t *x, uint32_t rows, uint32_t channels, uint32_t lenses, const int16_t *weights,
                   uint32_t shift, int32_t *out)
{
    for (uint32_t lens = 0u; lens < lenses; lens++, weights += rows)
        for (uint32_t channel = 0u; channel < channels; channel++)
            *out++ = scare_rounded(dot(x + channel, weights, rows, channels), shift);
}

void scare_token_rows_s8(const int32_t *seen, const int32_t *shared, uint32_t rows, uint32_t channels, uint32_t width,
                         uint32_t outputs, const int16_t *local, const int16_t *share, const int16_t *mix,
                         const int32_t *bias, uint32_t shift, int32_t *out)
{
    int32_t *mixed = out + (rows - 1u) * outputs; /* the last row has what all share until it is its turn */
    for (uint32_t i = 0u; i < outputs; i++)
        mixed[i] = width ? scare_rounded(dot(shared, mix + i * width, width, 1u), 16u) : shared[i];
    for (uint32_t row = 0u; row < rows; row++, seen += channels)
        for (uint32_t i = 0u; i < outputs; i++) {
            int32_t sum = scare_add_half(mixed[i], share[row], *bias++);
            for (uint32_t c = 0u; c < channels; c++) sum = scare_add_half(seen[c], local[c * outputs + i], sum);
            *out++ = sum >> shift;
        }
}

void scare_add_s8(const int32_t *a, const int32_t *b, uint32_t count, int32_t *out)
{
    for (uint32_t i = 0u; i < count; i++) out[i] = a[i] + b[i];
}

void scare_result_s8(const int32_t *x, float unit, float *out)
{
    *out = (float)*x * unit;
}
