/* Fixed-point kernels: hash codes, attention on bits, attention with softmax. */
#include "fixed_q.h"
#include "product_q.h"
#include "scare_fixed.h"

/* Cosines between a row, given as pairs, and the supports, in Q30. */
SCARE_INLINE void find_cosines(const int32_t *pairs, uint32_t fours, const void *table, uint32_t supports,
                               int32_t *cosines) {
    SCARE_ROLLED
    for (const int32_t *end = cosines + supports; cosines != end; cosines += 2) {
        SCARE_WALK(cosines);
        int32_t first = 0, second = 0;
        SCARE_UNROLLED
        for (uint32_t i = 0u; i < fours; i++) first = scare_add_all(pairs + 4u * i, scare_next_four(&table), first);
        SCARE_UNROLLED
        for (uint32_t i = 0u; i < fours; i++) second = scare_add_all(pairs + 4u * i, scare_next_four(&table), second);
        cosines[0] = first;
        cosines[1] = second;
    }
}

/* The RBF kernel of one support, a polynomial of the cosine without constant term by Horner's scheme, in the upper half
 * of a word. */
SCARE_INLINE int32_t rbf_kernel(int32_t cosine, const int32_t *coefficients, uint32_t degree) {
    int32_t sum = coefficients[0];
    SCARE_UNROLLED
    for (uint32_t i = 1u; i < degree; i++) sum = scare_add_upper(sum, cosine, coefficients[i]);
    return scare_add_upper(sum, cosine, 0);
}

/* The RBF kernels of all supports, as pairs in the place of the first cosines. */
SCARE_INLINE void rbf_kernels(int32_t *cosines, uint32_t supports, const int32_t *coefficients, uint32_t degree) {
    const void *from = cosines;
    int32_t powers[SCARE_POWERS_Q] = {0}; /* zeros only for GCC, which does not see that as many are read as written */
    SCARE_UNROLLED
    for (uint32_t i = 0u; i < degree; i++) powers[i] = coefficients[i];
    SCARE_ROLLED
    for (const int32_t *end = cosines + supports / 2u; cosines != end; cosines += 2) {
        SCARE_WALK(cosines);
        scare_words next = scare_next_four(&from);
        int32_t first = scare_pack_upper(rbf_kernel(next.a, powers, degree), rbf_kernel(next.b, powers, degree));
        cosines[1] = scare_pack_upper(rbf_kernel(next.c, powers, degree), rbf_kernel(next.d, powers, degree));
        cosines[0] = first;
    }
}

/* One bit for each sign, the highest first; the table has for each a bias, then its weights. */
SCARE_INLINE uint32_t project(const int32_t *kernel, uint32_t fours, const void *table, uint32_t bits) {
    uint32_t negative = 0u;
    SCARE_ROLLED
    for (uint32_t left = bits; left > 0u; left--) {
        int32_t sum = scare_next_word(&table);
        SCARE_UNROLLED
        for (uint32_t i = 0u; i < fours; i++) sum = scare_add_all(kernel + 4u * i, scare_next_four(&table), sum);
        negative = negative << 1 | (uint32_t)sum >> 31;
    }
    return negative ^ (0xffffffffu >> (32u - bits));
}

#if SCARE_ASSEMBLY
#define KERNEL(sum)                      \
    "smlawt " sum ", r8, r0, r9\n"       \
    "smlawt " sum ", " sum ", r0, r10\n" \
    "smlawt " sum ", " sum ", r0, r11\n" \
    "smulwt " sum ", " sum ", r0\n"
#define COSINE               \
    "ldmdb lr!, {r0-r3}\n"   \
    "smuad r0, r4, r0\n"     \
    "smlad r0, r5, r1, r0\n" \
    "smlad r0, r6, r2, r0\n" \
    "smlad r0, r7, r3, r0\n"
