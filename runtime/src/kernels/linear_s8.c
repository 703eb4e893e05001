/* Integer kernels: small products of words and weights of 16 bits. */
#include "fixed_s8.h"
#include "scare_integer.h"

/* A word times four weights, the halves of two words, each product to its own sum. */
SCARE_INLINE void add_products(scare_words *sum, int32_t x, int32_t first, int32_t second)
{
    sum->a = scare_add_half(x, first, sum->a);
    sum->b = scare_add_upper(x, first, sum->b);
    sum->c = scare_add_half(x, second, sum->c);
    sum->d = scare_add_upper(x, second, sum->d);
}

/* Four outputs: two inputs at a time, a last one alone. */
SCARE_INLINE scare_words mix_four(const int32_t *x, uint32_t inputs, const void **weights, scare_words sum)
{
    const void *table = *weights;
    SCARE_ROLLED
    for (const int32_t *end = x + inputs / 2u * 2u; x != end; x += 2) {
        scare_words next = scare_next_four(&table);
        add_products(&sum, x[0], next.a, next.b);
        add_products(&sum, x[1], next.c, next.d);
    }
    if (inputs % 2u) {
        scare_words next = scare_next_four(&table);
        add_products(&sum, x[0], next.a, next.b);
    }
    *weights = table;
    return sum;
}

void scare_dense_s8(const int32_t *x, uint32_t rows, uint32_t inputs, uint32_t outputs, const int16_t *weights,
                    const int32_t *bias, const uint8_t *shifts, int32_t *out)
{
    SCARE_ROLLED
    for (const int32_t *end = x + rows * inputs; x != end; x += inputs) {
        const void *table = weights;
        SCARE_ROLLED
        for (uint32_t i = 0u; i < outputs; i += 4u) {
            scare_words sum = {bias[i], bias[i + 1u], bias[i + 2u], bias[i + 3u]};
            sum = mix_four(x, inputs, &table, sum);
            const int32_t sums[4] = {sum.a, sum.b, sum.c, sum.d};
            SCARE_ROLLED
            for (uint32_t j = 0u; j < 4u && i + j < outputs; j++) *out++ = sums[j] >> shifts[i + j];
        }
    }
}

void scare_dense_1_s8(const int32_t *x, uint32_t inputs, const int16_t *weights, const int32_t *bias,
                      const uint8_t *shifts, int32_t *out)
{
    const void *words = x, *table = weights;
    int32_t sum = bias[0];
    SCARE_ROLLED
    for (const int32_t *end = x + inputs / 4u * 4u; words != end;) {
        scare_words next = scare_next_four(&words);
        int32_t first = scare_next_word(&table), second = scare_next_word(&table);
        sum = scare_add_upper(next.b, first, scare_add_half(next.a, first, sum));
        sum = scare_add_upper(next.d, second, scare_add_half(next.c, second, sum));
    }
    SCARE_ROLLED
    for (uint32_t i = inputs / 4u * 4u; i < inputs; i++) sum = scare_add_half(x[i], weights[i], sum);
    *out = sum >> shifts[0];
}

void scare_lens_s8(const int32_t *x, uint32_t rows, uint32_t channels, uint32_t lenses, const int16_t *weights,
                   int32_t *out)
{
    for (uint32_t lens = 0u; lens < lenses; lens++, weights += rows)
        for (uint32_t channel = 0u; channel < channels; channel++) {
            int32_t sum = 0;
            SCARE_ROLLED
            for (uint32_t row = 0u; row < rows; row++)
                sum = scare_add_half(x[row * channels + channel], weights[row], sum);
            *out++ = sum;
        }
}

/* Compiled anew for one channel and eight outputs. */
SCARE_INLINE void token_rows(const int32_t *seen, const int32_t *shared, uint32_t rows, uint32_t channels,
                             uint32_t width, uint32_t outputs, const int16_t *local, const int16_t *mix,
                             const int32_t *rest, int32_t *out)
{
    const void *mixing = mix, *table = rest;
    const int32_t *end = seen + rows * channels;
    SCARE_ROLLED
    for (uint32_t i = 0u; i < outputs; i += 4u, local += 4u * channels) {
        scare_words mixed = {0, 0, 0, 0};
        if (width)
            mixed = mix_four(shared, width, &mixing, mixed);
        else
            mixed = (scare_words){shared[i], shared[i + 1u], shared[i + 2u], shared[i + 3u]};
        int32_t first = scare_pair(local), second = scare_pair(local + 2), *place = out + i;
        SCARE_ROLLED
        for (const int32_t *word = seen; word != end; word += channels, place += outputs) {
            SCARE_WALK(place);
            int32_t share;
            scare_words sum = scare_next_five(&table, &share);
            sum.a = scare_add_half(mixed.a, share, sum.a);
            sum.b = scare_add_half(mixed.b, share, sum.b);
            sum.c = scare_add_half(mixed.c, share, sum.c);
            sum.d = scare_add_half(mixed.d, share, sum.d);
            add_products(&sum, word[0], first, second);
            for (uint32_t c = 1u; c < channels; c++)
                add_products(&sum, word[c], scare_pair(local + 4u * c), scare_pair(local + 4u * c + 2u));
            place[0] = sum.a, place[1] = sum.b, place[2] = sum.c, place[3] = sum.d;
        }
    }
}

void scare_token_rows_s8(const int32_t *seen, const int32_t *shared, uint32_t rows, uint32_t channels, uint32_t width,
                         uint32_t outputs, const int16_t *local, const int16_t *mix, const int32_t *rest, int32_t *out)
{
    token_rows(seen, shared, rows, channels, width, outputs, local, mix, rest, out);
}

void scare_token_rows_1_8_s8(const int32_t *seen, const int32_t *shared, uint32_t rows, uint32_t width,
                             const int16_t *local, const int16_t *mix, const int32_t *rest, int32_t *out)
{
    token_rows(seen, shared, rows, 1u, width, 8u, local, mix, rest, out);
}

void scare_add_s8(const int32_t *a, const int32_t *b, uint32_t count, uint32_t shift, int32_t *out)
{
    const void *first = a;
    SCARE_ROLLED
    for (const int32_t *end = b + count / 4u * 4u; b != end; b += 4, out += 4) {
        SCARE_WALK(b);
        SCARE_WALK(out);
        int32_t e = b[0] >> shift, f = b[1] >> shift, g = b[2] >> shift, h = b[3] >> shift;
        scare_words next = scare_next_four(&first);
        out[0] = next.a + e, out[1] = next.b + f, out[2] = next.c + g, out[3] = next.d + h;
    }
    SCARE_ROLLED
    for (uint32_t i = 0u; i < count % 4u; i++) out[i] = scare_next_word(&first) + (b[i] >> shift);
}

void scare_result_s8(const int32_t *x, float unit, float *out)
{
    *out = (float)*x * unit;
}
