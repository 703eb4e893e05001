/* Readings become windows: the same rules as windowing/ring.py and data/flags.py, which the tests compare with. */
#include "scare.h"

#include "scare_port.h"

#define WORD_BITS 32u
#define LARGEST_STEP 32767.0f

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static uint32_t window_words(const scare_model *model) {
    return SCARE_WORDS(model->window * model->channels * (uint32_t)(model->integer ? sizeof(int16_t) : sizeof(float)));
}

static uint32_t real_words(const scare_model *model) {
    return (model->checked + WORD_BITS - 1u) / WORD_BITS;
}

/* Not by comparing: a compiler told to be fast may think that every number is finite. */
static int is_finite(float number) {
    uint32_t bits;
    __builtin_memcpy(&bits, &number, sizeof bits);
    return (bits & 0x7f800000u) != 0x7f800000u;
}

/* Rows from one reading to the next: elapsed / step, halves rounded up; 0: too early. */
static uint32_t rows_between(uint32_t elapsed_ms, uint32_t step_ms) {
    uint32_t rest = elapsed_ms % step_ms;
    if (elapsed_ms > INT32_MAX) {
        return 0u;
    }
    return elapsed_ms / step_ms + (rest >= step_ms - rest ? 1u : 0u);
}

static scare_status judge(const scare_model *model, const float *reading) {
    SCARE_ROLLED
    for (uint32_t c = 0u; c < model->channels; c++) {
        if (!is_finite(reading[c])) {
            return SCARE_MISSING;
        }
        SCARE_ROLLED
        for (uint32_t i = 0u; i < model->absent_count; i++) {
            if (reading[c] == model->absent[i]) {
                return SCARE_MISSING;
            }
        }
        if (reading[c] < model->channel[c].low || reading[c] > model->channel[c].high) {
            return SCARE_RANGE;
        }
    }
    return SCARE_OK;
}

static float scale(const scare_channel *channel, float number) {
    return ((number - channel->center) - channel->rest) * channel->inverse;
}

/* The nearest whole step, halves rounded up. */
static int16_t quantise(const scare_channel *channel, float scaled) {
    float steps = scaled * channel->quantum + 0.5f;
    steps = steps > -LARGEST_STEP ? steps : -LARGEST_STEP;
    steps = steps < LARGEST_STEP ? steps : LARGEST_STEP;
    int32_t whole = (int32_t)steps;
    return (int16_t)(whole - (steps < (float)whole ? 1 : 0));
}

/* Both kinds of window: the last `rows` rows of each are new, and hold the newest row there was or `reading`. */
static void shift_floats(const scare_model *model, float *window, uint32_t rows, const float *reading) {
    uint32_t channels = model->channels, end = model->window * channels, moved = end - rows * channels;
    float newest;
    SCARE_ROLLED
    for (uint32_t i = 0u; i < moved; i++) {
        window[i] = window[i + rows * channels];
    }
    SCARE_ROLLED
    for (uint32_t c = 0u; c < channels; c++) {
        newest = reading ? scale(&model->channel[c], reading[c]) : window[end - channels + c];
        SCARE_ROLLED
        for (uint32_t i = moved + c; i < end; i += channels) {
            window[i] = newest;
        }
    }
}

static void shift_integers(const scare_model *model, int16_t *window, uint32_t rows, const float *reading) {
    uint32_t end = model->window, moved = end - rows;
    int16_t newest;
    SCARE_ROLLED
    for (uint32_t c = 0u; c < model->channels; c++, window += end) {
        const scare_channel *channel = &model->channel[c];
        newest = reading ? quantise(channel, scale(channel, reading[c])) : window[end - 1u];
        SCARE_ROLLED
        for (uint32_t i = 0u; i < moved; i++) {
            window[i] = window[i + rows];
        }
        SCARE_ROLLED
        for (uint32_t i = moved; i < end; i++) {
            window[i] = newest;
        }
    }
}

static void shift(scare *self, uint32_t rows, const float *reading) {
    const scare_model *model = self->model;
    if (model->integer) {
        shift_integers(model, (int16_t *)self->window, rows, reading);
    } else {
        shift_floats(model, (float *)self->window, rows, reading);
    }
}

static void mark(scare *self, uint32_t real) {
    uint32_t *word = &self->real[self->next_bit / WORD_BITS];
    uint32_t at = self->next_bit % WORD_BITS, before = (*word >> at) & 1u;
    *word ^= (before ^ real) << at;
    self->real_bits += real - before;
    self->next_bit = self->next_bit + 1u < self->model->checked ? self->next_bit + 1u : 0u;
}

