/* Integer kernels that read the window. */
#include "fixed_s8.h"
#include "scare_integer.h"

typedef struct {
    int32_t coarse[4], fine[4];
} sums;

/* Four projections at once, so that each sample is loaded once for all of them. */
SCARE_INLINE void add_four(sums *sum, const int16_t *x, uint32_t older, uint32_t newer, const void **small,
                           const int16_t **large)
{
    const void *table = *small;
    int32_t a = sum->coarse[0], b = sum->coarse[1], c = sum->coarse[2], d = sum->coarse[3];
    SCARE_ROLLED
    for (const int16_t *end = x + older; x != end; x += 4) {
        int32_t first = scare_pair(x), second = scare_pair(x + 2);
        scare_words next = scare_next_words(&table);
        a = scare_add_pairs(second, scare_odd_bytes(next.a), scare_add_pairs(first, scare_even_bytes(next.a), a));
        b = scare_add_pairs(second, scare_odd_bytes(next.b), scare_add_pairs(first, scare_even_bytes(next.b), b));
        c = scare_add_pairs(second, scare_odd_bytes(next.c), scare_add_pairs(first, scare_even_bytes(next.c), c));
        d = scare_add_pairs(second, scare_odd_bytes(next.d), scare_add_pairs(first, scare_even_bytes(next.d), d));
    }
    sum->coarse[0] = a, sum->coarse[1] = b, sum->coarse[2] = c, sum->coarse[3] = d;
    const int16_t *fine = *large;
    SCARE_ROLLED
    for (const int16_t *end = x + newer; x != end; x += 2, fine += 8)
        for (uint32_t i = 0u; i < 4u; i++)
            sum->fine[i] = scare_add_pairs(scare_pair(x), scare_pair(fine + 2u * i), sum->fine[i]);
    *small = table, *large = fine;
}

SCARE_INLINE void add_one(sums *sum, const int16_t *x, uint32_t older, uint32_t newer, const void **small,
                          const int16_t **large)
{
    const int8_t *weights = *small;
    int32_t coarse = sum->coarse[0], fine = sum->fine[0];
    SCARE_ROLLED
    for (const int16_t *end = x + older; x != end; x += 4, weights += 4) {
        int32_t word;
        __builtin_memcpy(&word, weights, sizeof word);
        coarse = scare_add_pairs(scare_pair(x), scare_even_bytes(word), coarse);
        coarse = scare_add_pairs(scare_pair(x + 2), scare_odd_bytes(word), coarse);
    }
    const int16_t *more = *large;
    SCARE_ROLLED
    for (const int16_t *end = x + newer; x != end; x += 2, more += 2)
        fine = scare_add_pairs(scare_pair(x), scare_pair(more), fine);
    sum->coarse[0] = coarse, sum->fine[0] = fine;
    *small = weights, *large = more;
}

void scare_project_s8(const int16_t *window, uint32_t stride, uint32_t channels, uint32_t apart, uint32_t older,
                      uint32_t newer, uint32_t rows, const int8_t *older_weights, const int16_t *newer_weights,
                      const int32_t *scales, uint32_t shift, int32_t *out)
{
    uint32_t turns = apart ? channels : 1u, together = apart ? 1u : channels;
    SCARE_ROLLED
    for (uint32_t turn = 0u; turn < turns; turn++) {
        const void *small = older_weights;
        const int16_t *large = newer_weights;
        const int32_t *scale = scales;
        int32_t *place = out + turn;
        SCARE_ROLLED
        for (uint32_t row = 0u; row < rows;) {
            uint32_t count = rows - row >= 4u ? 4u : 1u;
            sums sum = {{0, 0, 0, 0}, {0, 0, 0, 0}};
            SCARE_ROLLED
            for (uint32_t channel = 0u; channel < together; channel++) {
                const int16_t *x = window + (turn + channel) * stride;
                if (count == 4u)
                    add_four(&sum, x, older, newer, &small, &large);
                else
                    add_one(&sum, x, older, newer, &small, &large);
            }
            SCARE_ROLLED
            for (uint32_t i = 0u; i < count; i++, scale += 3, place += turns) {
                int64_t whole = (int64_t)sum.coarse[i] * scale[0] + (int64_t)sum.fine[i] * scale[1];
                *place = scare_rounded(whole, shift) + scale[2];
            }
            row += count;
        }
    }
}

void scare_hat_basis_s8(const int16_t *window, uint32_t stride, uint32_t channels, uint32_t knots,
                        const uint16_t *segments, const int16_t *shares, const uint8_t *shifts, int32_t *out)
{
    SCARE_ROLLED
    for (uint32_t channel = 0u; channel < channels; channel++, window += stride) {
        const uint16_t *segment = segments;
        const void *table = shares;
        int64_t held = 0; /* of the farther knot, from the segment before */
        SCARE_ROLLED
        for (uint32_t knot = knots - 1u; knot > 0u; knot--, segment += 2) {
            const int16_t *x = window + 2u * segment[0];
            int64_t nearer = 0, farther = held;
            SCARE_ROLLED
            for (const int16_t *end = x + segment[1] / 2u * 4u; x != end; x += 4) {
                scare_words next = scare_next_words(&table);
                nearer = scare_add_pairs_long(scare_pair(x), next.a, nearer);
                farther = scare_add_pairs_long(scare_pair(x), next.b, farther);
                nearer = scare_add_pairs_long(scare_pair(x + 2), next.c, nearer);
                farther = scare_add_pairs_long(scare_pair(x + 2), next.d, farther);
            }
            if (segment[1] % 2u) {
                nearer = scare_add_pairs_long(scare_pair(x), scare_next_word(&table), nearer);
                farther = scare_add_pairs_long(scare_pair(x), scare_next_word(&table), farther);
            }
            out[knot * channels + channel] = scare_rounded(farther, shifts[knot]);
            held = nearer;
        }
        out[channel] = scare_rounded(held, shifts[0]);
    }
}

void scare_bins_s8(const int16_t *window, uint32_t stride, uint32_t rows, uint32_t channels, uint32_t bins,
                   const int16_t *weights, const uint16_t *starts, const int32_t *scales, uint32_t shift, int32_t *out)
{
    SCARE_ROLLED
    for (uint32_t bin = 0u; bin < bins; bin++) {
        uint32_t start = starts[bin], end = bin + 1u < bins ? starts[bin + 1u] : rows;
        SCARE_ROLLED
        for (uint32_t channel = 0u; channel < channels; channel++) {
            const int16_t *x = window + channel * stride;
            int32_t sum = 0;
            SCARE_ROLLED
            for (uint32_t row = start; row < end; row++) sum += x[row] * weights[row];
            out[bin * channels + channel] = scare_rounded((int64_t)sum * scales[bin], shift);
        }
    }
}

void scare_newest_s8(const int16_t *window, uint32_t stride, uint32_t rows, uint32_t channels, int32_t *out)
{
    SCARE_ROLLED
    for (uint32_t channel = 0u; channel < channels; channel++) out[channel] = window[channel * stride + rows - 1u] * 16384;
}
