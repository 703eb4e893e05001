/* Fixed-point kernels: several steps as one. */
#include "fixed_q.h"
#include "product_q.h"
#include "scare_fixed.h"

/* Four outputs of each row for one channel; on to the next rows of the table. */
SCARE_INLINE void four_outputs(int32_t *out, const int32_t *seen, scare_words mixed, const int16_t *local,
                               const void **table, uint32_t rows) {
#if SCARE_ASSEMBLY
    register const int32_t *word __asm__("r0") = seen;
    register const void *next __asm__("r1") = *table;
    register int32_t *place __asm__("r2") = out;
    register int32_t first __asm__("r3") = scare_pair(local), second __asm__("r4") = scare_pair(local + 2);
    register const void *end __asm__("r5") = (const int32_t *)*table + 5u * rows;
    register int32_t a __asm__("r6") = mixed.a, b __asm__("r8") = mixed.b, c __asm__("r9") = mixed.c;
    register int32_t d __asm__("r10") = mixed.d;
    __asm__ volatile("push {r5, r7}\n"
                     "mov r5, r0\n"
                     "mov lr, r1\n"
                     "mov r7, r2\n"
                     "mov r11, r3\n"
                     "mov r12, r4\n"
                     "1: ldmia lr!, {r0-r4}\n"
                     "smlawb r1, r6, r0, r1\n"
                     "smlawb r2, r8, r0, r2\n"
                     "smlawb r3, r9, r0, r3\n"
                     "smlawb r4, r10, r0, r4\n"
                     "ldr r0, [r5], #4\n"
                     "smlawb r1, r0, r11, r1\n"
                     "smlawt r2, r0, r11, r2\n"
                     "smlawb r3, r0, r12, r3\n"
                     "smlawt r4, r0, r12, r4\n"
                     "stmia r7, {r1-r4}\n"
                     "add r7, r7, #32\n"
                     "ldr r0, [sp]\n"
                     "cmp lr, r0\n"
                     "bne 1b\n"
                     "mov r1, lr\n"
                     "pop {r5, r7}"
                     : "+r"(word), "+r"(next), "+r"(place), "+r"(first), "+r"(second), "+r"(end), "+r"(a), "+r"(b),
                       "+r"(c), "+r"(d)
                     :
                     : "r11", "r12", "lr", "cc", "memory");
    *table = next;
#else
    int32_t first = scare_pair(local), second = scare_pair(local + 2);
    SCARE_ROLLED
    for (const int32_t *end = seen + rows; seen != end; seen++, out += 8) {
        SCARE_WALK(out);
        int32_t share;
        scare_words sum = scare_next_five(table, &share);
        sum.a = scare_add_half(mixed.a, share, sum.a);
        sum.b = scare_add_half(mixed.b, share, sum.b);
        sum.c = scare_add_half(mixed.c, share, sum.c);
        sum.d = scare_add_half(mixed.d, share, sum.d);
        scare_add_to_four(&sum, *seen, first, second);
        out[0] = sum.a, out[1] = sum.b, out[2] = sum.c, out[3] = sum.d;
    }
#endif
}

