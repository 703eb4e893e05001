/* Integer kernels: small products of words and weights of 16 bits. */
#include "fixed_s8.h"
#include "scare_integer.h"

void scare_dense_s8(const int32_t *x, uint32_t rows, uint32_t inputs, uint32_t outputs, const int16_t *weights,
                    const int32_t *bias, const uint8_t *shifts, int32_t *out)
{
    for (const int32_t *end = x + rows * inputs; x != end; x += inputs) {
        const int16_t *weight = weights;
        uint32_t i = 0u;
        for (; i + 4u <= outputs; i += 4u) {
            int32_t a = bias[i], b = bias[i + 1u], c = bias[i + 2u], d = bias[i + 3u];
            for (const int32_t *word = x; word != x + inputs; word++, weight += 4) {
                int32_t first = scare_pair(weight), second = scare_pair(weight + 2);
                a = scare_add_half(*word, first, a);
                b = scare_add_upper(*word, first, b);
                c = scare_add_half(*word, second, c);
                d = scare_add_upper(*word, second, d);
            }
            *out++ = a >> shifts[i];
            *out++ = b >> shifts[i + 1u];
            *out++ = c >> shifts[i + 2u];
            *out++ = d >> shifts[i + 3u];
        }
        for (; i < outputs; i++) {
            int32_t sum = bias[i];
            const int32_t *word = x;
            for (; word + 1 < x + inputs; word += 2, weight += 2) {
                int32_t pair = scare_pair(weight);
                sum = scare_add_upper(word[1], pair, scare_add_half(word[0], pair, sum));
            }
            if (inputs % 2u) {
                sum = scare_add_half(*word, *weight, sum);
                weight += 2;
            }
            *out++ = sum >> shifts[i];
        }
    }
}

void scare_lens_s8(const int32_t *x, uint32_t rows, uint32_t channels, uint32_t lenses, const int16_t *weights,
                   int32_t *out)
{
    for (uint32_t lens = 0u; lens < lenses; lens++, weights += rows)
        for (uint32_t channel = 0u; channel < channels; channel++) {
            int32_t sum = 0;
            for (uint32_t row = 0u; row < rows; row++) sum = scare_add_half(x[row * channels + channel], weights[row], sum);
            *out++ = sum;
        }
}

/* Compiled anew for one channel, the usual number of the smallest boards. */
SCARE_INLINE void token_rows(const int32_t *seen, const int32_t *shared, uint32_t rows, uint32_t channels,
                             uint32_t width, uint32_t outputs, const int16_t *local, const int16_t *share,
                             const int16_t *mix, const int32_t *bias, uint32_t shift, int32_t *out)
{
    for (uint32_t i = 0u; i < outputs; i += 2u, local += 2u * channels) {
        int32_t first = width ? 0 : shared[i], second = width ? 0 : shared[i + 1u];
        for (const int32_t *word = shared; word != shared + width; word++, mix += 2) {
            first = scare_add_half(*word, scare_pair(mix), first);
            second = scare_add_upper(*word, scare_pair(mix), second);
        }
        const int32_t *word = seen;
        int32_t *place = out + i;
        for (const int16_t *part = share; part != share + rows; part++, bias += 2, place += outputs) {
            int32_t a = scare_add_half(first, *part, bias[0]), b = scare_add_half(second, *part, bias[1]);
            for (uint32_t c = 0u; c < channels; c++, word++) {
                a = scare_add_half(*word, scare_pair(local + 2u * c), a);
                b = scare_add_upper(*word, scare_pair(local + 2u * c), b);
            }
            place[0] = a >> shift;
            place[1] = b >> shift;
        }
    }
}

void scare_token_rows_s8(const int32_t *seen, const int32_t *shared, uint32_t rows, uint32_t channels, uint32_t width,
                         uint32_t outputs, const int16_t *local, const int16_t *share, const int16_t *mix,
                         const int32_t *bias, uint32_t shift, int32_t *out)
{
    if (channels == 1u)
        token_rows(seen, shared, rows, 1u, width, outputs, local, share, mix, bias, shift, out);
    else
        token_rows(seen, shared, rows, channels, width, outputs, local, share, mix, bias, shift, out);
}

void scare_add_s8(const int32_t *a, const int32_t *b, uint32_t count, int32_t *out)
{
    for (; count >= 4u; count -= 4u, a += 4, b += 4, out += 4) {
        int32_t first = a[0] + b[0], second = a[1] + b[1], third = a[2] + b[2], fourth = a[3] + b[3];
        out[0] = first;
        out[1] = second;
        out[2] = third;
        out[3] = fourth;
    }
    for (uint32_t i = 0u; i < count; i++) out[i] = a[i] + b[i];
}

void scare_result_s8(const int32_t *x, float unit, float *out)
{
    *out = (float)*x * unit;
}
