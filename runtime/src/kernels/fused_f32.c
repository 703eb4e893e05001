#include "scare_kernels.h"
#include "math_f32.h"
#include "product_f32.h"

#define CHUNK 16u /* hidden numbers at a time */

void scare_token_rows_f32(float *out, const float *seen, const float *shared, const float *share, const float *table,
                          uint32_t rows, uint32_t channels, uint32_t inputs, uint32_t outputs) {
    uint32_t o = 0;
    SCARE_ROLLED for (; o + 4 <= outputs; o += 4) {
        scare_four common = {0.0f, 0.0f, 0.0f, 0.0f};
        if (inputs > 0) {
            scare_add_products(&common, shared, &table, inputs);
        } else {
            common = scare_load_four(shared + o);
        }
        const float *local = table, *number = seen;
        table += 4 * channels;
        float *to = out + o;
        SCARE_ROLLED for (uint32_t r = 0; r < rows; r++, table += 4, to += outputs) {
            scare_four sum = scare_load_four(table);
            sum.a = SCARE_MLA(share[r], common.a, sum.a);
            sum.b = SCARE_MLA(share[r], common.b, sum.b);
            sum.c = SCARE_MLA(share[r], common.c, sum.c);
            sum.d = SCARE_MLA(share[r], common.d, sum.d);
            const float *next = local;
            uint32_t c = channels;
            SCARE_ROLLED do {
                scare_add_product(&sum, *number++, &next);
            }
            while (--c > 0);
            scare_store_four(to, sum);
        }
    }
    SCARE_ROLLED for (; o < outputs; o++) {
        float common = inputs > 0 ? scare_add_dot(0.0f, shared, &table, inputs) : shared[o];
        const float *local = table;
        table += channels;
        SCARE_ROLLED for (uint32_t r = 0; r < rows; r++) {
            const float *next = local;
            float sum = SCARE_MLA(share[r], common, *table++);
            out[r * outputs + o] = scare_add_dot(sum, seen + r * channels, &next, channels);
        }
    }
}

/* Twice what is above zero. */
SCARE_INLINE float twice_relu(float x) {
    return x + SCARE_ABS(x);
}

SCARE_INLINE void feed_forward(float *out, const float *x, const float *table, uint32_t rows, uint32_t width,
                               uint32_t hidden, uint32_t outputs, float (*activation)(float)) {
    float active[CHUNK];
    for (uint32_t r = 0; r < rows; r++, x += width, out += outputs) {
        const float *sums = table, *next = table + outputs;
        for (uint32_t h = 0; h < hidden; h += CHUNK, sums = out) {
            SCARE_ROLLED for (uint32_t i = 0; i < CHUNK; i += 4) {
                scare_four sum = scare_load_four(next);
                next += 4;
                scare_add_products(&sum, x, &next, width);
                scare_four four = {activation(sum.a), activation(sum.b), activation(sum.c), activation(sum.d)};
                scare_store_four(active + i, four);
            }
            uint32_t o = 0;
            SCARE_ROLLED for (; o + 4 <= outputs; o += 4) {
                scare_four sum = scare_load_four(sums + o);
                scare_add_many_products(&sum, active, &next, CHUNK);
                scare_store_four(out + o, sum);
            }
            SCARE_ROLLED for (; o < outputs; o++) out[o] = scare_add_dot(sums[o], active, &next, CHUNK);
        }
    }
}

void scare_feed_forward_f32(float *out, const float *x, const float *table, uint32_t rows, uint32_t width,
                            uint32_t hidden, uint32_t outputs) {
    feed_forward(out, x, table, rows, width, hidden, outputs, twice_relu);
}

void scare_feed_forward_8_f32(float *out, const float *x, const float *table, uint32_t rows, uint32_t hidden,
                              uint32_t outputs) {
    feed_forward(out, x, table, rows, 8, hidden, outputs, twice_relu);
}

void scare_feed_forward_gelu_f32(float *out, const float *x, const float *table, uint32_t rows, uint32_t width,
                                 uint32_t hidden, uint32_t outputs) {
    feed_forward(out, x, table, rows, width, hidden, outputs, scare_gelu_one_f32);
}

SCARE_INLINE void read_out(float *out, const float *x, const float *inner, const float *outer, uint32_t rows,
                           uint32_t width, uint32_t hidden, float (*activation)(float)) {
    float active[CHUNK], total = *outer++;
    for (uint32_t r = 0; r < rows; r++, x += width) {
        const float *next = inner;
        total = scare_add_dot(total, x, &outer, width);
        for (uint32_t h = 0; h < hidden; h += CHUNK) {
            SCARE_ROLLED for (uint32_t i = 0; i < CHUNK; i += 4) {
                scare_four sum = scare_load_four(next);
                next += 4;
                scare_add_products(&sum, x, &next, width);
                scare_four four = {activation(sum.a), activation(sum.b), activation(sum.c), activation(sum.d)};
                scare_store_four(active + i, four);
            }
            total = scare_add_dot(total, active, &outer, CHUNK);
        }
    }
    *out = total;
}

void scare_read_out_f32(float *out, const float *x, const float *inner, const float *outer, uint32_t rows,
                        uint32_t width, uint32_t hidden) {
    read_out(out, x, inner, outer, rows, width, hidden, twice_relu);
}

void scare_read_out_8_f32(float *out, const float *x, const float *inner, const float *outer, uint32_t rows,
                          uint32_t hidden) {
    read_out(out, x, inner, outer, rows, 8, hidden, twice_relu);
}

void scare_read_out_gelu_f32(float *out, const float *x, const float *inner, const float *outer, uint32_t rows,
                             uint32_t width, uint32_t hidden) {
    read_out(out, x, inner, outer, rows, width, hidden, scare_gelu_one_f32);
}
