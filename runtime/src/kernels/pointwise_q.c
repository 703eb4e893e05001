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
                             uint64_t epsilon) {
    int32_t centred[SCARE_WIDEST_Q];
    int32_t *pairs = centred; /* a pair takes the place of a number that has been read */
    int32_t share = (int32_t)((65536u / width + 1u) / 2u);
    SCARE_ROLLED
    for (const int32_t *end = x + rows * width; x != end; x += width, out += width) {
        int32_t half_mean = (int32_t)(width >> 1); /* each product loses half a step in the mean */
        const void *table = scales;
        SCARE_UNROLLED
        for (uint32_t i = 0u; i < width; i++) half_mean = scare_add_half(x[i], share, half_mean);
        SCARE_UNROLLED
        for (uint32_t i = 0u; i < width; i++) centred[i] = (int32_t)((uint32_t)(x[i] >> 1) - (uint32_t)half_mean);
        scare_to_unit_pairs(centred, width, epsilon, pairs);
        SCARE_UNROLLED
        for (uint32_t i = 0u; i < width; i += 2u) {
            scare_words next = scare_next_four(&table);
            out[i] = scare_add_half(next.a, pairs[i / 2u], next.b);
            if (i + 1u < width) out[i + 1u] = scare_add_upper(next.c, pairs[i / 2u], next.d);
        }
    }
}

void scare_layer_norm_q(int32_t *out, const int32_t *x, const int32_t *scales, uint32_t rows, uint32_t width,
                        uint32_t epsilon_low, uint32_t epsilon_high) {
    layer_norm(out, x, scales, rows, width, (uint64_t)epsilon_high << 32 | epsilon_low);
}

void scare_layer_norm_8_q(int32_t *out, const int32_t *x, const int32_t *scales, uint32_t rows, uint32_t epsilon_low,
                          uint32_t epsilon_high) {
#if SCARE_ASSEMBLY
#define ADD_SHARE(number) "add r2, r2, " number ", asr #4\n"
#define CENTRE(number) "rsb " number ", r2, " number ", asr #1\n"
/* Two numbers of the pair times their gains, plus their biases. */
#define SCALE_PAIR(pair)        \
    "ldmia lr!, {r8-r11}\n"     \
    "smulwb r2, r1, " pair "\n" \
    "smlawb r8, r8, r2, r9\n"   \
    "smulwt r3, r1, " pair "\n" \
    "smlawb r9, r10, r3, r11\n" \
    "stmia r12!, {r8, r9}\n"
    struct {
        const int32_t *x, *end, *scales;
        int32_t *out;
        const int32_t *root;
        uint32_t epsilon_low, epsilon_high;
    } all = {x, x + 8u * rows, scales, out, scare_root_powers, epsilon_low, epsilon_high};
    register void *part __asm__("r0") = &all;
    __asm__ volatile(
        "push {r7}\n"
        "1: ldr r1, [r0]\n"
        "ldmia r1!, {r4-r11}\n"
        "str r1, [r0]\n"
        "mov r2, #4\n" ADD_SHARE("r4") ADD_SHARE("r5") ADD_SHARE("r6") ADD_SHARE("r7") ADD_SHARE("r8") ADD_SHARE("r9")
            ADD_SHARE("r10") ADD_SHARE("r11") CENTRE("r4") CENTRE("r5") CENTRE("r6") CENTRE("r7") CENTRE("r8")
                CENTRE("r9") CENTRE("r10") CENTRE("r11") "ldrd r1, r2, [r0, #20]\n" SCARE_ADD_SQUARES("r4")
                    SCARE_ADD_SQUARES("r5") SCARE_ADD_SQUARES("r6") SCARE_ADD_SQUARES("r7") SCARE_ADD_SQUARES("r8")
                        SCARE_ADD_SQUARES("r9") SCARE_ADD_SQUARES("r10")
                            SCARE_ADD_SQUARES("r11") "ldr r12, [r0, #16]\n" SCARE_ROW_TO_TOP
                                                     "ldrd lr, r12, [r0, #8]\n" SCALE_PAIR("r4") SCALE_PAIR("r5")
                                                         SCALE_PAIR("r6") SCALE_PAIR("r7") "str r12, [r0, #12]\n"
                                                                                           "ldrd r1, r2, [r0]\n"
                                                                                           "cmp r1, r2\n"
                                                                                           "bne 1b\n"
                                                                                           "pop {r7}"
        : "+r"(part)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
#else
    layer_norm(out, x, scales, rows, 8u, (uint64_t)epsilon_high << 32 | epsilon_low);
#endif
}

void scare_result_q(float *out, const int32_t *x, int32_t offset, float unit) {
    *out = (float)scare_plus(*x, offset) * unit;
}
