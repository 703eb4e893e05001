/* Integer kernels: normalisation and the feed-forward part of a block. */
#include "fixed_s8.h"
#include "scare_integer.h"

SCARE_INLINE void layer_norm(const int32_t *x, uint32_t rows, uint32_t width, const int32_t *scales,
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
        const void *table = scales;
        SCARE_WALK(out);
        for (uint32_t i = 0u; i < width; i += 2u) {
            scare_words next = scare_next_four(&table);
            out[i] = scare_add_half(next.a, (centred[i] * inverse.root) >> (inverse.half - 1u), next.b);
            if (i + 1u < width)
                out[i + 1u] = scare_add_half(next.c, (centred[i + 1u] * inverse.root) >> (inverse.half - 1u), next.d);
        }
    }
}

void scare_layer_norm_s8(const int32_t *x, uint32_t rows, uint32_t width, const int32_t *scales, uint32_t epsilon,
                         int32_t epsilon_bits, int32_t *out)
{
    layer_norm(x, rows, width, scales, epsilon, epsilon_bits, out);
}

void scare_layer_norm_8_s8(const int32_t *x, uint32_t rows, const int32_t *scales, uint32_t epsilon,
                           int32_t epsilon_bits, int32_t *out)
{
    layer_norm(x, rows, 8u, scales, epsilon, epsilon_bits, out);
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

/* One number of the hidden layer, from 0 to 32767: its bias, then its weights. */
SCARE_INLINE int32_t activate_one(const int32_t *pairs, uint32_t fours, const void **table, uint32_t shift)
{
    int32_t sum;
    scare_words next = scare_next_five(table, &sum);
    sum = scare_add_all(pairs, next, sum >> shift);
    for (uint32_t i = 1u; i < fours; i++) sum = scare_add_all(pairs + 4u * i, scare_next_four(table), sum);
    return scare_positive_half(sum >> 16);
}

/* The hidden layer as pairs. */
SCARE_INLINE void activate(const int32_t *pairs, uint32_t fours, const void *table, uint32_t couples, uint32_t shift,
                           int32_t *active)
{
    SCARE_ROLLED
    for (const int32_t *end = active + couples; active != end; active += 2) {
        SCARE_WALK(active);
        int32_t first = activate_one(pairs, fours, &table, shift);
        active[0] = scare_pack(first, activate_one(pairs, fours, &table, shift));
        first = activate_one(pairs, fours, &table, shift);
        active[1] = scare_pack(first, activate_one(pairs, fours, &table, shift));
    }
}

/* Four sums of products with the hidden layer; on to the next weights. */
SCARE_INLINE scare_words collect(const int32_t *active, uint32_t couples, const void **outer)
{
    scare_words sum = {0, 0, 0, 0};
    const void *table = *outer;
    SCARE_ROLLED
    for (const int32_t *end = active + couples; active != end; active += 4) {
        SCARE_WALK(active);
        for (uint32_t i = 0u; i < 4u; i += 2u) {
            int32_t first = active[i], second = active[i + 1u];
            scare_add_each(&sum, first, scare_next_four(&table));
            scare_add_each(&sum, second, scare_next_four(&table));
        }
    }
    *outer = table;
    return sum;
}

SCARE_INLINE void feed_forward(const int32_t *x, uint32_t rows, uint32_t width, uint32_t hidden, const int16_t *inner,
                               const int16_t *outer, const int32_t *outer_bias, uint32_t most, int32_t bits,
                               int32_t *out)
{
    int32_t pairs[SCARE_WIDEST_S8 / 2u], active[SCARE_HIDDEN_S8 / 2u];
    uint32_t fours = (width + 7u) / 8u, couples = (hidden + 7u) / 8u * 4u;
    for (uint32_t i = width / 2u; i < 4u * fours; i++) pairs[i] = 0;
    SCARE_ROLLED
    for (const int32_t *end = x + rows * width; x != end; x += width) {
        uint32_t spare = to_pairs(x, width, most, pairs);
        activate(pairs, fours, inner, couples, most - spare, active);
        int32_t down = (int32_t)spare + bits;
        uint32_t left = (uint32_t)scare_most(-down, 0), right = (uint32_t)scare_least(scare_most(down, 0), 31);
        const void *table = outer, *bias = outer_bias;
        SCARE_ROLLED
        for (uint32_t i = 0u; i < width; i += 4u) {
            scare_words sum = collect(active, couples, &table), more = scare_next_four(&bias);
            const int32_t fed[4] = {
                (scare_shifted(sum.a, left) >> right) + more.a, (scare_shifted(sum.b, left) >> right) + more.b,
                (scare_shifted(sum.c, left) >> right) + more.c, (scare_shifted(sum.d, left) >> right) + more.d};
            SCARE_WALK(out);
            for (uint32_t j = 0u; j < 4u && i + j < width; j++) *out++ = fed[j];
        }
    }
}

void scare_feed_forward_s8(const int32_t *x, uint32_t rows, uint32_t width, uint32_t hidden, const int16_t *inner,
                           const int16_t *outer, const int32_t *outer_bias, uint32_t most, int32_t bits, int32_t *out)
{
    feed_forward(x, rows, width, hidden, inner, outer, outer_bias, most, bits, out);
}

void scare_feed_forward_8_s8(const int32_t *x, uint32_t rows, uint32_t hidden, const int16_t *inner,
                             const int16_t *outer, const int32_t *outer_bias, uint32_t most, int32_t bits,
                             int32_t *out)
{
    feed_forward(x, rows, 8u, hidden, inner, outer, outer_bias, most, bits, out);
}
