/* Integer kernels: small products of words and weights of 16 bits. */
#include "fixed_s8.h"
#include "scare_integer.h"

/* Sums of four outputs: two inputs at a time, a last one alone. */
SCARE_INLINE const void *add_four(const int32_t *x, uint32_t inputs, const void *table, int32_t *sums)
{
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
    SCARE_ROLLED
    for (const int32_t *end = x + inputs / 2u * 2u; x != end; x += 2) {
        scare_words next = scare_next_four(&table);
        a = scare_add_half(x[0], next.a, a);
        b = scare_add_upper(x[0], next.a, b);
        c = scare_add_half(x[0], next.b, c);
        d = scare_add_upper(x[0], next.b, d);
        a = scare_add_half(x[1], next.c, a);
        b = scare_add_upper(x[1], next.c, b);
        c = scare_add_half(x[1], next.d, c);
        d = scare_add_upper(x[1], next.d, d);
    }
    if (inputs % 2u) {
        scare_words next = scare_next_four(&table);
        a = scare_add_half(x[0], next.a, a);
        b = scare_add_upper(x[0], next.a, b);
        c = scare_add_half(x[0], next.b, c);
        d = scare_add_upper(x[0], next.b, d);
    }
    sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
    return table;
}

void scare_dense_s8(const int32_t *x, uint32_t rows, uint32_t inputs, uint32_t outputs, const int16_t *weights,
                    const int32_t *bias, const uint8_t *shifts, int32_t *out)
{
    SCARE_ROLLED
    for (const int32_t *end = x + rows * inputs; x != end; x += inputs) {
        const void *table = weights;
        SCARE_ROLLED
        for (uint32_t i = 0u; i < outputs; i += 4u) {
            int32_t sums[4] = {bias[i], bias[i + 1u], bias[i + 2u], bias[i + 3u]};
            table = add_four(x, inputs, table, sums);
            SCARE_ROLLED
            for (uint32_t j = 0u; j < 4u && i + j < outputs; j++) *out++ = sums[j] >> shifts[i + j];
        }
    }
}

void scare_dense_1_s8(const int32_t *x, uint32_t inputs, const int16_t *weights, const int32_t *bias,
                      const uint8_t *shifts, int32_t *out)
{
    int32_t sum = bias[0];
    SCARE_ROLLED
    for (const int32_t *end = x + inputs / 2u * 2u; x != end; x += 2, weights += 2) {
        int32_t pair = scare_pair(weights);
        sum = scare_add_upper(x[1], pair, scare_add_half(x[0], pair, sum));
    }
    if (inputs % 2u) sum = scare_add_half(x[0], weights[0], sum);
    *out = sum >> shifts[0];
}

void scare_lens_s8(const int32_t *x, uint32_t rows, uint32_t channels, uint32_t lenses, const int16_t *weights,
                   int32_t *out)
{
    for (uint32_t lens = 0u; lens < lenses; lens++, weights += rows)
        for (uint32_t channel = 0u; channel < channels; channel++) {
            int32_t sum = 0;
            SCARE_ROLLED
            for (uint32_t row = 0u; row < rows; row++) sum = scare_add_half(x[row * channels + channel], weights[row], sum);
            *out++ = sum;
        }
}

/* Two outputs of what all rows share; half a table's words, eight inputs with four. */
SCARE_INLINE const void *mix_two(const int32_t *shared, uint32_t width, const void *table, int32_t *mixed)
{
    int32_t a = 0, b = 0;
    SCARE_ROLLED
    for (const int32_t *end = shared + width; shared != end; shared += 4) {
        scare_words next = scare_next_four(&table);
        a = scare_add_half(shared[0], next.a, a);
        b = scare_add_upper(shared[0], next.a, b);
        a = scare_add_half(shared[1], next.b, a);
        b = scare_add_upper(shared[1], next.b, b);
        a = scare_add_half(shared[2], next.c, a);
        b = scare_add_upper(shared[2], next.c, b);
        a = scare_add_half(shared[3], next.d, a);
        b = scare_add_upper(shared[3], next.d, b);
    }
    mixed[0] = a, mixed[1] = b;
    return table;
}

/* Compiled anew for one channel. */
SCARE_INLINE void token_rows(const int32_t *seen, const int32_t *shared, uint32_t rows, uint32_t channels,
                             uint32_t width, uint32_t outputs, const int16_t *local, const int16_t *share,
                             const int16_t *mix, const int32_t *bias, uint32_t shift, int32_t *out)
{
    const void *table = mix;
    SCARE_ROLLED
    for (uint32_t i = 0u; i < outputs; i += 2u, local += 2u * channels) {
        int32_t mixed[2] = {shared[i], shared[i + 1u]}, first = scare_pair(local);
        if (width) table = mix_two(shared, width, table, mixed);
        const int32_t *word = seen;
        int32_t *place = out + i;
        SCARE_ROLLED
        for (const int16_t *part = share; part != share + rows; part++, bias += 2, place += outputs) {
            SCARE_WALK(bias);
            SCARE_WALK(place);
            int32_t a = scare_add_half(mixed[0], *part, bias[0]), b = scare_add_half(mixed[1], *part, bias[1]);
            a = scare_add_half(*word, first, a);
            b = scare_add_upper(*word++, first, b);
            for (uint32_t c = 1u; c < channels; c++, word++) {
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
    token_rows(seen, shared, rows, channels, width, outputs, local, share, mix, bias, shift, out);
}

void scare_token_rows_1_s8(const int32_t *seen, const int32_t *shared, uint32_t rows, uint32_t width, uint32_t outputs,
                           const int16_t *local, const int16_t *share, const int16_t *mix, const int32_t *bias,
                           uint32_t shift, int32_t *out)
{
    token_rows(seen, shared, rows, 1u, width, outputs, local, share, mix, bias, shift, out);
}

void scare_add_s8(const int32_t *a, const int32_t *b, uint32_t count, uint32_t shift, int32_t *out)
{
    const void *first = a;
    SCARE_ROLLED
    for (const int32_t *end = b + count / 4u * 4u; b != end; b += 4, out += 4) {
        SCARE_WALK(b);
        SCARE_WALK(out);
        scare_words words = scare_next_four(&first);
        int32_t second = words.b + (b[1] >> shift), third = words.c + (b[2] >> shift);
        int32_t fourth = words.d + (b[3] >> shift);
        out[0] = words.a + (b[0] >> shift);
        out[1] = second;
        out[2] = third;
        out[3] = fourth;
    }
    SCARE_ROLLED
    for (uint32_t i = 0u; i < count % 4u; i++) out[i] = scare_next_word(&first) + (b[i] >> shift);
}

void scare_result_s8(const int32_t *x, float unit, float *out)
{
    *out = (float)*x * unit;
}