/* Like the above for any number of channels and outputs. */
SCARE_INLINE void four_outputs_of_channels(int32_t *out, const int32_t *seen, scare_words mixed, const int16_t *local,
                                           const void **table, uint32_t rows, uint32_t channels, uint32_t outputs) {
#if SCARE_ASSEMBLY
    register const int32_t *word __asm__("r0") = seen;
    register const void *next __asm__("r1") = *table;
    register int32_t *place __asm__("r2") = out;
    register const int16_t *first __asm__("r3") = local, *last __asm__("r4") = local + 4u * channels;
    register const void *end __asm__("r5") = (const int32_t *)*table + 5u * rows;
    register int32_t a __asm__("r6") = mixed.a, b __asm__("r8") = mixed.b, c __asm__("r9") = mixed.c;
    register int32_t d __asm__("r10") = mixed.d;
    register uint32_t stride __asm__("r11") = outputs * (uint32_t)sizeof *out;
    __asm__ volatile("push {r3-r5, r7, r11}\n"
                     "mov r5, r0\n"
                     "mov lr, r1\n"
                     "mov r7, r2\n"
                     "1: ldmia lr!, {r0-r4}\n"
                     "smlawb r1, r6, r0, r1\n"
                     "smlawb r2, r8, r0, r2\n"
                     "smlawb r3, r9, r0, r3\n"
                     "smlawb r4, r10, r0, r4\n"
                     "ldr r11, [sp]\n"
                     "2: ldr r0, [r5], #4\n"
                     "ldr r12, [r11], #4\n"
                     "smlawb r1, r0, r12, r1\n"
                     "smlawt r2, r0, r12, r2\n"
                     "ldr r12, [r11], #4\n"
                     "smlawb r3, r0, r12, r3\n"
                     "smlawt r4, r0, r12, r4\n"
                     "ldr r12, [sp, #4]\n"
                     "cmp r11, r12\n"
                     "bne 2b\n"
                     "stmia r7, {r1-r4}\n"
                     "ldr r0, [sp, #16]\n"
                     "add r7, r7, r0\n"
                     "ldr r0, [sp, #8]\n"
                     "cmp lr, r0\n"
                     "bne 1b\n"
                     "mov r1, lr\n"
                     "pop {r3-r5, r7, r11}"
                     : "+r"(word), "+r"(next), "+r"(place), "+r"(first), "+r"(last), "+r"(end), "+r"(a), "+r"(b),
                       "+r"(c), "+r"(d), "+r"(stride)
                     :
                     : "r12", "lr", "cc", "memory");
    *table = next;
#else
    SCARE_ROLLED
    for (const int32_t *end = seen + rows * channels; seen != end; seen += channels, out += outputs) {
        SCARE_WALK(out);
        int32_t share;
        scare_words sum = scare_next_five(table, &share);
        sum.a = scare_add_half(mixed.a, share, sum.a);
        sum.b = scare_add_half(mixed.b, share, sum.b);
        sum.c = scare_add_half(mixed.c, share, sum.c);
        sum.d = scare_add_half(mixed.d, share, sum.d);
        SCARE_ROLLED
        for (uint32_t i = 0u; i < channels; i++)
            scare_add_to_four(&sum, seen[i], scare_pair(local + 4u * i), scare_pair(local + 4u * i + 2u));
        out[0] = sum.a, out[1] = sum.b, out[2] = sum.c, out[3] = sum.d;
    }
#endif
}

/* The vector that all rows share, mixed: four numbers from the i-th on. */
SCARE_INLINE scare_words mix_shared(const int32_t *shared, const void **mix, uint32_t width, uint32_t i) {
    if (width == 0u) return (scare_words){shared[i], shared[i + 1u], shared[i + 2u], shared[i + 3u]};
    return scare_mix_four(shared, 1u, width, mix, (scare_words){0, 0, 0, 0});
}

void scare_token_rows_q(int32_t *out, const int32_t *seen, const int32_t *shared, const int16_t *local,
                        const int16_t *mix, const int32_t *rest, uint32_t rows, uint32_t channels, uint32_t width,
                        uint32_t outputs) {
    const void *mixing = mix, *table = rest;
    SCARE_ROLLED
    for (uint32_t i = 0u; i < outputs; i += 4u, local += 4u * channels)
        four_outputs_of_channels(out + i, seen, mix_shared(shared, &mixing, width, i), local, &table, rows, channels,
                                 outputs);
}

void scare_token_rows_1_8_q(int32_t *out, const int32_t *seen, const int32_t *shared, const int16_t *local,
                            const int16_t *mix, const int32_t *rest, uint32_t rows, uint32_t width) {
    const void *mixing = mix, *table = rest;
    SCARE_ROLLED
    for (uint32_t i = 0u; i < 8u; i += 4u, local += 4)
        four_outputs(out + i, seen, mix_shared(shared, &mixing, width, i), local, &table, rows);
}

