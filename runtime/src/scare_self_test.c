/* The self-test: windows made from seeds, in integers, so that every compiler makes the same ones. */
#include "scare_port.h"
#include "scare_window.h"

#define DECAY 16
#define UNIT 65536.0f /* of the walk: a scaled value of 1 */

/* A number of the walk in the unit of the window: scaled, or a whole number of steps. */
SCARE_SMALL float number_of(const scare_channel *channel, int32_t at) {
    int32_t steps = at / 256 * (int32_t)channel->quantum / 256;
    if (channel->quantum == 0.0f) {
        return (float)at / UNIT;
    }
    return (float)(steps > INT16_MAX ? INT16_MAX : steps < -INT16_MAX ? -INT16_MAX : steps) / channel->quantum;
}

/* Fill the window with a random walk that keeps returning to zero. */
SCARE_SMALL void walk(scare *self, uint32_t random) {
    const scare_model *model = self->model;
    float *number = self->scratch;
    int32_t at = 0;
    SCARE_ROLLED
    for (uint32_t row = 0u; row < model->window; row++) {
        SCARE_ROLLED
        for (uint32_t c = 0u; c < model->channels; c++) {
            random = random * 1664525u + 1013904223u; /* Numerical Recipes */
            at += (int32_t)(random >> 16) - 32768 - at / DECAY;
            number[c] = number_of(&model->channel[c], at);
        }
        scare_window_add(self, number);
    }
}

SCARE_COMPACT scare_status scare_self_test(scare *self, const scare_golden *golden) {
    scare_status status = scare_reset(self);
    if (status != SCARE_OK || !golden) {
        return SCARE_ARGUMENT;
    }
    SCARE_ROLLED
    for (uint32_t i = 0u; i < golden->count; i++) {
        scare_choice choice = {0u, 0u};
        float scaled, difference;
        walk(self, golden->vector[i].seed);
        self->model->run(self->window, self->scratch, &choice, &scaled, self->model);
        difference = scaled - golden->vector[i].result;
        if (!(difference <= golden->tolerance && -difference <= golden->tolerance)) {
            status = SCARE_WRONG;
        }
    }
    return status;
}
