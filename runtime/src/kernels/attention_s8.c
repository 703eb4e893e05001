/* Integer kernels: hash codes, attention on bits, attention with softmax. */
#include "fixed_s8.h"
#include "scare_integer.h"

void scare_hash_codes_s8(const int32_t *x, uint32_t rows, uint32_t width, uint32_t supports, uint32_t bits,
                         const int16_t *support, const int32_t *coefficients, uint32_t degree, uint32_t kernel_bits,
                         const int16_t *projection, const int32_t *bias, uint32_t *codes)
{
    uint32_t row_bits = (uint32_t)__builtin_clz(width) / 2u, eights = (width + 7u) / 8u;
    int32_t pairs[SCARE_WIDEST_S8 / 2u] = {0}, kernel[SCARE_SUPPORTS_S8 / 2u] = {0};
    for (uint32_t row = 0u; row < rows; row++, x += width) {
        uint32_t spare = scare_spare_bits(scare_magnitudes(x, width)), squares = 0u;
        for (uint32_t i = 0u; i < width; i += 2u) {
            int32_t first = scare_to_top(x[i], spare, row_bits);
            int32_t second = i + 1u < width ? scare_to_top(x[i + 1u], spare, row_bits) : 0;
            pairs[i / 2u] = scare_pack(first, second);
            squares += (uint32_t)(first * first) + (uint32_t)(second * second);
        }
        scare_root inverse = scare_inverse_root(squares < (1u << 26) ? 1u << 26 : squares);
        const int16_t *numbers = support;
        for (uint32_t i = 0u; i < supports; i += 2u) {
            int32_t value[2] = {0, 0};
            for (uint32_t j = 0u; j < 2u && i + j < supports; j++) {
                int32_t alike = 0;
                for (uint32_t k = 0u; k < eights; k++, numbers += 8)
                    for (uint32_t l = 0u; l < 4u; l++)
                        alike = scare_add_pairs(pairs[4u * k + l], scare_pair(numbers + 2u * l), alike);
                int32_t cosine = scare_half_word(scare_multiply_half(alike, inverse.root) >> (inverse.half - 3u));
                value[j] = coefficients[0];
                for (uint32_t k = 1u; k <= degree; k++) value[j] = scare_add_half(value[j], cosine, coefficients[k]);
                value[j] = scare_half_word(value[j] >> kernel_bits);
            }
            kernel[i / 2u] = scare_pack(value[0], value[1]);
        }
        uint32_t code = 0u;
        const int16_t *weights = projection;
        for (uint32_t bit = 0u; bit < bits; bit++) {
            int32_t sum = bias[bit];
            for (uint32_t i = 0u; i < (supports + 1u) / 2u; i++, weights += 2)
                sum = scare_add_pairs(kernel[i], scare_pair(weights), sum);
            code = (code >> 1) | (~(uint32_t)sum & 0x80000000u);
        }
        codes[row] = code >> (32u - bits);
    }
}

/* How many bits are set in each half of a word. */
SCARE_INLINE uint32_t count_halves(uint32_t word)
{
    word -= (word >> 1) & 0x55555555u;
    word = (word & 0x33333333u) + ((word >> 2) & 0x33333333u);
    word = (word + (word >> 4)) & 0x0f0f0f0fu;
    return (word + (word >> 8)) & 0x00ff00ffu;
}

SCARE_INLINE uint32_t count_bits(uint32_t word)
{
    word = count_halves(word);
    return (word + (word >> 16)) & 0xffu;
}

/* Twice the sum over the total, times 8, back in the values' own unit. */
SCARE_INLINE int32_t average(int32_t sum, int32_t inverse, uint32_t value_bits, uint32_t spare)
{
    int32_t mean = (int32_t)(((int64_t)sum * inverse) >> 27);
    return scare_shifted(mean, 27u - value_bits) >> spare;
}