#define TWO_KERNELS COSINE KERNEL("r12") COSINE KERNEL("r1") "pkhtb r12, r12, r1, asr #16\npush {r12}\n"
#define NEXT_BIT              \
    "ldmia r12!, {r0-r3}\n"   \
    "smlad r0, r4, r1, r0\n"  \
    "smlad r0, r5, r2, r0\n"  \
    "smlad r0, r6, r3, r0\n"  \
    "ldmia r12!, {r1-r3}\n"   \
    "smlad r0, r7, r1, r0\n"  \
    "smlad r0, r8, r2, r0\n"  \
    "smlad r0, r9, r3, r0\n"  \
    "ldmia r12!, {r1-r2}\n"   \
    "smlad r0, r10, r1, r0\n" \
    "smlad r0, r11, r2, r0\n" \
    "lsls r0, r0, #1\n"       \
    "adcs lr, lr, lr\n"
#endif

void scare_hash_codes_q(uint32_t *codes, const int32_t *x, const int16_t *support, const int32_t *coefficients,
                        const int16_t *projection, uint32_t rows, uint32_t width, uint32_t supports, uint32_t bits,
                        uint32_t degree) {
    uint32_t fours = (width + 7u) / 8u, eights = (supports + 7u) / 8u;
    int32_t pairs[SCARE_WIDEST_Q / 2u], cosines[SCARE_SUPPORTS_Q];
    SCARE_ROLLED
    for (uint32_t i = width / 2u; i < 4u * fours; i++) pairs[i] = 0;
    SCARE_ROLLED
    for (const int32_t *end = x + rows * width; x != end; codes++, x += width) {
        scare_to_unit_pairs(x, width, 0u, pairs);
        find_cosines(pairs, fours, support, 8u * eights, cosines);
        rbf_kernels(cosines, 8u * eights, coefficients, degree);
        *codes = project(cosines, eights, projection, bits);
    }
}

/* The assembly makes of a row a unit vector in pairs, from it kernels, which go over the stack to registers, and from
 * them bits, until a mark falls out of the code. */
