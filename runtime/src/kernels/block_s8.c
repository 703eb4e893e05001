/* Integer kernels: normalisation and the feed-forward part of a block. */
#include "fixed_s8.h"
#include "scare_integer.h"

SCARE_INLINE void layer_norm(const int32_t *x, uint32_t rows, uint32_t width, const int32_t *gain, const int32_t *bias,
                             uint32_t epsilon, int32_t epsilon_bits, int32_t *out)
{
    uint32_t level_bits = (uint32_t)__builtin_clz(width) - 3u, row_bits = (uint32_t)__builtin_clz(width) / 2u;
    SCARE_ROLLED
    for (uint32_t row = 0u; row < rows; row++, x += width, out += width) {
        uint32_t spare = scare_spare_bits(scare_magnitudes(x, width)), bits = 0u;
        int32_t sum = 0, centred[SCARE_WIDEST_S8];
        for (uint32_t i = 0u; i < width; i++) {
            centred[i] = scare_to_top(x[i], spare, level_bits);
            sum += centred[i];
        }
        for (uint32_t i = 0u; i < width; i++) {
            centred[i] = centred[i] * (int32_t)width - sum;
            bits |= scare_magnitude(centred[i]);
        }
        uint32_t more = scare_spare_bits(bits), squares = 0u;
        for (uint32_t i = 0u; i < width; i++) {
            centred[i] = scare_to_top(centred[i], more, row_bits);
            squares += (uint32_t)(centred[i] * centred[i]);
        }
        int32_t down = scare_least(scare_most(epsilon_bits - 2 * (int32_t)(spare + more), 0), 31);
        uint32_t tiny = epsilon >> down;
        squares = squares + tiny < squares ? 0xffffffffu : squares + tiny;
        scare_root inverse = scare_inverse_root(squares < (1u << 26) ? 1u << 26 : squares);
        for (uint32_t i = 0u; i < width; i++) {
            int32_t normed = (centred[i] * inverse.root) >> (inverse.half - 1u);
            out[i] = scare_add_half(gain[i], normed, bias[i]);
        }
    }
}

void scare_layer_norm_s8(const int32_t *x, uint32_t rows, uint32_t width, const int32_t *gain, const int32_t *bias,
                         uint32_t epsilon, int32_t epsilon_bits, int32_t *out)
{
    layer_norm(x, rows, width, gain, bias, epsilon, epsilon_bits, out);
}

void scare_layer_norm_8_s8(const int32_t *x, uint32_t rows, const int32_t *gain, const int32_t *bias, uint32_t epsilon,
                           int32_t epsilon_bits, int32_t *out)
{
    layer_norm(x, rows, 8u, gain, bias, epsilon, epsilon_bits, out);
}

/* The row x as pairs of 15 bits; how many spare bits were used, at most `most`. */
SCARE_INLINE uint32_t to_pairs(const int32_t *x, uint32_t width, uint32_t most, int32_t *pairs)
{
    uint32_t spare = scare_spare_bits(scare_magnitudes(x, width));
    spare = spare < most ? spare : most;
    for (uint32_t i = 0u; i + 1u < width; i += 2u)
        pairs[i / 2u] = scare_pack(scare_to_top(x[i], spare, 15u), scare_to_top(x[i + 1u], spare, 15u));
    if (width % 2u) pairs[width / 2u] = scare_pack(scare_to_top(x[width - 1u], spare, 15u), 0);
    return spare;
}

/* The hidden layer as pairs, from 0 to 32767. */
SCARE_INLINE void activate(const int32_t *pairs, uint32_t fours, const void *table, const int32_t *bias,
                           uint32_t couples, uint32_t shift, int32_t *active)
{
    SCARE_ROLLED
    for (const int32_t *end = active + couples; active != end; active++, bias += 2) {
        SCARE_WALK(active);
        SCARE_WALK(bias);
        int32_t first = bias[0] >> shift, second = bias[1] >> shift;
        for (uint32_t i = 0u; i < fours; i++) first = scare_add_next(pairs + 4u * i, &table, first);
        first = scare_positive_half(first >> 16);
        for (uint32_t i = 0u; i < fours; i++) second = scare_add_next(pairs + 4u * i, &table, second);
        *active = scare_pack(first, scare_positive_half(second >> 16));
    }
}

/* Four sums of products with the hidden layer; on to the next weights. */
SCARE_INLINE const void *collect(const int32_t *active, uint32_t couples, const void *table, int32_t *sums)
{
    int32_t a = 0, b = 0, c = 0, d = 0;
    SCARE_ROLLED
    for (const int32_t *end = active + couples; active != end; active += 2) {
        SCARE_WALK(active);
        scare_words next = scare_next_words(&table);
        a = scare_add_pairs(active[0], next.a, a);
        b = scare_add_pairs(active[0], next.b, b);
        c = scare_add_pairs(active[0], next.c, c);
        d = scare_add_pairs(active[0], next.d, d);
        next = scare_next_words(&table);
        a = scare_add_pairs(active[1], next.a, a);
        b = scare_add_pairs(active[1], next.b, b);
        c = scare_add_pairs(active[1], next.c, c);
        d = scare_add_pairs(active[1], next.d, d);
    }
    sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
    return table;
}

SCARE_INLINE void feed_forward(const int32_t *x, uint32_t rows, uint32_t width, uint32_t hidden, const int16_t *inner,
                               const int32_t *inner_bias, const int16_t *outer, const int32_t *outer_bias,
                               uint32_t most, int32_t bits, int32_t *out)
{
    int32_t pairs[SCARE_WIDEST_S8 / 2u], active[SCARE_HIDDEN_S8 / 2u];
    uint32_t fours = (width + 7u) / 8u, couples = (hidden + 3u) / 4u * 2u;
    for (uint32_t i = width / 2u; i < 4u * fours; i++) pairs[i] = 0;
    SCARE_ROLLED
    for (const int32_t *end = x + rows * width; x != end; x += width) {
        uint32_t spare = to_pairs(x, width, most, pairs);
        activate(pairs, fours, inner, inner_bias, couples, most - spare, active);
        int32_t down = (int32_t)spare + bits;
        uint32_t left = (uint32_t)scare_most(-down, 0), right = (uint32_t)scare_least(scare_most(down, 0), 31);
        const void *table = outer;
        const int32_t *bias = outer_bias;
        SCARE_ROLLED
        for (uint32_t i = 0u; i < width; i += 4u) {
            int32_t sums[4];
            table = collect(active, couples, table, sums);
            SCARE_WALK(bias);
            SCARE_WALK(out);
            for (uint32_t j = 0u; j < 4u && i + j < width; j++)
                *out++ = (scare_shifted(sums[j], left) >> right) + *bias++;
        }
    }
}

void scare_feed_forward_s8(const int32_t *x, uint32_t rows, uint32_t width, uint32_t hidden, const int16_t *inner,
                           const int32_t *inner_bias, const int16_t *outer, const int32_t *outer_bias, uint32_t most,
                           int32_t bits, int32_t *out)
{
    feed_forward(x, rows, width, hidden, inner, inner_bias, outer, outer_bias, most, bits, out);
}

void scare_feed_forward_8_s8(const int32_t *x, uint32_t rows, uint32_t hidden, const int16_t *inner,
                             const int32_t *inner_bias, const int16_t *outer, const int32_t *outer_bias, uint32_t most,
                             int32_t bits, int32_t *out)
{
    feed_forward(x, rows, 8u, hidden, inner, inner_bias, outer, outer_bias, most, bits, out);
}
