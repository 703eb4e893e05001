/* The learner's arithmetic in float32: the same operations in the same order as scare/upkeep/learner.py. */
#include "scare_learn.h"

#include "scare_port.h"

#define LIMIT 8.0f
#define STEP 0.5f
#define KEPT_SHARE 0.875f
#define LEAST_CORRELATION 0.25f /* squared */
#define LEAST_VARIANCE 0.0625f
#define LEAST_EXPLAINED 0.5f
#define MOST_EXPLAINED 4.0f

/* Clamp all features; there is at least one. */
static void clamp(const scare_learner *self, const float *features, float *near) {
    uint32_t i = 0u;
    SCARE_ROLLED
    do {
        float feature = features[i] > -LIMIT ? features[i] : -LIMIT;
        near[i] = feature < LIMIT ? feature : LIMIT;
    } while (++i < self->rules->numbers);
}

static float dot(const scare_number *numbers, const float *features, uint32_t count) {
    float total = numbers[0].real * features[0];
    SCARE_ROLLED
    for (uint32_t i = 1u; i < count; i++) {
        total = SCARE_MLA(numbers[i].real, features[i], total);
    }
    return total;
}

static void blend(scare_number *mean, float number, float share) {
    mean->real += (number - mean->real) * share;
}

static int take(scare_learner *self, const float *features, float residual) {
    uint32_t count = self->rules->numbers, pair = 0u;
    float near[SCARE_LEARN_MOST], share = 1.0f / (float)(1u << self->rules->memory_bits), error;
    if (!(SCARE_ABS(residual) <= LIMIT)) {
        return 0;
    }
    clamp(self, features, near);
    SCARE_ROLLED
    for (uint32_t i = 0u; i < count; i++) {
        SCARE_ROLLED
        for (uint32_t j = i; j < count; j++) {
            blend(&self->moments[pair++], near[i] * near[j], share);
        }
        blend(&self->products[i], near[i] * residual, share);
    }
    blend(&self->square, residual * residual, share);
    self->sums[0].real += residual * residual;
    error = residual - dot(self->active, near, count);
    self->sums[1].real += error * error;
    error = residual - dot(self->shadow, near, count);
    self->sums[2].real += error * error;
    return 1;
}

static scare_learned judge(const scare_learner *self) {
    float shipped = self->sums[0].real, active = self->sums[1].real, shadow = self->sums[2].real;
    if (shadow < active * KEPT_SHARE && shadow <= shipped) {
        return SCARE_LEARN_BETTER;
    }
    return shipped < active * KEPT_SHARE ? SCARE_LEARN_REVERTED : SCARE_LEARN_TAKEN;
}

/* (moments + prior) numbers = products, by L D L^T. */
static void solve(const scare_learner *self, float *numbers) {
    uint32_t count = self->rules->numbers, pair = 0u;
    float matrix[SCARE_LEARN_MOST][SCARE_LEARN_MOST], factors[SCARE_LEARN_MOST];
    SCARE_ROLLED
    for (uint32_t i = 0u; i < count; i++) {
        numbers[i] = self->products[i].real;
        SCARE_ROLLED
        for (uint32_t j = i; j < count; j++) {
            matrix[i][j] = self->moments[pair++].real;
        }
        matrix[i][i] += self->rules->prior[i];
    }
    SCARE_ROLLED
    for (uint32_t j = 0u; j < count; j++) {
        SCARE_ROLLED
        for (uint32_t i = j + 1u; i < count; i++) {
            factors[i] = matrix[j][i] / matrix[j][j];
            SCARE_ROLLED
            for (uint32_t m = i; m < count; m++) {
                matrix[i][m] -= factors[i] * matrix[j][m];
            }
            numbers[i] -= factors[i] * numbers[j];
        }
        numbers[j] = numbers[j] / matrix[j][j];
        SCARE_ROLLED
        for (uint32_t i = j + 1u; i < count; i++) {
            matrix[j][i] = factors[i];
        }
    }
    SCARE_ROLLED
    for (uint32_t j = count; j-- > 0u;) {
        SCARE_ROLLED
        for (uint32_t i = j + 1u; i < count; i++) {
            numbers[j] -= matrix[j][i] * numbers[i];
        }
    }
}

/* Whether values and references correlate, and the correction explains enough of the residuals but not too much. */
static int plausible(const scare_learner *self, const float *numbers) {
    uint32_t last = self->rules->numbers - 1u;
    float weight = self->moments[(last + 1u) * (last + 2u) / 2u - 1u].real, mean = self->moments[last].real;
    float error = self->products[last].real;
    float spread = self->moments[0].real * weight - mean * mean;
    float common = self->products[0].real * weight - mean * error;
    float other = self->square.real * weight - error * error;
    float together = spread + common, references = spread + common + common + other;
    float explained = dot(self->products, numbers, last + 1u);
    return together > 0.0f && together * together >= LEAST_CORRELATION * (spread * references) &&
           references >= LEAST_VARIANCE * spread && explained >= LEAST_EXPLAINED * self->square.real &&
           explained <= MOST_EXPLAINED * weight;
}

static void propose(scare_learner *self) {
    uint32_t count = self->rules->numbers;
    float numbers[SCARE_LEARN_MOST], largest = 0.0f, share = 1.0f;
    solve(self, numbers);
    if (!plausible(self, numbers)) {
        __builtin_memcpy(self->shadow, self->active, sizeof self->shadow);
        return;
    }
    SCARE_ROLLED
    for (uint32_t i = 0u; i < count; i++) {
        numbers[i] -= self->active[i].real;
        largest = SCARE_ABS(numbers[i]) > largest ? SCARE_ABS(numbers[i]) : largest;
    }
    if (largest > STEP) {
        share = STEP / largest;
    }
    SCARE_ROLLED
    for (uint32_t i = 0u; i < count; i++) {
        self->shadow[i].real = self->active[i].real + numbers[i] * share;
    }
}

static float correct(const scare_learner *self, const float *features) {
    float near[SCARE_LEARN_MOST];
    clamp(self, features, near);
    return dot(self->active, near, self->rules->numbers);
}

const scare_learn_arithmetic scare_learn_f32 = {0x46334c53u, take, judge, propose, correct};
