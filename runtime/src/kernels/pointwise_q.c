/* Fixed-point kernels: sums, norms, the newest row, and the result as a float. */
#include "fixed_q.h"
#include "scare_fixed.h"

void scare_add_q(int32_t *out, const int32_t *a, const int32_t *b, uint32_t count, uint32_t shift) {
    const void *first = a;
    SCARE_ROLLED
    for (const int32_t *end = b + count / 4u * 4u; b != end; b += 4, out += 4) {
        SCARE_WALK(b);
        SCARE_WALK(out);
        int32_t e = b[0] >> shift, f = b[1] >> shift, g = b[2] >> shift, h = b[3] >> shift;
        scare_words next = scare_next_four(&first);
        out[0] = scare_plus(next.a, e), out[1] = scare_plus(next.b, f);
        out[2] = scare_plus(next.c, g), out[3] = scare_plus(next.d, h);
    }
    SCARE_ROLLED
    for (uint32_t i = 0u; i < count % 4u; i++) out[i] = scare_plus(scare_next_word(&first), b[i] >> shift);
}

void scare_newest_q(int32_t *out, const int16_t *window, uint32_t stride, uint32_t rows, uint32_t channels) {
    SCARE_ROLLED
    for (uint32_t channel = 0u; channel < channels; channel++)
        out[channel] = window[channel * stride + rows - 1u] * 16384;
}

SCARE_INLINE void layer_norm(int32_t *out, const int32_t *x, const int32_t *scales, uint32_t rows, uint32_t width,
                             uint32_t epsilon, int32_t epsilon_bits) {
    uint32_t level_bits = (uint32_t)__builtin_clz(width) - 3u, row_bits = (uint32_t)__builtin_clz(width) / 2u;
    SCARE_ROLLED
    for (uint32_t row = 0u; row < rows; row++, x += width, out += width) {
        SCARE_WALK(x);
        uint32_t spare = scare_spare_bits(scare_magnitudes(x, width)), bits = 0u;
        int32_t sum = 0, centred[SCARE_WIDEST_Q];
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

void scare_layer_norm_q(int32_t *out, const int32_t *x, const int32_t *scales, uint32_t rows, uint32_t width,
                        uint32_t epsilon, int32_t epsilon_bits) {
    layer_norm(out, x, scales, rows, width, epsilon, epsilon_bits);
}

void scare_layer_norm_8_q(int32_t *out, const int32_t *x, const int32_t *scales, uint32_t rows, uint32_t epsilon,
                          int32_t epsilon_bits) {
    layer_norm(out, x, scales, rows, 8u, epsilon, epsilon_bits);
}

void scare_result_q(float *out, const int32_t *x, int32_t offset, float unit) {
    *out = (float)scare_plus(*x, offset) * unit;
}