void scare_hash_codes_8_16_q(uint32_t *codes, const int32_t *x, const int16_t *support, const int32_t *coefficients,
                             const int16_t *projection, uint32_t rows, uint32_t bits) {
#if SCARE_ASSEMBLY
    struct {
        const int32_t *root, *coefficients;
        const int16_t *supports_end, *projection;
        uint32_t mark, flip;
        const int32_t *x;
        uint32_t *code, *codes_end;
    } all = {scare_root_powers,
             coefficients,
             support + 128,
             projection,
             1u << (32u - bits),
             0xffffffffu >> (32u - bits),
             x,
             codes,
             codes + rows};
    register void *part __asm__("r0") = &all;
    __asm__ volatile("push {r0, r7}\n"
                     "1: ldr r1, [r0, #24]\n"
                     "ldmia r1!, {r4-r11}\n"
                     "str r1, [r0, #24]\n"
                     "smull r1, r2, r4, r4\n" SCARE_ADD_SQUARES("r5") SCARE_ADD_SQUARES("r6") SCARE_ADD_SQUARES("r7")
                         SCARE_ADD_SQUARES("r8") SCARE_ADD_SQUARES("r9") SCARE_ADD_SQUARES("r10")
                             SCARE_ADD_SQUARES("r11") "ldr r12, [r0]\n" SCARE_ROW_TO_TOP SCARE_TIMES_FACTOR("r4")
                                 SCARE_TIMES_FACTOR("r5") SCARE_TIMES_FACTOR("r6") SCARE_TIMES_FACTOR(
                                     "r7") "ldrd r1, lr, [r0, #4]\n"
                                           "ldmia r1, {r8-r11}\n" TWO_KERNELS TWO_KERNELS TWO_KERNELS TWO_KERNELS
                                               TWO_KERNELS TWO_KERNELS TWO_KERNELS TWO_KERNELS "pop {r4-r11}\n"
                                           "ldr r0, [sp]\n"
                                           "ldrd r12, lr, [r0, #12]\n"
                                           "2: " NEXT_BIT NEXT_BIT NEXT_BIT NEXT_BIT "bcc 2b\n"
                                           "ldr r0, [sp]\n"
                                           "ldr r1, [r0, #20]\n"
                                           "eor lr, lr, r1\n"
                                           "ldrd r2, r3, [r0, #28]\n"
                                           "str lr, [r2], #4\n"
                                           "str r2, [r0, #28]\n"
                                           "cmp r2, r3\n"
                                           "bne 1b\n"
                                           "pop {r0, r7}"
                     : "+r"(part)
                     :
                     : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
#else
    int32_t pairs[4], cosines[16];
    SCARE_ROLLED
    for (const int32_t *end = x + rows * 8u; x != end; codes++, x += 8) {
        SCARE_WALK(codes);
        scare_to_unit_pairs(x, 8u, 0u, pairs);
        find_cosines(pairs, 1u, support, 16u, cosines);
        rbf_kernels(cosines, 16u, coefficients, 4u);
        *codes = project(cosines, 2u, projection, bits);
    }
#endif
}

/* Twice the number of bits that are set in each half of a word. */
SCARE_INLINE uint32_t count_twice(uint32_t word) {
    word -= (word >> 1) & 0x55555555u;
    word = (word & 0x33333333u) + ((word >> 2) & 0x33333333u);
    word = (word + (word >> 4)) & 0x0f0f0f0fu;
    return ((word * 0x202u) >> 8) & 0x00ff00ffu;
}

/* sum / total, with inverse = 2^31 / total, back in the values' own unit; the sum has `headroom` bits to spare. Sums
 * begin with total / 2: the values lost half a step each, in the mean, when their low bits were dropped. */
SCARE_INLINE int32_t average(int32_t sum, int32_t inverse, uint32_t headroom, uint32_t value_bits, uint32_t spare) {
    return scare_shifted(scare_multiply_wide(scare_shifted(sum, headroom), inverse), 32u - value_bits - headroom) >>
           spare;
}

/* The values of two rows at a time as pairs of 15 bits, in blocks of four columns: [width / 4][rows / 2][4]. */
SCARE_INLINE void pair_rows(const int32_t *values, uint32_t rows, uint32_t width, uint32_t spare, int32_t *pairs) {
    SCARE_ROLLED
    for (uint32_t column = 0u; column < width; column += 4u) {
        const int32_t *value = values + column;
        SCARE_ROLLED
        for (uint32_t couple = rows / 2u; couple > 0u; couple--, value += 2u * width, pairs += 4) {
            SCARE_WALK(value);
            const int32_t *second = value + width;
            int32_t both[4];
            SCARE_UNROLLED
            for (uint32_t i = 0u; i < 4u; i++)
                both[i] = scare_pack_upper(scare_shifted(value[i], spare), scare_shifted(second[i], spare));
            SCARE_UNROLLED
            for (uint32_t i = 0u; i < 4u; i++) pairs[i] = both[i];
        }
        if (rows % 2u) {
            SCARE_UNROLLED
            for (uint32_t i = 0u; i < 4u; i++) *pairs++ = scare_pack_upper(scare_shifted(value[i], spare), 0);
        }
    }
}

/* Two keys at a time in a word; a last one with zeros. */
SCARE_INLINE void pair_keys(const uint32_t *keys, uint32_t rows, uint32_t *pairs) {
    SCARE_ROLLED
    for (uint32_t i = 0u; i + 1u < rows; i += 2u) *pairs++ = keys[i] | keys[i + 1u] << 16;
    if (rows % 2u) *pairs = keys[rows - 1u];
}

/* The weights of two keys at a time as pairs, `most` less two for each bit in which they differ; the sum of all. */
SCARE_INLINE int32_t weigh(uint32_t query, const uint32_t *keys, uint32_t rows, uint32_t most, int32_t *weights) {
    uint32_t twice = query | query << 16, equal = most | most << 16;
    int32_t total = 0, pair = 0;
    SCARE_ROLLED
    for (const uint32_t *end = keys + (rows + 1u) / 2u; keys != end; weights++) {
        SCARE_WALK(weights);
        pair = (int32_t)(equal - count_twice(twice ^ *keys++));
        *weights = pair;
        total = scare_add_pairs(pair, 0x00010001, total);
    }
    return rows % 2u ? total - scare_high(pair) : total;
}

SCARE_INLINE void bitwise_attention(int32_t *out, const uint32_t *queries, const uint32_t *keys, const int32_t *values,
                                    uint32_t rows, uint32_t width, uint32_t most, uint32_t headroom) {
    uint32_t spare = scare_spare_bits(scare_magnitudes(values, rows * width)), couples = (rows + 1u) / 2u;
    int32_t *pairs = out + rows * width, *weights = pairs + couples * width;
    uint32_t *paired = (uint32_t *)(weights + couples);
    pair_rows(values, rows, width, spare, pairs);
    pair_keys(keys, rows, paired);
    SCARE_ROLLED
    for (const uint32_t *end = queries + rows; queries != end; queries++) {
        int32_t total = weigh(*queries, paired, rows, most, weights), half = total >> 1;
        int32_t inverse = total > 0 ? 0x7fffffff / total : 0; /* more than 0 for codes of a hash */
        const void *table = pairs;
        SCARE_ROLLED
        for (uint32_t column = 0u; column < width; column += 4u, out += 4) {
            scare_words sum = scare_add_columns(weights, couples, &table, (scare_words){half, half, half, half});
            out[0] = average(sum.a, inverse, headroom, 15u, spare);
            out[1] = average(sum.b, inverse, headroom, 15u, spare);
            out[2] = average(sum.c, inverse, headroom, 15u, spare);
            out[3] = average(sum.d, inverse, headroom, 15u, spare);
        }
    }
}

void scare_bitwise_attention_q(int32_t *out, const uint32_t *queries, const uint32_t *keys, const int32_t *values,
                               uint32_t rows, uint32_t width, uint32_t most, uint32_t headroom) {
    bitwise_attention(out, queries, keys, values, rows, width, most, headroom);
}

#if SCARE_ASSEMBLY
#define TO_MAGNITUDES(number) "eor r3, " number ", " number ", asr #31\norr r2, r2, r3\n"
#define UP(number) "lsl " number ", " number ", r3\n"
#define PAIR_WITH_NEXT(first, second)                                                        \
    "ldmia r0!, {r12, lr}\n" UP("r12") UP("lr") "pkhtb " first ", r12, " first ", asr #16\n" \
                                                "pkhtb " second ", lr, " second ", asr #16\n"
#define TWO_COLUMNS(first, second)         \
    "ldmia lr!, {r1, r2}\n"                \
    "smlad " first ", r0, r1, " first "\n" \
    "smlad " second ", r0, r2, " second "\n"
#define AVERAGE(sum) "smmul " sum ", " sum ", r1\nlsl " sum ", " sum ", r2\nasr " sum ", " sum ", r3\n"

/* The magnitudes of rows of eight numbers, or-ed together. */
SCARE_INLINE uint32_t magnitudes_of_eights(const int32_t *values, uint32_t rows) {
    register const int32_t *from __asm__("r0") = values, *end __asm__("r1") = values + 8u * rows;
    register uint32_t bits __asm__("r2") = 0u;
    __asm__("push {r7}\n"
            "1: ldmia r0!, {r4-r11}\n" TO_MAGNITUDES("r4") TO_MAGNITUDES("r5") TO_MAGNITUDES("r6") TO_MAGNITUDES("r7")
                TO_MAGNITUDES("r8") TO_MAGNITUDES("r9") TO_MAGNITUDES("r10") TO_MAGNITUDES("r11") "cmp r0, r1\n"
                                                                                                  "bne 1b\n"
                                                                                                  "pop {r7}"
            : "+r"(from), "+r"(end), "+r"(bits)
            :
            : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "cc", "memory");
    return bits;
}

/* The values of two rows of eight at a time as pairs of 15 bits, at least once; returns where the next pair goes. */
SCARE_INLINE int32_t *pair_eights(const int32_t *values, uint32_t couples, uint32_t spare, int32_t *pairs) {
    register const int32_t *from __asm__("r0") = values, *end __asm__("r2") = values + 16u * couples;
    register int32_t *place __asm__("r1") = pairs;
    register uint32_t up __asm__("r3") = spare;
    __asm__ volatile("push {r7}\n"
                     "1: ldmia r0!, {r4-r11}\n" UP("r4") UP("r5") UP("r6") UP("r7") UP("r8") UP("r9") UP("r10")
                         UP("r11") PAIR_WITH_NEXT("r4", "r5") PAIR_WITH_NEXT("r6", "r7") PAIR_WITH_NEXT("r8", "r9")
                             PAIR_WITH_NEXT("r10", "r11") "stmia r1!, {r4-r11}\n"
                                                          "cmp r0, r2\n"
                                                          "bne 1b\n"
                                                          "pop {r7}"
                     : "+r"(from), "+r"(place), "+r"(end), "+r"(up)
                     :
                     : "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
    return place;
}
#endif

/* The assembly makes weights as `weigh` does, but with the headroom in them already, then adds all columns at once. */
void scare_bitwise_attention_8_q(int32_t *out, const uint32_t *queries, const uint32_t *keys, const int32_t *values,
                                 uint32_t rows, uint32_t most, uint32_t headroom) {
#if SCARE_ASSEMBLY
    uint32_t spare = scare_spare_bits(magnitudes_of_eights(values, rows)), couples = (rows + 1u) / 2u;
    uint32_t equal = most << headroom;
    int32_t *pairs = out + 8u * rows, *weights = pairs + 8u * couples;
    uint32_t *paired = (uint32_t *)(weights + couples);
    if (rows > 1u) pairs = pair_eights(values, rows / 2u, spare, pairs);
    if (rows % 2u) pair_rows(values + 8u * (rows - 1u), 1u, 8u, spare, pairs);
    pair_keys(keys, rows, paired);
    struct {
        const uint32_t *query, *queries_end, *keys, *keys_end;
        uint32_t equal, step;
        int32_t *weights;
        const int32_t *pairs;
        uint32_t headroom, second_counts;
        int32_t *out;
        uint32_t inverse, up, spare;
    } all = {queries,
             queries + rows,
             paired,
             paired + couples,
             equal | equal << 16,
             2u << headroom,
             weights,
             out + 8u * rows,
             headroom,
             rows % 2u ? 0xffffffffu : 0u,
             out,
             0u,
             17u - headroom,
             spare};
    register void *part __asm__("r0") = &all;
    __asm__ volatile("push {r0, r7}\n"
                     "1: ldr r1, [r0]\n"
                     "ldr r2, [r1], #4\n"
                     "str r1, [r0]\n"
                     "orr r2, r2, r2, lsl #16\n"
                     "add r12, r0, #8\n"
                     "ldmia r12, {r3-r7}\n"
                     "mov r8, #0\n"
                     "mov r9, #0x10001\n"
                     "2: ldr r10, [r3], #4\n"
                     "eor r10, r10, r2\n"
                     "and r11, r10, #0xaaaaaaaa\n"
                     "sub r10, r10, r11, lsr #1\n"
                     "and r11, r10, #0xcccccccc\n"
                     "bic r10, r10, #0xcccccccc\n"
                     "add r10, r10, r11, lsr #2\n"
                     "add r10, r10, r10, lsr #4\n"
                     "bic r10, r10, #0xf0f0f0f0\n"
                     "uxtb16 r11, r10, ror #8\n"
                     "uxtab16 r10, r11, r10\n"
                     "mls r10, r10, r6, r5\n"
                     "str r10, [r7], #4\n"
                     "smlad r8, r10, r9, r8\n"
                     "cmp r3, r4\n"
                     "bne 2b\n"
                     "mov r3, r7\n"
                     "ldrd r1, r2, [r0, #32]\n"
                     "and r10, r2, r10, lsr #16\n"
                     "sub r8, r8, r10\n"
                     "lsr r8, r8, r1\n"
                     "cmp r8, #1\n"
                     "it lt\n"
                     "movlt r8, #1\n"
                     "mvn r10, #0x80000000\n"
                     "udiv r10, r10, r8\n"
                     "str r10, [r0, #44]\n"
                     "lsr r8, r8, #1\n"
                     "lsl r4, r8, r1\n"
                     "mov r5, r4\n"
                     "mov r6, r4\n"
                     "mov r7, r4\n"
                     "mov r8, r4\n"
                     "mov r9, r4\n"
                     "mov r10, r4\n"
                     "mov r11, r4\n"
                     "ldrd r12, lr, [r0, #24]\n"
                     "3: ldr r0, [r12], #4\n" TWO_COLUMNS("r4", "r5") TWO_COLUMNS("r6", "r7") TWO_COLUMNS("r8", "r9")
                         TWO_COLUMNS("r10", "r11") "cmp r12, r3\n"
                                                   "bne 3b\n"
                                                   "ldr r0, [sp]\n"
                                                   "add r12, r0, #44\n"
                                                   "ldmia r12, {r1-r3}\n" AVERAGE("r4") AVERAGE("r5") AVERAGE("r6")
                                                       AVERAGE("r7") AVERAGE("r8") AVERAGE("r9") AVERAGE("r10")
                                                           AVERAGE("r11") "ldr r12, [r0, #40]\n"
                                                                          "stmia r12!, {r4-r11}\n"
                                                                          "str r12, [r0, #40]\n"
                                                                          "ldrd r1, r2, [r0]\n"
                                                                          "cmp r1, r2\n"
                                                                          "bne 1b\n"
                                                                          "pop {r0, r7}"
                     : "+r"(part)
                     :
                     : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
#else
    bitwise_attention(out, queries, keys, values, rows, 8u, most, headroom);
#endif
}

/* 2^-power, power in Q16, as Q13. */
SCARE_INLINE int32_t power_of_two(int32_t power) {
    int32_t fraction = power & 0xffff;
    int32_t value = 15078 + ((-2557 * fraction) >> 16);
    value = -45287 + (int32_t)(((int64_t)value * fraction) >> 16);
    value = 65531 + (int32_t)(((int64_t)value * fraction) >> 16);
    return (value >> 3) >> (power >> 16);
}

/* Rows of numbers as pairs of `bits` bits, a last one with zero; returns where the next pair goes. */
SCARE_INLINE int32_t *pair_numbers(const int32_t *x, uint32_t rows, uint32_t width, uint32_t spare, uint32_t bits,
                                   int32_t *pairs) {
    SCARE_ROLLED
    for (; rows > 0u; rows--, x += width) {
        SCARE_ROLLED
        for (uint32_t i = 0u; i + 1u < width; i += 2u)
            *pairs++ = scare_pack(scare_to_top(x[i], spare, bits), scare_to_top(x[i + 1u], spare, bits));
        if (width % 2u) *pairs++ = scare_pack(scare_to_top(x[width - 1u], spare, bits), 0);
    }
    return pairs;
}

/* The columns of values [rows][width] likewise. */
SCARE_INLINE void pair_columns(const int32_t *values, uint32_t rows, uint32_t width, uint32_t spare, uint32_t bits,
                               int32_t *pairs) {
    SCARE_ROLLED
    for (uint32_t column = 0u; column < width; column++) {
        const int32_t *value = values + column;
        SCARE_ROLLED
        for (uint32_t i = 0u; i + 1u < rows; i += 2u, value += 2u * width)
            *pairs++ = scare_pack(scare_to_top(value[0], spare, bits), scare_to_top(value[width], spare, bits));
        if (rows % 2u) *pairs++ = scare_pack(scare_to_top(value[0], spare, bits), 0);
    }
}

/* sum + the products of pairs with others. */
SCARE_INLINE int32_t add_products(const int32_t *pairs, const int32_t *others, uint32_t count, int32_t sum) {
    const void *next = others;
    SCARE_ROLLED
    for (const int32_t *end = pairs + count / 4u * 4u; pairs != end; pairs += 4) {
        SCARE_WALK(pairs);
        sum = scare_add_all(pairs, scare_next_four(&next), sum);
    }
    SCARE_ROLLED
    for (const int32_t *end = pairs + count % 4u; pairs != end; pairs++) {
        SCARE_WALK(pairs);
        sum = scare_add_pairs(*pairs, scare_next_word(&next), sum);
    }
    return sum;
}

void scare_softmax_attention_q(int32_t *out, const int32_t *queries, const int32_t *keys, const int32_t *values,
                               uint32_t rows, uint32_t heads, uint32_t width, uint32_t value_width, int32_t sharpness,
                               int32_t bits, uint32_t score_bits, uint32_t value_bits, uint32_t headroom) {
    uint32_t query_spare = scare_spare_bits(scare_magnitudes(queries, rows * heads * width));
    uint32_t key_spare = scare_spare_bits(scare_magnitudes(keys, rows * heads * width));
    uint32_t spare = scare_spare_bits(scare_magnitudes(values, rows * heads * value_width));
    int32_t shift = (int32_t)(query_spare + key_spare) - bits;
    int32_t down = scare_least(scare_most(shift, 0), 31), up = scare_least(scare_most(-shift, 0), 20);
    uint32_t couples = (width + 1u) / 2u, row_couples = (rows + 1u) / 2u;
    int32_t *paired_queries = out + rows * heads * value_width;
    const int32_t *query = paired_queries;
    int32_t *paired_keys = pair_numbers(queries, rows * heads, width, query_spare, score_bits, paired_queries);
    int32_t *columns = pair_numbers(keys, rows * heads, width, key_spare, score_bits, paired_keys);
    pair_columns(values, rows, heads * value_width, spare, value_bits, columns);
    SCARE_ROLLED
    for (uint32_t row = 0u; row < rows; row++) {
        const int32_t *column = columns;
        SCARE_ROLLED
        for (uint32_t head = 0u; head < heads; head++, query += couples) {
            int32_t scores[SCARE_TOKENS_Q], weights[SCARE_TOKENS_Q / 2u], largest = INT32_MIN, total = 0;
            const int32_t *key = paired_keys + head * couples;
            SCARE_ROLLED
            for (uint32_t i = 0u; i < rows; i++, key += heads * couples) {
                scores[i] = add_products(query, key, couples, 0);
                largest = scare_most(largest, scores[i]);
            }
            SCARE_ROLLED
            for (uint32_t i = 0u; i < rows; i++) {
                int32_t below = scare_multiply_wide(largest - scores[i], sharpness) >> down;
                scores[i] = power_of_two(scare_shifted(scare_least(below, (31 << 16) >> up), (uint32_t)up));
                total += scores[i];
            }
            SCARE_ROLLED
            for (uint32_t i = 0u; i + 1u < rows; i += 2u) weights[i / 2u] = scare_pack(scores[i], scores[i + 1u]);
            if (rows % 2u) weights[rows / 2u] = scores[rows - 1u];
            int32_t inverse = 0x7fffffff / total;
            SCARE_ROLLED
            for (uint32_t d = 0u; d < value_width; d++, column += row_couples)
                *out++ = average(add_products(weights, column, row_couples, total >> 1), inverse, headroom, value_bits,
                                 spare);
        }
    }
}
