/* Fixed-point kernels: sums of trees. */
#include "fixed_q.h"
#include "scare_fixed.h"

/* The highest bit is set if the number is outside of low and high. */
SCARE_INLINE uint32_t outside(int32_t number, const int32_t *limits) {
    return ((uint32_t)number - (uint32_t)limits[0]) | ((uint32_t)limits[1] - (uint32_t)number);
}

SCARE_INLINE uint32_t any_outside(const int32_t *x, const int32_t *guard, uint32_t guarded) {
    uint32_t beyond = 0u;
    SCARE_ROLLED
    for (uint32_t i = 0u; i < guarded; i++, guard += 2) beyond |= outside(x[i], guard);
    return beyond;
}

/* How a tree is read: inputs are words or (short_input) half-words, features of 8 or (wide) 16 bits. */
typedef struct {
    const void *x, *features;
    const int16_t *table;
    uint32_t shift;
    int short_input, wide;
} reader;

/* The child of a node. The difference is of unsigned numbers so that its highest bit is taken as it is. */
SCARE_INLINE uint32_t child(const reader *at, uint32_t node) {
    uint32_t feature = at->wide ? ((const uint16_t *)at->features)[node] : ((const uint8_t *)at->features)[node];
    int32_t number = at->short_input ? ((const int16_t *)at->x)[feature] : ((const int32_t *)at->x)[feature];
    return 2u * node + ((((uint32_t)at->table[node] << at->shift) - (uint32_t)number) >> 31);
}

SCARE_INLINE void sum_trees(int32_t *out, reader at, uint32_t beyond, uint32_t trees, uint32_t depth, uint32_t up,
                            int unrolled) {
    uint8_t *codes = (uint8_t *)(out + 1);
    uint32_t nodes = (1u << depth) - 1u, inside = (beyond >> 31) - 1u;
    int32_t sum = 0;
    SCARE_ROLLED
    for (uint32_t tree = 0u; tree < trees; tree++) {
        uint32_t node = 1u, level = depth;
        if (unrolled) {
            node = child(&at, child(&at, child(&at, node)));
        } else {
            SCARE_ROLLED
            do node = child(&at, node);
            while (--level > 0u);
        }
        sum += at.table[node];
        *codes++ = (uint8_t)node;
        at.table += 2u * nodes + 1u;
        at.features = (const uint8_t *)at.features + (at.wide ? 2u * nodes : nodes);
    }
    *codes = (uint8_t)(inside & 1u);
    *out = (int32_t)(((uint32_t)sum << up) & inside);
}

void scare_trees_q(int32_t *out, const int32_t *x, const uint8_t *features, const int16_t *table, const int32_t *guard,
                   uint32_t trees, uint32_t depth, uint32_t guarded, uint32_t shift, uint32_t up) {
    sum_trees(out, (reader){x, features, table, shift, 0, 0}, any_outside(x, guard, guarded), trees, depth, up, 0);
}

void scare_trees_3_q(int32_t *out, const int32_t *x, const uint8_t *features, const int16_t *table,
                     const int32_t *guard, uint32_t trees, uint32_t guarded, uint32_t shift, uint32_t up) {
    sum_trees(out, (reader){x, features, table, shift, 0, 0}, any_outside(x, guard, guarded), trees, 3u, up, 1);
}

void scare_trees_wide_q(int32_t *out, const int32_t *x, const uint16_t *features, const int16_t *table,
                        const int32_t *guard, uint32_t trees, uint32_t depth, uint32_t guarded, uint32_t shift,
                        uint32_t up) {
    sum_trees(out, (reader){x, features, table, shift, 0, 1}, any_outside(x, guard, guarded), trees, depth, up, 0);
}

void scare_trees_window_q(int32_t *out, const int16_t *window, const uint16_t *features, const int16_t *table,
                          const int32_t *guard, uint32_t trees, uint32_t depth, uint32_t guarded, uint32_t stride,
                          uint32_t channels, uint32_t shift, uint32_t up) {
    uint32_t beyond = 0u;
    SCARE_ROLLED
    for (uint32_t i = 0u; i < guarded; i++, guard += 2)
        beyond |= outside(window[i % channels * stride + i / channels], guard);
    sum_trees(out, (reader){window, features, table, shift, 1, 1}, beyond, trees, depth, up, 0);
}
