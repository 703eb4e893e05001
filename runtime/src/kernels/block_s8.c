/* Integer kernels: normalisation and the feed-forward part of a block. */
#include "fixed_s8.h"
#include "scare_integer.h"

void scare_layer_norm_s8(const int32_t *x, uint32_t rows, uint32_t width, const int32_t *gain, const int32_t *bias,
                         uint32_t epsilon, int32_t epsilon_bits, int32_t *out)
{
    uint32_t level_bits = (uint32_t)__builtin_clz(width) - 3u, row_bits = (uint32_t)__builtin_clz(width) / 2u;
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
            int32_t normed = scare_half_word((centred[i] * inverse.root) >> (inverse.half - 1u));
            out[i] = scare_add_half(gain[i], normed, bias[i]);
        }
    }
}

/* Four products of eight numbers, held in four pairs, with the pairs that follow each other at `weights`. */
SCARE_INLINE int32_t add_eight(const int32_t *pairs, const int16_t *weights, int32_t sum)
{
    sum = scare_add_pairs(pairs[0], scare_pair(weights), sum);
    sum = scare_add_pairs(pairs[1], scare_pair(weights + 2), sum);
    sum = scare_add_pairs(pairs[2], scare_pair(weights + 4), sum);
    return scare_add_pairs(pairs[3], scare_pair(weights + 6), sum);
}

void scare_feed_forward_s8(const int32_t *x, uint32_t rows, uint32_t width, uint32_t hidden, const int16_t *inner,
                           const int32_t *inner_bias, const int16_t *outer, const int32_t *outer_bias, uint32_t most,
                           int32_t bits, int32_t *out)
{
    int32_t pairs[SCARE_WIDEST_S8 / 2u] = {0}, active[SCARE_HIDDEN_S8 / 2u] = {0};
    uint32_t eights = (width + 7u) / 8u, fours = (hidden + 3u) / 4u;
    for (uint32_t row = 0u; row < rows; row++, x += width, out += width) {
        uint32_t spare = scare_spare_bits(scare_magnitudes(x, width));
        spare = spare < most ? spare : most;
        for (uint32_t i = 0u; i < width; i += 2u) {
            int32_t second = i + 1u < width ? x[i + 1u] : 0;
            pairs[i / 2u] = scare_pack(scare_to_top(x[i], spare, 15u), scare_to_top(second, spare, 15u));
        }
        const int16_t *weights = inner;
        for (uint32_t i = 0u; i < hidden; i += 2u) {
            int32_t sum[2] = {0, 0};
            for (uint32_t j = 0u; j < 2u && i + j < hidden; j++) {
                sum[j] = inner_bias[i + j] >> (most - spare);
                for (uint32_t k = 0u; k < eights; k++, weights += 8) sum[j] = add_eight(pairs + 4u * k, weights, sum[j]);
            }
            active[i / 2u] = scare_pack(scare_positive_half(sum[0] >> 16), scare_positive_half(sum[1] >> 16));
        }
        int32_t down = (int32_t)spare + bits;
        uint32_t left = (uint32_t)scare_most(-down, 0), right = (uint32_t)scare_least(scare_most(down, 0), 31);
        weights = outer;
        for (uint32_t i = 0u; i < width; i++) {
            int32_t sum = 0;
            for (uint32_t k = 0u; k < fours; k++, weights += 4) {
                sum = scare_add_pairs(active[2u * k], scare_pair(weights), sum);
                sum = scare_add_pairs(active[2u * k + 1u], scare_pair(weights + 2), sum);
            }
            out[i] = (scare_shifted(sum, left) >> right) + outer_bias[i];
        }
    }
}
