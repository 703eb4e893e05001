#include "scare_kernels.h"
#include "math_f32.h"
#include "product_f32.h"

void scare_lstm_f32(float *out, const float *x, const float *table, uint32_t rows, uint32_t channels, uint32_t size) {
    float *memory = out + size, *state = memory + size;
    for (uint32_t j = 0; j < 2u * size; j++) out[j] = 0.0f; /* the memory, too */
    for (uint32_t t = 0; t < rows; t++, x += channels) {
        const float *next = table;
        for (uint32_t j = 0; j < size; j++) {
            scare_four gate = scare_load_four(next);
            next += 4;
            scare_add_products(&gate, x, &next, channels);
            scare_add_products(&gate, out, &next, size);
            float written = scare_sigmoid_f32(gate.a) * scare_tanh_f32(gate.c);
            memory[j] = SCARE_MLA(scare_sigmoid_f32(gate.b), memory[j], written);
            state[j] = scare_sigmoid_f32(gate.d) * scare_tanh_f32(memory[j]);
        }
        for (uint32_t j = 0; j < size; j++) out[j] = state[j];
    }
}