void scare_bitwise_attention_s8(const uint32_t *queries, const uint32_t *keys, const int32_t *values, uint32_t rows,
                                uint32_t width, uint32_t bits, uint32_t most, uint32_t value_bits, int32_t *out)
{
    uint32_t spare = scare_spare_bits(scare_magnitudes(values, rows * width)), couples = (rows + 1u) / 2u;
    int32_t pairs[SCARE_PAIRS_S8], codes[SCARE_PAIRS_S8 / 2u];
    for (uint32_t i = 0u; i < couples; i++) {
        const int32_t *first = values + 2u * i * width, *second = 2u * i + 1u < rows ? first + width : first;
        int32_t there = 2u * i + 1u < rows ? -1 : 0;
        for (uint32_t d = 0u; d < width; d++)
            pairs[i * width + d] =
                scare_pack(scare_to_top(first[d], spare, value_bits), there & scare_to_top(second[d], spare, value_bits));
    }
    (void)codes;
    for (uint32_t row = 0u; row < rows; row++, out += width) {
        int32_t total = 0, weights[SCARE_PAIRS_S8 / 2u];
        for (uint32_t i = 0u; i < couples; i++) {
            uint32_t first = most - 2u * count_bits(queries[row] ^ keys[2u * i]), second = 0u;
            if (2u * i + 1u < rows) second = most - 2u * count_bits(queries[row] ^ keys[2u * i + 1u]);
            weights[i] = (int32_t)(first | (second << 16));
            total += (int32_t)(first + second);
        }
        (void)bits;
        int32_t inverse = 0x7fffffff / total;
        for (uint32_t d = 0u; d < width; d++) {
            int32_t sum = 0;
            for (uint32_t i = 0u; i < couples; i++) sum = scare_add_pairs(weights[i], pairs[i * width + d], sum);
            out[d] = average(sum, inverse, value_bits, spare);
        }
    }
}

/* 2^-power, power in Q16, as Q13. */
SCARE_INLINE int32_t power_of_two(int32_t power)
{
    int32_t fraction = power & 0xffff;
    int32_t value = 15078 + ((-2557 * fraction) >> 16);
    value = -45287 + (int32_t)(((int64_t)value * fraction) >> 16);
    value = 65531 + (int32_t)(((int64_t)value * fraction) >> 16);
    return (value >> 3) >> (power >> 16);
}

void scare_softmax_attention_s8(const int32_t *queries, const int32_t *keys, const int32_t *values, uint32_t rows,
                                uint32_t heads, uint32_t width, uint32_t value_width, int32_t sharpness, int32_t bits,
                                uint32_t score_bits, uint32_t value_bits, int32_t *out)
{
    uint32_t query_spare = scare_spare_bits(scare_magnitudes(queries, rows * heads * width));
    uint32_t key_spare = scare_spare_bits(scare_magnitudes(keys, rows * heads * width));
    uint32_t spare = scare_spare_bits(scare_magnitudes(values, rows * heads * value_width));
    int32_t shift = (int32_t)(query_spare + key_spare) - bits;
    int32_t down = scare_least(scare_most(shift, 0), 31), up = scare_least(scare_most(-shift, 0), 20);
    for (uint32_t row = 0u; row < rows; row++)
        for (uint32_t head = 0u; head < heads; head++) {
            int32_t scores[SCARE_TOKENS_S8], largest = INT32_MIN, total = 0;
            const int32_t *query = queries + (row * heads + head) * width;
            for (uint32_t i = 0u; i < rows; i++) {
                const int32_t *key = keys + (i * heads + head) * width;
                int32_t score = 0;
                for (uint32_t d = 0u; d < width; d++)
                    score += scare_to_top(query[d], query_spare, score_bits) * scare_to_top(key[d], key_spare, score_bits);
                scores[i] = score;
                largest = scare_most(largest, score);
            }
            for (uint32_t i = 0u; i < rows; i++) {
                int32_t below = scare_multiply_wide(largest - scores[i], sharpness) >> down;
                scores[i] = power_of_two(scare_shifted(scare_least(below, (31 << 16) >> up), (uint32_t)up));
                total += scores[i];
            }
            int32_t inverse = 0x7fffffff / total;
            for (uint32_t d = 0u; d < value_width; d++) {
                const int32_t *value = values + head * value_width + d;
                int32_t sum = 0;
                for (uint32_t i = 0u; i < rows; i++, value += heads * value_width)
                    sum += scores[i] * scare_to_top(*value, spare, value_bits);
                *out++ = average(sum, inverse, value_bits, spare);
            }
        }
}
