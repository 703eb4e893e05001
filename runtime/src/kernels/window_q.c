/* Fixed-point kernels: mixing time, all but the lens straight from the window, whose older rows have weights of 8 bits. */
#include "fixed_q.h"
#include "product_q.h"
#include "scare_fixed.h"

/* Four sums, by name and one after the other. */
typedef union {
    scare_words four;
    int32_t at[4];
} sums_of_four;

typedef struct {
    sums_of_four coarse, fine;
} sums;

/* sum + the products of two pairs of samples with four weights of 8 bits, which are in the order 0 2 1 3. */
SCARE_INLINE int32_t add_word(int32_t first, int32_t second, int32_t word, int32_t sum) {
    return scare_add_pairs(second, scare_odd_bytes(word), scare_add_pairs(first, scare_even_bytes(word), sum));
}

/* Two samples times the weights of two projections, whose halves are 256 * second + first. */
SCARE_INLINE void add_both(int32_t samples, int32_t word, int32_t *first, int32_t *second) {
    int32_t low = scare_low(word), high = scare_high(word);
    int32_t low_first = (int8_t)(low & 0xff), high_first = (int8_t)(high & 0xff);
    *first = scare_plus(*first, scare_plus(scare_low(samples) * low_first, scare_high(samples) * high_first));
    int32_t low_second = (low - low_first) >> 8, high_second = (high - high_first) >> 8;
    *second = scare_plus(*second, scare_plus(scare_low(samples) * low_second, scare_high(samples) * high_second));
}

/* Four sums at once, so that each sample is loaded once for all of them; on to the next weights. The assembly sums
 * whole halves in 64 bits, and what of that is `first`. */
SCARE_INLINE void add_coarse(scare_words *sum, const int16_t *x, uint32_t older, const void **weights) {
#if SCARE_ASSEMBLY
#define ADD_WORD(word, samples, first, low, high)   \
    "sxtb16 r7, " word "\n"                         \
    "smlad " first ", " samples ", r7, " first "\n" \
    "smlald " low ", " high ", " samples ", " word "\n"
#define ADD_FOUR_WORDS                                                                                          \
    "ldmia lr!, {r4, r5}\n"                                                                                     \
    "ldmia r12!, {r0, r1}\n" ADD_WORD("r0", "r4", "r2", "r6", "r8")                                             \
        ADD_WORD("r1", "r5", "r2", "r6", "r8") "ldmia r12!, {r0, r1}\n" ADD_WORD("r0", "r4", "r3", "r9", "r10") \
            ADD_WORD("r1", "r5", "r3", "r9", "r10")
    register const int16_t *from __asm__("r0") = x, *end __asm__("r1") = x + older;
    register const void *table __asm__("r2") = *weights;
    register int32_t third __asm__("r3");
    register uint32_t low __asm__("r6"), high __asm__("r8"), other_low __asm__("r9"), other_high __asm__("r10");
    __asm__("push {r7}\n"
            "mov lr, r0\n"
            "mov r11, r1\n"
            "mov r12, r2\n"
            "mov r2, #0\n"
            "mov r3, #0\n"
            "mov r6, #0\n"
            "mov r8, #0\n"
            "mov r9, #0\n"
            "mov r10, #0\n"
            "1: " ADD_FOUR_WORDS ADD_FOUR_WORDS "cmp lr, r11\n"
            "bne 1b\n"
            "mov r0, r2\n"
            "mov r2, r12\n"
            "pop {r7}"
            : "+r"(from), "+r"(end), "+r"(table), "=r"(third), "=r"(low), "=r"(high), "=r"(other_low), "=r"(other_high)
            :
            : "r4", "r5", "r11", "r12", "lr", "cc", "memory");
    int32_t first = (int32_t)(uintptr_t)from;
    uint64_t both = (uint64_t)high << 32 | low, others = (uint64_t)other_high << 32 | other_low;
    sum->a = scare_plus(sum->a, first);
    sum->b = scare_plus(sum->b, (int32_t)(uint32_t)((both - (uint64_t)(int64_t)first) >> 8));
    sum->c = scare_plus(sum->c, third);
    sum->d = scare_plus(sum->d, (int32_t)(uint32_t)((others - (uint64_t)(int64_t)third) >> 8));
    *weights = table;
#else
    SCARE_ROLLED
    for (const int16_t *end = x + older; x != end; x += 4) {
        scare_words next = scare_next_four(weights);
        int32_t samples = scare_pair(x), more = scare_pair(x + 2);
        add_both(samples, next.a, &sum->a, &sum->b);
        add_both(more, next.b, &sum->a, &sum->b);
        add_both(samples, next.c, &sum->c, &sum->d);
        add_both(more, next.d, &sum->c, &sum->d);
    }
#endif
}