/* Eight outputs of each row. The assembly keeps all eight sums in registers. */
SCARE_INLINE void eight_outputs(int32_t *out, const int32_t *seen, const int32_t *mixed, const int16_t *local,
                                const void *table, uint32_t rows, uint32_t channels) {
#if SCARE_ASSEMBLY
#define SHARED(first, second) \
    "ldmia r0!, {r1, r2}\nsmlawb " first ", r1, r3, " first "\nsmlawb " second ", r2, r3, " second "\n"
#define OWN(a, b, c, d)             \
    "ldmia r3!, {r1, r2}\n"         \
    "smlawb " a ", r0, r1, " a "\n" \
    "smlawt " b ", r0, r1, " b "\n" \
    "smlawb " c ", r0, r2, " c "\n" \
    "smlawt " d ", r0, r2, " d "\n"
    register const int32_t *word __asm__("r0") = seen;
    register const void *next __asm__("r1") = table;
    register int32_t *place __asm__("r2") = out;
    register const int16_t *first __asm__("r3") = local, *last __asm__("r4") = local + 8u * channels;
    register const void *end __asm__("r5") = (const int32_t *)table + 9u * rows;
    register const int32_t *common __asm__("r6") = mixed;
    __asm__ volatile("push {r2-r7}\n"
                     "mov lr, r0\n"
                     "mov r12, r1\n"
                     "1: ldmia r12!, {r3-r11}\n"
                     "ldr r0, [sp, #16]\n" SHARED("r4", "r5") SHARED("r6", "r7") SHARED("r8", "r9")
                         SHARED("r10", "r11") "ldr r3, [sp, #4]\n"
                                              "2: ldr r0, [lr], #4\n" OWN("r4", "r5", "r6", "r7")
                                                  OWN("r8", "r9", "r10", "r11") "ldr r1, [sp, #8]\n"
                                                                                "cmp r3, r1\n"
                                                                                "bne 2b\n"
                                                                                "ldr r0, [sp]\n"
                                                                                "stmia r0!, {r4-r11}\n"
                                                                                "str r0, [sp]\n"
                                                                                "ldr r1, [sp, #12]\n"
                                                                                "cmp r12, r1\n"
                                                                                "bne 1b\n"
                                                                                "pop {r2-r7}"
                     : "+r"(word), "+r"(next), "+r"(place), "+r"(first), "+r"(last), "+r"(end), "+r"(common)
                     :
                     : "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
#else
    SCARE_ROLLED
    for (const int32_t *end = seen + rows * channels; seen != end; seen += channels) {
        int32_t share = scare_next_word(&table);
        SCARE_ROLLED
        for (uint32_t i = 0u; i < 8u; i += 4u, out += 4) {
            scare_words sum = scare_next_four(&table);
            sum.a = scare_add_half(mixed[i], share, sum.a);
            sum.b = scare_add_half(mixed[i + 1u], share, sum.b);
            sum.c = scare_add_half(mixed[i + 2u], share, sum.c);
            sum.d = scare_add_half(mixed[i + 3u], share, sum.d);
            const int16_t *own = local + i;
            SCARE_ROLLED
            for (uint32_t c = 0u; c < channels; c++, own += 8)
                scare_add_to_four(&sum, seen[c], scare_pair(own), scare_pair(own + 2));
            out[0] = sum.a, out[1] = sum.b, out[2] = sum.c, out[3] = sum.d;
        }
    }
#endif
}

void scare_token_rows_8_q(int32_t *out, const int32_t *seen, const int32_t *shared, const int16_t *local,
                          const int16_t *mix, const int32_t *rest, uint32_t rows, uint32_t channels, uint32_t width) {
    const void *mixing = mix;
    int32_t mixed[8];
    SCARE_ROLLED
    for (uint32_t i = 0u; i < 8u; i += 4u) {
        scare_words four = mix_shared(shared, &mixing, width, i);
        mixed[i] = four.a, mixed[i + 1u] = four.b, mixed[i + 2u] = four.c, mixed[i + 3u] = four.d;
    }
    eight_outputs(out, seen, mixed, local, rest, rows, channels);
}

/* The row x as pairs of 15 bits; how many spare bits were used, at most `most`. */
SCARE_INLINE uint32_t to_pairs(const int32_t *x, uint32_t width, uint32_t most, int32_t *pairs) {
    uint32_t spare = scare_spare_bits(scare_magnitudes(x, width));
    spare = spare < most ? spare : most;
    SCARE_UNROLLED
    for (uint32_t i = 0u; i + 1u < width; i += 2u)
        pairs[i / 2u] = scare_pack(scare_to_top(x[i], spare, 15u), scare_to_top(x[i + 1u], spare, 15u));
    if (width % 2u) pairs[width / 2u] = scare_pack(scare_to_top(x[width - 1u], spare, 15u), 0);
    return spare;
}

/* One number of the hidden layer, from 0 to 32767: its bias, then its weights. */
SCARE_INLINE int32_t activate_one(const int32_t *pairs, uint32_t fours, const void **table, uint32_t shift) {
    int32_t sum;
    scare_words next = scare_next_five(table, &sum);
    sum = scare_add_all(pairs, next, sum >> shift);
    SCARE_UNROLLED
    for (uint32_t i = 1u; i < fours; i++) sum = scare_add_all(pairs + 4u * i, scare_next_four(table), sum);
    return scare_positive_half(sum >> 16);
}

/* The hidden layer as pairs. */
SCARE_INLINE void activate(const int32_t *pairs, uint32_t fours, const void *table, uint32_t couples, uint32_t shift,
                           int32_t *active) {
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
SCARE_INLINE scare_words collect(const int32_t *active, uint32_t couples, const void **outer) {
    scare_words sum = {0, 0, 0, 0};
    const void *table = *outer;
    SCARE_ROLLED
    for (const int32_t *end = active + couples; active != end; active += 4) {
        SCARE_WALK(active);
        SCARE_UNROLLED
        for (uint32_t i = 0u; i < 4u; i += 2u) {
            int32_t first = active[i], second = active[i + 1u];
            scare_add_each(&sum, first, scare_next_four(&table));
            scare_add_each(&sum, second, scare_next_four(&table));
        }
    }
    *outer = table;
    return sum;
}

SCARE_INLINE void feed_forward(int32_t *out, const int32_t *x, const int16_t *inner, const int16_t *outer,
                               const int32_t *outer_bias, uint32_t rows, uint32_t width, uint32_t hidden, uint32_t most,
                               int32_t bits) {
    int32_t pairs[SCARE_WIDEST_Q / 2u], active[SCARE_HIDDEN_Q / 2u];
    uint32_t fours = (width + 7u) / 8u, couples = (hidden + 7u) / 8u * 4u;
    SCARE_UNROLLED
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
            const int32_t fed[4] = {scare_plus(scare_shifted(sum.a, left) >> right, more.a),
                                    scare_plus(scare_shifted(sum.b, left) >> right, more.b),
                                    scare_plus(scare_shifted(sum.c, left) >> right, more.c),
                                    scare_plus(scare_shifted(sum.d, left) >> right, more.d)};
            for (uint32_t j = 0u; j < 4u && i + j < width; j++) *out++ = fed[j];
        }
    }
}