/* Rows without a reading repeat the newest row. */
static void hold(scare *self, uint32_t rows) {
    const scare_model *model = self->model;
    if (self->filled) {
        shift(self, smaller(rows, model->window), NULL);
    }
    SCARE_ROLLED
    for (uint32_t i = smaller(rows, model->checked); i > 0u; i--) {
        mark(self, 0u);
    }
    self->age = smaller(self->age + rows, model->hold + 1u);
    self->unbroken = self->age > model->hold ? 0u : smaller(self->unbroken + rows, model->checked);
}

static void take(scare *self, const float *reading) {
    shift(self, self->filled ? 1u : self->model->window, reading);
    self->filled = 1u;
    mark(self, 1u);
    self->age = 0u;
    self->unbroken = smaller(self->unbroken + 1u, self->model->checked);
}

static scare_status compute(scare *self, float *calibrated) {
    const scare_model *model = self->model;
    float scaled, value;
    if (self->real_bits < model->needed || self->unbroken < model->checked) {
        return SCARE_HISTORY;
    }
    model->run(self->window, self->scratch, &self->choice, &scaled);
    value = scaled * model->target_scale + model->target_center;
    if (!is_finite(value)) {
        return SCARE_NOT_FINITE;
    }
    *calibrated = value;
    return SCARE_OK;
}

SCARE_SMALL void forget(scare *self) {
    SCARE_ROLLED
    for (uint32_t i = 0u; i < real_words(self->model); i++) {
        self->real[i] = 0u;
    }
    self->timed = self->filled = 0u;
    self->next_bit = self->real_bits = 0u;
    self->age = self->model->hold + 1u;
    self->unbroken = 0u;
    self->choice.left = self->choice.deep = 0u;
}

/* Whether a reading is more than a window before the last one: the clock was set. */
static int goes_back(const scare *self, uint32_t elapsed_ms) {
    return self->timed && elapsed_ms > INT32_MAX && ~elapsed_ms / self->model->step_ms >= self->model->window;
}

static scare_status push(scare *self, uint32_t now_ms, const float *reading, float *calibrated) {
    uint32_t elapsed_ms = now_ms - self->last_ms, rows;
    scare_status status;
    if (goes_back(self, elapsed_ms)) {
        forget(self);
    }
    rows = self->timed ? rows_between(elapsed_ms, self->model->step_ms) : 1u;
    if (rows == 0u) {
        return SCARE_EARLY;
    }
    self->last_ms = now_ms;
    self->timed = 1u;
    status = judge(self->model, reading);
    if (status != SCARE_OK) {
        hold(self, rows);
        return status;
    }
    if (rows > 1u) {
        hold(self, rows - 1u);
    }
    take(self, reading);
    return compute(self, calibrated);
}

scare_status scare_init(scare *self, const scare_model *model, void *memory, size_t bytes) {
    uint32_t window, real;
    if (!self || !model || !memory) {
        return SCARE_ARGUMENT;
    }
    self->model = NULL;
    window = window_words(model);
    real = real_words(model);
    if (bytes < (window + real) * sizeof(uint32_t) + model->scratch_bytes || (uintptr_t)memory % sizeof(uint32_t)) {
        return SCARE_MEMORY;
    }
    self->model = model;
    self->window = memory;
    self->real = (uint32_t *)memory + window;
    self->scratch = self->real + real;
    return scare_reset(self);
}

scare_status scare_reset(scare *self) {
    if (!self || !self->model) {
        return SCARE_ARGUMENT;
    }
    forget(self);
    return SCARE_OK;
}

scare_status scare_push(scare *self, uint32_t now_ms, const float *reading, float *calibrated) {
    float value = __builtin_nanf("");
    scare_status status = SCARE_ARGUMENT;
    if (self && self->model && reading && calibrated) {
        status = push(self, now_ms, reading, &value);
    }
    if (calibrated) {
        *calibrated = value;
    }
    return status;
}

const char *scare_explain(scare_status status) {
    switch (status) {
    case SCARE_OK: return "calibrated";
    case SCARE_HISTORY: return "too few readings so far or since a gap";
    case SCARE_MISSING: return "a number of the reading is missing";
    case SCARE_RANGE: return "a number of the reading is outside its valid range";
    case SCARE_EARLY: return "too soon after the last reading";
    case SCARE_NOT_FINITE: return "the result is not a number";
    case SCARE_MEMORY: return "the memory is too small or not aligned";
    case SCARE_ARGUMENT: return "a null pointer or not initialised";
    }
    return "no such status";
}