/* Four projections of a channel, added to their sums; on to the next weights. */
SCARE_INLINE void project_four(sums *sum, const int16_t *x, uint32_t older, uint32_t newer, const void **small,
                               const void **large) {
    if (older) add_coarse(&sum->coarse.four, x, older, small);
    if (newer) sum->fine.four = scare_add_columns((const void *)(x + older), newer / 2u, large, sum->fine.four);
}

/* Like the above, for one. */
SCARE_INLINE void project_one(sums *sum, const int16_t *x, uint32_t older, uint32_t newer, const void **small,
                              const void **large) {
    const void *weights = *small, *more = *large, *samples = x;
    int32_t coarse = sum->coarse.four.a, fine = sum->fine.four.a;
    x += older;
#if SCARE_ASSEMBLY
    if (older) {
        register const void *from __asm__("r4") = samples, *table __asm__("r5") = weights;
        register const void *end __asm__("r6") = x;
        register int32_t total __asm__("r8") = coarse;
        __asm__("1: ldmia r4!, {r0-r3}\n"
                "ldmia r5!, {r9, r10}\n"
                "sxtb16 r11, r9\n"
                "sxtb16 r9, r9, ror #8\n"
                "smlad r8, r0, r11, r8\n"
                "smlad r8, r1, r9, r8\n"
                "sxtb16 r11, r10\n"
                "sxtb16 r10, r10, ror #8\n"
                "smlad r8, r2, r11, r8\n"
                "smlad r8, r3, r10, r8\n"
                "cmp r4, r6\n"
                "bne 1b"
                : "+r"(from), "+r"(table), "+r"(end), "+r"(total)
                :
                : "r0", "r1", "r2", "r3", "r9", "r10", "r11", "cc", "memory");
        coarse = total;
        weights = table;
    }
#else
    SCARE_ROLLED
    while (samples != x) {
        scare_words next = scare_next_four(&samples);
        coarse = add_word(next.a, next.b, scare_next_word(&weights), coarse);
        coarse = add_word(next.c, next.d, scare_next_word(&weights), coarse);
    }
#endif
    SCARE_ROLLED
    for (const int16_t *end = x + newer; x != end; x += 2)
        fine = scare_add_pairs(scare_pair(x), scare_next_word(&more), fine);
    sum->coarse.four.a = coarse, sum->fine.four.a = fine;
    *small = weights, *large = more;
}

void scare_project_q(int32_t *out, const int16_t *window, const int8_t *older_weights, const int16_t *newer_weights,
                     const int32_t *scales, uint32_t stride, uint32_t channels, uint32_t per_channel, uint32_t older,
                     uint32_t newer, uint32_t rows, uint32_t shift) {
    uint32_t turns = per_channel ? channels : 1u, together = per_channel ? 1u : channels;
    SCARE_ROLLED
    for (uint32_t turn = 0u; turn < turns; turn++, window += stride, out++) {
        const void *small = older_weights, *large = newer_weights;
        const int32_t *scale = scales;
        int32_t *place = out;
        SCARE_ROLLED
        for (uint32_t left = rows; left > 0u;) {
            uint32_t count = left >= 4u ? 4u : left == 3u ? 3u : 1u;
            sums sum = {{{0, 0, 0, 0}}, {{0, 0, 0, 0}}};
            SCARE_ROLLED
            for (uint32_t channel = 0u; channel < together; channel++) {
                const int16_t *x = window + channel * stride;
                if (count == 1u)
                    project_one(&sum, x, older, newer, &small, &large);
                else
                    project_four(&sum, x, older, newer, &small, &large);
            }
            const int32_t *coarse = sum.coarse.at, *fine = sum.fine.at;
            SCARE_ROLLED
            for (uint32_t i = 0u; i < count; i++, scale += 3, place += turns) {
                int64_t whole =
                    (int64_t)((uint64_t)((int64_t)coarse[i] * scale[0]) + (uint64_t)((int64_t)fine[i] * scale[1]));
                *place = scare_plus(scare_rounded(whole, shift), scale[2]);
            }
            left -= count;
        }
    }
}

/* The sum of some pairs of samples, and of their products with shares. */
typedef struct {
    int32_t all, farther, last; /* last: the last pair */
} hat_sums;