void scare_feed_forward_q(int32_t *out, const int32_t *x, const int16_t *inner, const int16_t *outer,
                          const int32_t *outer_bias, uint32_t rows, uint32_t width, uint32_t hidden, uint32_t most,
                          int32_t bits) {
    feed_forward(out, x, inner, outer, outer_bias, rows, width, hidden, most, bits);
}

void scare_feed_forward_8_q(int32_t *out, const int32_t *x, const int16_t *inner, const int16_t *outer,
                            const int32_t *outer_bias, uint32_t rows, uint32_t hidden, uint32_t most, int32_t bits) {
    feed_forward(out, x, inner, outer, outer_bias, rows, 8u, hidden, most, bits);
}

/* What is above zero. */
SCARE_INLINE int32_t positive(int32_t number) {
    return number & ~(number >> 31);
}

/* One number of the hidden layer, in 31 bits: its bias, then its weights. */
SCARE_INLINE int32_t hidden_one(const int32_t *pairs, uint32_t fours, const void **table, uint32_t shift) {
    int32_t sum;
    scare_words next = scare_next_five(table, &sum);
    sum = scare_add_all(pairs, next, sum >> shift);
    SCARE_UNROLLED
    for (uint32_t i = 1u; i < fours; i++) sum = scare_add_all(pairs + 4u * i, scare_next_four(table), sum);
    return positive(sum);
}

