#include "scare_kernels.h"
#include "math_f32.h"

/* Features are of 8 or (wide) 16 bits. */
SCARE_INLINE void sum_trees(float *out, const float *x, const void *features, const float *table, const float *guard,
                            uint32_t trees, uint32_t depth, uint32_t guarded, int wide) {
    const uint8_t *narrow_feature = features;
    const uint16_t *wide_feature = features;
    uint8_t *codes = (uint8_t *)(out + 1);
    uint32_t nodes = ((uint32_t)1 << depth) - 1u, inside = 1u;
    float sum = 0.0f;
    SCARE_ROLLED
    for (uint32_t i = 0; i < guarded; i++, guard += 2) inside &= (uint32_t)((x[i] >= guard[0]) & (x[i] <= guard[1]));
    SCARE_ROLLED
    for (uint32_t tree = 0; tree < trees; tree++) {
        uint32_t node = 1u, level = depth;
        SCARE_ROLLED
        do {
            uint32_t feature = wide ? wide_feature[node] : narrow_feature[node];
            node = 2u * node + (x[feature] > table[node] ? 1u : 0u);
        } while (--level > 0u);
        sum += table[node];
        *codes++ = (uint8_t)node;
        table += 2u * nodes + 1u;
        narrow_feature += nodes, wide_feature += nodes;
    }
    *codes = (uint8_t)inside;
    *out = scare_from_bits(scare_to_bits(sum) & (0u - inside));
}

void scare_trees_f32(float *out, const float *x, const uint8_t *features, const float *table, const float *guard,
                     uint32_t trees, uint32_t depth, uint32_t guarded) {
    sum_trees(out, x, features, table, guard, trees, depth, guarded, 0);
}

void scare_trees_wide_f32(float *out, const float *x, const uint16_t *features, const float *table, const float *guard,
                          uint32_t trees, uint32_t depth, uint32_t guarded) {
    sum_trees(out, x, features, table, guard, trees, depth, guarded, 1);
}