/* Four pairs at a time, at least once; on to the next samples and shares. */
SCARE_INLINE hat_sums add_fours(const void **samples, uint32_t fours, const void **shares, hat_sums sum) {
#if SCARE_ASSEMBLY
    register const void *from __asm__("r4") = *samples, *table __asm__("r5") = *shares;
    register uint32_t left __asm__("r6") = fours;
    register int32_t all __asm__("r8") = sum.all, farther __asm__("r9") = sum.farther, last __asm__("r3");
    __asm__("push {r7}\n"
            "mov r7, #0x10001\n"
            "1: ldmia r4!, {r0-r3}\n"
            "ldmia r5!, {r10-r12, lr}\n"
            "smlad r8, r0, r7, r8\n"
            "smlad r9, r0, r10, r9\n"
            "smlad r8, r1, r7, r8\n"
            "smlad r9, r1, r11, r9\n"
            "smlad r8, r2, r7, r8\n"
            "smlad r9, r2, r12, r9\n"
            "smlad r8, r3, r7, r8\n"
            "smlad r9, r3, lr, r9\n"
            "subs r6, r6, #1\n"
            "bne 1b\n"
            "pop {r7}"
            : "+r"(from), "+r"(table), "+r"(left), "+r"(all), "+r"(farther), "=r"(last)
            :
            : "r0", "r1", "r2", "r10", "r11", "r12", "lr", "cc", "memory");
    *samples = from, *shares = table;
    return (hat_sums){all, farther, last};
#else
    SCARE_ROLLED
    for (; fours > 0u; fours--) {
        scare_words next = scare_next_four(samples), share = scare_next_four(shares);
        sum.all = scare_add_pairs(next.b, 0x10001, scare_add_pairs(next.a, 0x10001, sum.all));
        sum.all = scare_add_pairs(next.d, 0x10001, scare_add_pairs(next.c, 0x10001, sum.all));
        sum.farther = scare_add_pairs(next.b, share.b, scare_add_pairs(next.a, share.a, sum.farther));
        sum.farther = scare_add_pairs(next.d, share.d, scare_add_pairs(next.c, share.c, sum.farther));
        sum.last = next.d;
    }
    return sum;
#endif
}

void scare_hat_basis_q(int32_t *out, const int16_t *window, const uint16_t *segments, const int16_t *shares,
                       uint32_t stride, uint32_t channels, uint32_t knots) {
    SCARE_ROLLED
    for (uint32_t channel = 0u; channel < channels; channel++, window += stride) {
        const uint16_t *segment = segments;
        const void *table = shares, *samples = window;
        int32_t *place = out + knots * channels + channel, nearer = 0;
        hat_sums sum = {0, 0, 0};
        SCARE_ROLLED
        for (uint32_t left = knots - 1u; left > 0u; left--, segment += 4) {
            sum.all = 0;
            sum.farther = 0;
            if (segment[1]) sum.farther = scare_add_pairs(sum.last, scare_next_word(&table), 0);
            if (segment[0] >= 4u) sum = add_fours(&samples, segment[0] / 4u, &table, sum);
            SCARE_ROLLED
            for (uint32_t rest = segment[0] % 4u; rest > 0u; rest--) {
                sum.last = scare_next_word(&samples);
                sum.all = scare_add_pairs(sum.last, 0x10001, sum.all);
                sum.farther = scare_add_pairs(sum.last, scare_next_word(&table), sum.farther);
            }
            place -= channels;
            *place = scare_plus(nearer, sum.farther);
            nearer = (int32_t)((uint32_t)scare_shifted(sum.all, segment[2]) -
                               (uint32_t)scare_shifted(sum.farther, segment[3]));
        }
        place[-(int32_t)channels] = nearer;
    }
}

void scare_bins_q(int32_t *out, const int16_t *window, const int16_t *weights, const uint16_t *starts,
                  const int32_t *scales, uint32_t stride, uint32_t rows, uint32_t channels, uint32_t bins,
                  uint32_t shift) {
    SCARE_ROLLED
    for (uint32_t bin = 0u; bin < bins; bin++) {
        uint32_t start = starts[bin], end = bin + 1u < bins ? starts[bin + 1u] : rows;
        SCARE_ROLLED
        for (uint32_t channel = 0u; channel < channels; channel++) {
            const int16_t *x = window + channel * stride;
            int32_t sum = 0;
            SCARE_ROLLED
            for (uint32_t row = start; row < end; row++) sum = scare_plus(sum, x[row] * weights[row]);
            out[bin * channels + channel] = scare_rounded((int64_t)sum * scales[bin], shift);
        }
    }
}

void scare_lens_q(int32_t *out, const int32_t *x, const int16_t *weights, uint32_t rows, uint32_t channels,
                  uint32_t lenses) {
    int32_t half = (int32_t)(rows >> 1); /* what dropping the low bits of the products takes, in the mean */
    const void *block = weights;
    SCARE_ROLLED
    for (uint32_t lens = 0u; lens < lenses; lens += 4u) {
        const void *table = block;
        SCARE_ROLLED
        for (uint32_t channel = 0u; channel < channels; channel++, out++) {
            table = block;
            scare_words sum =
                scare_mix_four(x + channel, channels, rows, &table, (scare_words){half, half, half, half});
            out[0] = sum.a;
            if (lens + 1u < lenses) out[channels] = sum.b;
            if (lens + 2u < lenses) out[2u * channels] = sum.c;
            if (lens + 3u < lenses) out[3u * channels] = sum.d;
        }
        out += 3u * channels;
        block = table;
    }
}