/* The hidden layer of a row, given as pairs, times `outer`; on to the weights of the next row. */
SCARE_INLINE int32_t read_row(const int32_t *pairs, uint32_t fours, const void *inner, const int16_t **outer,
                              uint32_t hidden, uint32_t shift) {
    const int16_t *weights = *outer;
    int32_t sum = 0;
    SCARE_ROLLED
    for (const int16_t *end = weights + hidden; weights != end; weights += 2) {
        SCARE_WALK(weights);
        int32_t pair = scare_pair(weights);
        sum = scare_add_half(hidden_one(pairs, fours, &inner, shift), pair, sum);
        sum = scare_add_upper(hidden_one(pairs, fours, &inner, shift), pair, sum);
    }
    *outer = weights;
    return sum;
}

/* What a row adds, in two parts: its own numbers, and its hidden layer, to be shifted right by its spare bits. */
typedef struct {
    int32_t straight, sum;
    uint32_t spare;
} read_parts;

/* The parts of a row for any width. */
SCARE_INLINE read_parts read_any(const int32_t *x, const void *inner, const int16_t **outer, const int16_t *straight,
                                 uint32_t width, uint32_t hidden, uint32_t most) {
    int32_t pairs[SCARE_WIDEST_Q / 2u];
    uint32_t fours = (width + 7u) / 8u;
    read_parts parts = {0, 0, 0u};
    SCARE_UNROLLED
    for (uint32_t i = width / 2u; i < 4u * fours; i++) pairs[i] = 0;
    parts.spare = to_pairs(x, width, most, pairs);
    parts.sum = read_row(pairs, fours, inner, outer, hidden, most - parts.spare);
    SCARE_UNROLLED
    for (uint32_t i = 0u; i + 1u < width; i += 2u) {
        int32_t pair = scare_pair(straight + i);
        parts.straight = scare_add_upper(x[i + 1u], pair, scare_add_half(x[i], pair, parts.straight));
    }
    if (width % 2u) parts.straight = scare_add_half(x[width - 1u], straight[width - 1u], parts.straight);
    return parts;
}

