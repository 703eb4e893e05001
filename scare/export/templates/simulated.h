/* Simulated readings: every channel goes up and down between the smallest and largest value that the model has seen. */
#ifndef ${upper}_SIMULATED_H
#define ${upper}_SIMULATED_H

#include <stdint.h>

/* Simulate reading `number`: one value for each channel. */
static inline void ${name}_simulate(uint32_t number, float *reading) {
    static const float ends[][2] = {
$ends
    };
    for (uint32_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        uint32_t phase = number % 240u * (3u + 2u * i) % 240u;
        float share = (float)(phase < 120u ? phase : 240u - phase) / 120.0f;
        reading[i] = ends[i][0] + share * (ends[i][1] - ends[i][0]);
    }
}

#endif
