/* Fixed-point kernels: several steps as one. */
#include "fixed_q.h"
#include "product_q.h"
#include "scare_fixed.h"

/* Four outputs of each row; on to the next rows of the table. */
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

/* The vector that all rows share, mixed to eight numbers. */
SCARE_INLINE void mix_eight(const int32_t *shared, const int16_t *mix, uint32_t width, int32_t *mixed) {
    const void *mixing = mix;
    SCARE_ROLLED
    for (uint32_t i = 0u; i < 8u; i += 4u) {
        scare_words four = mix_shared(shared, &mixing, width, i);
        mixed[i] = four.a, mixed[i + 1u] = four.b, mixed[i + 2u] = four.c, mixed[i + 3u] = four.d;
    }
}

void scare_token_rows_8_q(int32_t *out, const int32_t *seen, const int32_t *shared, const int16_t *local,
                          const int16_t *mix, const int32_t *rest, uint32_t rows, uint32_t channels, uint32_t width) {
    int32_t mixed[8];
    mix_eight(shared, mix, width, mixed);
    eight_outputs(out, seen, mixed, local, rest, rows, channels);
}

/* The assembly copies what all rows share to the stack. */
void scare_token_rows_1_8_q(int32_t *out, const int32_t *seen, const int32_t *shared, const int16_t *local,
                            const int16_t *mix, const int32_t *rest, uint32_t rows, uint32_t width) {
#if SCARE_ASSEMBLY
#define SHARED_AT(offset, first, second)    \
    "ldrd r0, r1, [sp, #" offset "]\n"      \
    "smlawb " first ", r0, r3, " first "\n" \
    "smlawb " second ", r1, r3, " second "\n"
#define OWN_AT(offset, a, b, c, d)     \
    "ldrd r0, r1, [sp, #" offset "]\n" \
    "smlawb " a ", r3, r0, " a "\n"    \
    "smlawt " b ", r3, r0, " b "\n"    \
    "smlawb " c ", r3, r1, " c "\n"    \
    "smlawt " d ", r3, r1, " d "\n"
    int32_t mixed[8];
    mix_eight(shared, mix, width, mixed);
    register const int32_t *word __asm__("r0") = seen, *table __asm__("r1") = rest;
    register int32_t *place __asm__("r2") = out;
    register const int32_t *common __asm__("r3") = mixed, *end __asm__("r4") = rest + 9u * rows;
    register const int16_t *own __asm__("r5") = local;
    __asm__ volatile("push {r4, r7}\n"
                     "mov lr, r0\n"
                     "mov r12, r1\n"
                     "ldmia r5, {r4-r7}\n"
                     "push {r4-r7}\n"
                     "ldmia r3, {r4-r11}\n"
                     "push {r4-r11}\n"
                     "1: ldmia r12!, {r3-r11}\n" SHARED_AT("0", "r4", "r5") SHARED_AT("8", "r6", "r7")
                         SHARED_AT("16", "r8", "r9")
                             SHARED_AT("24", "r10", "r11") "ldr r3, [lr], #4\n" OWN_AT("32", "r4", "r5", "r6", "r7")
                                 OWN_AT("40", "r8", "r9", "r10", "r11") "stmia r2!, {r4-r11}\n"
                                                                        "ldr r0, [sp, #48]\n"
                                                                        "cmp r12, r0\n"
                                                                        "bne 1b\n"
                                                                        "add sp, sp, #48\n"
                                                                        "pop {r4, r7}"
                     : "+r"(word), "+r"(table), "+r"(place), "+r"(common), "+r"(end), "+r"(own)
                     :
                     : "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
#else
    int32_t mixed[8];
    mix_eight(shared, mix, width, mixed);
    eight_outputs(out, seen, mixed, local, rest, rows, 1u);
#endif
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

/* Four sums of products with the hidden layer; on to the next weights. Of each couple `skipped` words are left out. */
SCARE_INLINE scare_words collect(const int32_t *active, uint32_t couples, const void **outer, uint32_t skipped) {
    scare_words sum = {0, 0, 0, 0};
    const void *table = *outer;
    SCARE_ROLLED
    for (const int32_t *end = active + couples; active != end; active += 4) {
        SCARE_WALK(active);
        SCARE_UNROLLED
        for (uint32_t i = 0u; i < 4u; i += 2u) {
            int32_t first = active[i], second = active[i + 1u];
            scare_add_each(&sum, first, scare_next_four(&table));
            table = (const int32_t *)table + skipped;
            scare_add_each(&sum, second, scare_next_four(&table));
            table = (const int32_t *)table + skipped;
        }
    }
    *outer = table;
    return sum;
}

SCARE_INLINE void feed_forward(int32_t *out, const int32_t *x, const int16_t *inner, const int16_t *outer,
                               const int32_t *outer_bias, uint32_t rows, uint32_t width, uint32_t hidden, uint32_t most,
                               int32_t bits, uint32_t at_once) {
    int32_t pairs[SCARE_WIDEST_Q / 2u], active[SCARE_HIDDEN_Q / 2u];
    uint32_t fours = (width + 7u) / 8u, couples = (hidden + 7u) / 8u * 4u;
    SCARE_UNROLLED
    for (uint32_t i = width / 2u; i < 4u * fours; i++) pairs[i] = 0;
    SCARE_ROLLED
    for (const int32_t *end = x + rows * width; x != end; x += width) {
        uint32_t spare = to_pairs(x, width, most, pairs);
        activate(pairs, fours, inner, couples, most - spare, active);
        int32_t down = scare_least((int32_t)spare + bits, 31);
        const void *table = outer, *bias = outer_bias;
        uint32_t skipped = at_once - 4u;
        SCARE_ROLLED
        for (uint32_t i = 0u; i < width; i += 4u) {
            if (skipped) table = outer + 2u * i;
            scare_words sum = collect(active, couples, &table, skipped), more = scare_next_four(&bias);
            const int32_t fed[4] = {scare_plus(sum.a >> down, more.a), scare_plus(sum.b >> down, more.b),
                                    scare_plus(sum.c >> down, more.c), scare_plus(sum.d >> down, more.d)};
            for (uint32_t j = 0u; j < 4u && i + j < width; j++) *out++ = fed[j];
        }
    }
}

void scare_feed_forward_q(int32_t *out, const int32_t *x, const int16_t *inner, const int16_t *outer,
                          const int32_t *outer_bias, uint32_t rows, uint32_t width, uint32_t hidden, uint32_t most,
                          int32_t bits) {
    feed_forward(out, x, inner, outer, outer_bias, rows, width, hidden, most, bits, 4u);
}

#if SCARE_ASSEMBLY
#define HIDDEN(into)         \
    "ldmia r12!, {r0-r4}\n"  \
    "asr r0, r0, r10\n"      \
    "smlad r0, r1, r5, r0\n" \
    "smlad r0, r2, r6, r0\n" \
    "smlad r0, r3, r8, r0\n" \
    "smlad " into ", r4, r9, r0\n"
#define LONGER(number) "eor r2, " number ", " number ", asr #31\norr r1, r1, r2\n"
#define TO_PAIRS                                                                                               \
    "eor r1, r4, r4, asr #31\n" LONGER("r5") LONGER("r6") LONGER("r7") LONGER("r8") LONGER("r9") LONGER("r10") \
        LONGER("r11") "clz r1, r1\n"                                                                           \
                      "sub r1, r1, #1\n"                                                                       \
                      "ldrd r2, r3, [r0, #16]\n"                                                               \
                      "cmp r1, r2\n"                                                                           \
                      "it hi\n"                                                                                \
                      "movhi r1, r2\n"                                                                         \
                      "str r1, [r0, #24]\n"                                                                    \
                      "lsl r4, r4, r1\n"                                                                       \
                      "lsl r5, r5, r1\n"                                                                       \
                      "lsl r6, r6, r1\n"                                                                       \
                      "lsl r7, r7, r1\n"                                                                       \
                      "lsl r8, r8, r1\n"                                                                       \
                      "lsl r9, r9, r1\n"                                                                       \
                      "lsl r10, r10, r1\n"                                                                     \
                      "lsl r11, r11, r1\n"                                                                     \
                      "pkhtb r5, r5, r4, asr #16\n"                                                            \
                      "pkhtb r6, r7, r6, asr #16\n"                                                            \
                      "pkhtb r8, r9, r8, asr #16\n"                                                            \
                      "pkhtb r9, r11, r10, asr #16\n"                                                          \
                      "sub r10, r2, r1\n"                                                                      \
                      "orr r10, r10, r3\n"
#define STORED_PAIR HIDDEN("r7") HIDDEN("r0") "pkhtb r0, r0, r7, asr #16\nusat16 r0, #15, r0\nstr r0, [lr], #4\n"
#define COUPLE                  \
    "ldr r0, [r12], #4\n"       \
    "ldmia lr!, {r1, r2, r3}\n" \
    "smlad r4, r0, r1, r4\n"    \
    "smlad r5, r0, r2, r5\n"    \
    "smlad r6, r0, r3, r6\n"    \
    "ldmia lr!, {r1, r2, r3}\n" \
    "smlad r7, r0, r1, r7\n"    \
    "smlad r8, r0, r2, r8\n"    \
    "smlad r9, r0, r3, r9\n"    \
    "ldmia lr!, {r1, r2}\n"     \
    "smlad r10, r0, r1, r10\n"  \
    "smlad r11, r0, r2, r11\n"
#define BACK(sum, bias) "asr " sum ", " sum ", lr\nadd " sum ", " sum ", " bias "\n"
#endif

/* The assembly keeps the hidden layer of a row on the stack, then all eight sums in registers. */
void scare_feed_forward_8_q(int32_t *out, const int32_t *x, const int16_t *inner, const int16_t *outer,
                            const int32_t *outer_bias, uint32_t rows, uint32_t hidden, uint32_t most, int32_t bits) {
#if SCARE_ASSEMBLY
    int32_t active[SCARE_HIDDEN_Q / 2u];
    struct {
        const int32_t *x, *end;
        const int16_t *inner;
        int32_t *active;
        uint32_t most, left, spare;
        int32_t bits, *active_end;
        const int16_t *outer;
        const int32_t *bias;
        int32_t *out;
    } all = {x, x + 8u * rows, inner, active, most, 0u, 0u, bits, 0, outer, outer_bias, out};
    uint32_t eights = (hidden + 7u) / 8u;
    all.left = (eights - 1u) << 24; /* a shift by a register takes its lowest byte; the highest one counts */
    all.active_end = active + 4u * eights;
    register void *part __asm__("r0") = &all;
    __asm__ volatile("push {r0, r7}\n"
                     "1: ldr r12, [r0]\n"
                     "ldmia r12!, {r4-r11}\n"
                     "str r12, [r0]\n" TO_PAIRS "ldrd r12, lr, [r0, #8]\n"
                     "2: " STORED_PAIR STORED_PAIR STORED_PAIR STORED_PAIR "subs r10, r10, #0x1000000\n"
                     "bpl 2b\n"
                     "ldr r0, [sp]\n"
                     "ldr r12, [r0, #12]\n"
                     "ldr lr, [r0, #36]\n"
                     "mov r4, #0\n"
                     "mov r5, #0\n"
                     "mov r6, #0\n"
                     "mov r7, #0\n"
                     "mov r8, #0\n"
                     "mov r9, #0\n"
                     "mov r10, #0\n"
                     "mov r11, #0\n"
                     "3: " COUPLE COUPLE COUPLE COUPLE "ldr r0, [sp]\n"
                     "ldr r1, [r0, #32]\n"
                     "cmp r12, r1\n"
                     "bne 3b\n"
                     "ldrd r1, r2, [r0, #24]\n"
                     "add lr, r1, r2\n"
                     "ldr r12, [r0, #40]\n"
                     "ldmia r12!, {r0-r3}\n" BACK("r4", "r0") BACK("r5", "r1") BACK("r6", "r2")
                         BACK("r7", "r3") "ldmia r12, {r0-r3}\n" BACK("r8", "r0") BACK("r9", "r1") BACK("r10", "r2")
                             BACK("r11", "r3") "ldr r0, [sp]\n"
                                               "ldr r12, [r0, #44]\n"
                                               "stmia r12!, {r4-r11}\n"
                                               "str r12, [r0, #44]\n"
                                               "ldrd r1, r2, [r0]\n"
                                               "cmp r1, r2\n"
                                               "bne 1b\n"
                                               "pop {r0, r7}"
                     : "+r"(part)
                     :
                     : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
#else
    feed_forward(out, x, inner, outer, outer_bias, rows, 8u, hidden, most, bits, 8u);
#endif
}

/* The hidden layer of a row, given as pairs, times `outer`; on to the weights of the next row. */
SCARE_INLINE int32_t read_row(const int32_t *pairs, uint32_t fours, const void *inner, const int16_t **outer,
                              uint32_t hidden, uint32_t shift) {
    const int16_t *weights = *outer;
    int32_t sum = 0;
    SCARE_ROLLED
    for (const int16_t *end = weights + hidden; weights != end; weights += 2) {
        SCARE_WALK(weights);
        int32_t first = activate_one(pairs, fours, &inner, shift);
        int32_t both = scare_pack(first, activate_one(pairs, fours, &inner, shift));
        sum = scare_add_pairs(both, scare_pair(weights), sum);
    }
    *outer = weights;
    return sum;
}

/* The numbers of a row times their own weights. */
SCARE_INLINE int32_t read_straight(const int32_t *x, const int16_t *straight, uint32_t width, int32_t sum) {
    SCARE_UNROLLED
    for (uint32_t i = 0u; i + 1u < width; i += 2u) {
        int32_t pair = scare_pair(straight + i);
        sum = scare_add_upper(x[i + 1u], pair, scare_add_half(x[i], pair, sum));
    }
    return width % 2u ? scare_add_half(x[width - 1u], straight[width - 1u], sum) : sum;
}

SCARE_INLINE void read_out(int32_t *out, const int32_t *x, const int16_t *inner, const int16_t *outer,
                           const int16_t *straight, uint32_t rows, uint32_t width, uint32_t hidden, uint32_t most,
                           int32_t bits, int32_t bias) {
    int32_t pairs[SCARE_WIDEST_Q / 2u], total = bias;
    uint32_t fours = (width + 7u) / 8u, padded = (hidden + 7u) / 8u * 8u;
    SCARE_UNROLLED
    for (uint32_t i = width / 2u; i < 4u * fours; i++) pairs[i] = 0;
    SCARE_ROLLED
    for (const int32_t *end = x + rows * width; x != end; x += width, straight += (width + 1u) / 2u * 2u) {
        uint32_t spare = to_pairs(x, width, most, pairs);
        int32_t sum = read_row(pairs, fours, inner, &outer, padded, most - spare);
        int32_t down = (int32_t)spare + bits;
        uint32_t left = (uint32_t)scare_most(-down, 0), right = (uint32_t)scare_least(scare_most(down, 0), 31);
        total = scare_plus(read_straight(x, straight, width, total), scare_shifted(sum, left) >> right);
    }
    *out = total;
}

void scare_read_out_q(int32_t *out, const int32_t *x, const int16_t *inner, const int16_t *outer,
                      const int16_t *straight, uint32_t rows, uint32_t width, uint32_t hidden, uint32_t most,
                      int32_t bits, int32_t bias) {
    read_out(out, x, inner, outer, straight, rows, width, hidden, most, bits, bias);
}

#if SCARE_ASSEMBLY
#define TWO_HIDDEN                \
    HIDDEN("r7")                  \
    HIDDEN("r0")                  \
    "pkhtb r0, r0, r7, asr #16\n" \
    "ldr r7, [lr], #4\n"          \
    "usat16 r0, #15, r0\n"        \
    "smlad r11, r0, r7, r11\n"
#define STRAIGHT(a, b, c, d)     \
    "ldmia lr!, {r1, r2}\n"      \
    "smlawb r3, " a ", r1, r3\n" \
    "smlawt r3, " b ", r1, r3\n" \
    "smlawb r3, " c ", r2, r3\n" \
    "smlawt r3, " d ", r2, r3\n"
#endif

void scare_read_out_8_q(int32_t *out, const int32_t *x, const int16_t *inner, const int16_t *outer,
                        const int16_t *straight, uint32_t rows, uint32_t hidden, uint32_t most, int32_t bits,
                        int32_t bias) {
#if SCARE_ASSEMBLY
    struct {
        const int32_t *x;
        const int16_t *straight, *inner, *outer;
        uint32_t most, left, spare;
        int32_t bits, total;
        const int32_t *end;
    } all = {x, straight, inner, outer, most, 0u, 0u, bits, bias, x + 8u * rows};
    /* A shift by a register takes its lowest byte; the highest one counts. */
    all.left = ((hidden + 7u) / 8u - 1u) << 24;
    register void *part __asm__("r0") = &all;
    __asm__ volatile("push {r0, r7}\n"
                     "1: ldrd r12, lr, [r0]\n"
                     "ldr r3, [r0, #32]\n"
                     "ldmia r12!, {r4-r11}\n" STRAIGHT("r4", "r5", "r6", "r7")
                         STRAIGHT("r8", "r9", "r10", "r11") "strd r12, lr, [r0]\n"
                                                            "str r3, [r0, #32]\n" TO_PAIRS "mov r11, #0\n"
                                                            "ldrd r12, lr, [r0, #8]\n"
                                                            "2: " TWO_HIDDEN TWO_HIDDEN TWO_HIDDEN TWO_HIDDEN
                                                            "subs r10, r10, #0x1000000\n"
                                                            "bpl 2b\n"
                                                            "ldr r0, [sp]\n"
                                                            "str lr, [r0, #12]\n"
                                                            "ldrd r1, r2, [r0, #24]\n"
                                                            "adds r1, r1, r2\n"
                                                            "itee pl\n"
                                                            "asrpl r11, r11, r1\n"
                                                            "rsbmi r1, r1, #0\n"
                                                            "lslmi r11, r11, r1\n"
                                                            "ldrd r1, r2, [r0, #32]\n"
                                                            "add r1, r1, r11\n"
                                                            "str r1, [r0, #32]\n"
                                                            "ldr r1, [r0]\n"
                                                            "cmp r1, r2\n"
                                                            "bne 1b\n"
                                                            "pop {r0, r7}"
                     : "+r"(part)
                     :
                     : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
    *out = all.total;
#else
    read_out(out, x, inner, outer, straight, rows, 8u, hidden, most, bits, bias);
#endif
}