/* Like the above, for a width of 8 and four hidden numbers or more. */
SCARE_INLINE read_parts read_8(const int32_t *x, const void *inner, const int16_t **outer, const int16_t *straight,
                               uint32_t hidden, uint32_t most) {
#if SCARE_ASSEMBLY
#define HIDDEN(half)            \
    "ldmia r12!, {r0-r4}\n"     \
    "asr r0, r0, r10\n"         \
    "smlad r0, r1, r5, r0\n"    \
    "smlad r0, r2, r6, r0\n"    \
    "smlad r0, r3, r8, r0\n"    \
    "smlad r0, r4, r9, r0\n"    \
    "bic r0, r0, r0, asr #31\n" \
    "smlaw" half " r11, r0, r7, r11\n"
#define TWO_HIDDEN "ldr r7, [lr], #4\n" HIDDEN("b") HIDDEN("t")
#define STRAIGHT(weights, first, second) \
    "smlawb r12, " first ", " weights ", r12\nsmlawt r12, " second ", " weights ", r12\n"
#define LONGER(number) "eor r1, " number ", " number ", asr #31\norr r0, r0, r1\n"
    register const void *row __asm__("r0") = x, *table __asm__("r1") = inner;
    register const int16_t *weights __asm__("r2") = *outer, *own __asm__("r3") = straight;
    register uint32_t limit __asm__("r4") = most;
    /* A shift by a register takes its lowest byte; the highest one counts. */
    register uint32_t left __asm__("r5") = (hidden / 4u - 1u) << 24;
    __asm__("push {r7}\n"
            "push {r1, r2, r4, r5}\n"
            "mov r12, r0\n"
            "ldmia r12, {r4-r11}\n"
            "ldmia r3, {r0-r3}\n"
            "smulwb r12, r4, r0\n"
            "smlawt r12, r5, r0, r12\n" STRAIGHT("r1", "r6", "r7") STRAIGHT("r2", "r8", "r9")
                STRAIGHT("r3", "r10", "r11") "eor r0, r4, r4, asr #31\n" LONGER("r5") LONGER("r6") LONGER("r7")
                    LONGER("r8") LONGER("r9") LONGER("r10") LONGER("r11") "clz r0, r0\n"
                                                                          "sub r0, r0, #1\n"
                                                                          "ldr r1, [sp, #8]\n"
                                                                          "cmp r0, r1\n"
                                                                          "it hi\n"
                                                                          "movhi r0, r1\n"
                                                                          "lsl r4, r4, r0\n"
                                                                          "lsl r5, r5, r0\n"
                                                                          "lsl r6, r6, r0\n"
                                                                          "lsl r7, r7, r0\n"
                                                                          "lsl r8, r8, r0\n"
                                                                          "lsl r9, r9, r0\n"
                                                                          "lsl r10, r10, r0\n"
                                                                          "lsl r11, r11, r0\n"
                                                                          "pkhtb r5, r5, r4, asr #16\n"
                                                                          "pkhtb r6, r7, r6, asr #16\n"
                                                                          "pkhtb r8, r9, r8, asr #16\n"
                                                                          "pkhtb r9, r11, r10, asr #16\n"
                                                                          "ldr r2, [sp, #12]\n"
                                                                          "sub r10, r1, r0\n"
                                                                          "orr r10, r10, r2\n"
                                                                          "str r12, [sp, #8]\n"
                                                                          "str r0, [sp, #12]\n"
                                                                          "pop {r12, lr}\n"
                                                                          "mov r11, #0\n"
                                                                          "1: " TWO_HIDDEN TWO_HIDDEN
                                                                          "subs r10, r10, #0x1000000\n"
                                                                          "bpl 1b\n"
                                                                          "mov r1, r11\n"
                                                                          "mov r2, lr\n"
                                                                          "pop {r4, r5}\n"
                                                                          "pop {r7}"
            : "+r"(row), "+r"(table), "+r"(weights), "+r"(own), "+r"(limit), "+r"(left)
            :
            : "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
    *outer = weights;
    return (read_parts){(int32_t)limit, (int32_t)(uintptr_t)table, left};
#else
    return read_any(x, inner, outer, straight, 8u, hidden, most);
#endif
}

SCARE_INLINE void read_out(int32_t *out, const int32_t *x, const int16_t *inner, const int16_t *outer,
                           const int16_t *straight, uint32_t rows, uint32_t width, uint32_t hidden, uint32_t most,
                           int32_t bits, int32_t bias, uint32_t usual) {
    uint32_t padded = (hidden + 7u) / 8u * 8u;
    int32_t total = bias;
    SCARE_ROLLED
    for (const int32_t *end = x + rows * width; x != end; x += width, straight += (width + 1u) / 2u * 2u) {
        read_parts parts = usual ? read_8(x, inner, &outer, straight, padded, most)
                                 : read_any(x, inner, &outer, straight, width, padded, most);
        int32_t down = (int32_t)parts.spare + bits;
        uint32_t left = (uint32_t)scare_most(-down, 0), right = (uint32_t)scare_least(scare_most(down, 0), 31);
        total = scare_plus(scare_plus(total, parts.straight), scare_shifted(parts.sum, left) >> right);
    }
    *out = total;
}

void scare_read_out_q(int32_t *out, const int32_t *x, const int16_t *inner, const int16_t *outer,
                      const int16_t *straight, uint32_t rows, uint32_t width, uint32_t hidden, uint32_t most,
                      int32_t bits, int32_t bias) {
    read_out(out, x, inner, outer, straight, rows, width, hidden, most, bits, bias, 0u);
}

void scare_read_out_8_q(int32_t *out, const int32_t *x, const int16_t *inner, const int16_t *outer,
                        const int16_t *straight, uint32_t rows, uint32_t hidden, uint32_t most, int32_t bits,
                        int32_t bias) {
    read_out(out, x, inner, outer, straight, rows, 8u, hidden, most, bits, bias, 1u);
}
