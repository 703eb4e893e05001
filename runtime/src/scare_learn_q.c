/* The learner's arithmetic in fixed point, equal in every bit to `_FixedPoint` of scare/upkeep/learner.py. Features
 * and residuals have 12 bits after the point and fit 16, moments and coefficients have 24 and fit 32. Numbers that are
 * not finite never come here: scare_learn.c refuses them. */
#include "scare_learn.h"

#include "scare_port.h"

#define FEATURE_BITS 12u
#define NUMBER_BITS 24u
#define RESULT_BITS 20u
#define FULL 32767
#define LIMIT 8.0f
#define LARGEST ((int64_t)8 << NUMBER_BITS)
#define STEP (1 << (NUMBER_BITS - 1u))
#define LEAST_PIVOT (1 << 12)
#define LEFT 7u /* of 8: share of the squared error that a candidate must stay below */
#define OF 8u
#define LEAST_EXPLAINED_BITS 1u
#define MOST_EXPLAINED_BITS 2u

static int64_t rounded(int64_t number, uint32_t bits) {
    return (number + ((int64_t)1 << (bits - 1u))) >> bits;
}

static int64_t within(int64_t number, int64_t limit) {
    return number > limit ? limit : number < -limit ? -limit : number;
}

static int32_t word(int64_t number) {
    return (int32_t)within(number, INT32_MAX);
}

/* Round to the nearest step, halves up. */
static int32_t steps(float feature) {
    float scaled = feature * (float)(1u << FEATURE_BITS) + 0.5f;
    int32_t whole;
    scaled = scaled > (float)-FULL ? scaled : (float)-FULL;
    scaled = scaled < (float)FULL ? scaled : (float)FULL;
    whole = (int32_t)scaled;
    return whole - (scaled < (float)whole ? 1 : 0);
}

static uint32_t leading_zeros(uint32_t number) {
    return (uint32_t)__builtin_clz(number);
}

/* number / divisor with 24 bits after the point, by a reciprocal of 31 bits; the divisor is above zero. */
static int32_t quotient(int32_t number, int32_t divisor) {
    uint32_t spare = leading_zeros((uint32_t)divisor), top = (uint32_t)divisor << spare;
    uint64_t near = (uint64_t)(0xffffffffu / (top >> 16)) << 14;
    near = (near * (((uint64_t)1 << 32) - ((top * near) >> 31))) >> 31;
    return word(((int64_t)number * (int64_t)near) >> (38u - spare));
}

static int64_t dot(const scare_number *numbers, const int32_t *features, uint32_t count) {
    int64_t total = 0;
    SCARE_ROLLED
    for (uint32_t i = 0u; i < count; i++) {
        total += (int64_t)numbers[i].fixed * features[i];
    }
    return total;
}

static void blend(scare_number *mean, int32_t number, uint32_t bits) {
    mean->fixed += (int32_t)rounded((int64_t)number - mean->fixed, bits);
}

static void add_error(scare_sum *sum, int64_t error) {
    error = within(error, FULL);
    sum->fixed += (uint64_t)(error * error);
}

static int take(scare_learner *self, const float *features, float residual) {
    uint32_t count = self->rules->numbers, bits = self->rules->memory_bits, pair = 0u;
    int32_t near[SCARE_LEARN_MOST], missing;
    if (!(SCARE_ABS(residual) <= LIMIT)) {
        return 0;
    }
    missing = steps(residual);
    SCARE_ROLLED
    for (uint32_t i = 0u; i < count; i++) {
        near[i] = steps(features[i]);
    }
    SCARE_ROLLED
    for (uint32_t i = 0u; i < count; i++) {
        SCARE_ROLLED
        for (uint32_t j = i; j < count; j++) {
            blend(&self->moments[pair++], near[i] * near[j], bits);
        }
        blend(&self->products[i], near[i] * missing, bits);
    }
    blend(&self->square, missing * missing, bits);
    add_error(&self->sums[0], missing);
    add_error(&self->sums[1], missing - rounded(dot(self->active, near, count), NUMBER_BITS));
    add_error(&self->sums[2], missing - rounded(dot(self->shadow, near, count), NUMBER_BITS));
    return 1;
}

static scare_learned judge(const scare_learner *self) {
    uint64_t shipped = self->sums[0].fixed, active = self->sums[1].fixed, shadow = self->sums[2].fixed;
    if (shadow * OF < active * LEFT && shadow <= shipped) {
        return SCARE_LEARN_BETTER;
    }
    return shipped * OF < active * LEFT ? SCARE_LEARN_REVERTED : SCARE_LEARN_TAKEN;
}

/* (moments + prior) numbers = products, by L D L^T. */
static void solve(const scare_learner *self, int32_t *numbers) {
    uint32_t count = self->rules->numbers, pair = 0u;
    int32_t matrix[SCARE_LEARN_MOST][SCARE_LEARN_MOST], factors[SCARE_LEARN_MOST], pivot;
    int64_t total;
    SCARE_ROLLED
    for (uint32_t i = 0u; i < count; i++) {
        numbers[i] = self->products[i].fixed;
        SCARE_ROLLED
        for (uint32_t j = i; j < count; j++) {
            matrix[i][j] = self->moments[pair++].fixed;
        }
        matrix[i][i] += (int32_t)(self->rules->prior[i] * (float)(1u << NUMBER_BITS));
    }
    SCARE_ROLLED
    for (uint32_t j = 0u; j < count; j++) {
        pivot = matrix[j][j] > LEAST_PIVOT ? matrix[j][j] : LEAST_PIVOT;
        SCARE_ROLLED
        for (uint32_t i = j + 1u; i < count; i++) {
            factors[i] = quotient(matrix[j][i], pivot);
            SCARE_ROLLED
            for (uint32_t m = i; m < count; m++) {
                matrix[i][m] = word(matrix[i][m] - rounded((int64_t)factors[i] * matrix[j][m], NUMBER_BITS));
            }
            numbers[i] = word(numbers[i] - rounded((int64_t)factors[i] * numbers[j], NUMBER_BITS));
        }
        numbers[j] = quotient(numbers[j], pivot);
        SCARE_ROLLED
        for (uint32_t i = j + 1u; i < count; i++) {
            matrix[j][i] = factors[i];
        }
    }
    SCARE_ROLLED
    for (uint32_t j = count; j-- > 0u;) {
        total = numbers[j];
        SCARE_ROLLED
        for (uint32_t i = j + 1u; i < count; i++) {
            total -= rounded((int64_t)matrix[j][i] * numbers[i], NUMBER_BITS);
        }
        numbers[j] = (int32_t)within(total, LARGEST);
    }
}

/* a b - c d with 20 bits after the point. */
static int64_t difference(int32_t a, int32_t b, int32_t c, int32_t d) {
    return rounded((int64_t)a * b - (int64_t)c * d, 2u * NUMBER_BITS - RESULT_BITS);
}

/* Whether values and references correlate, and the correction explains enough of the residuals but not too much. */
static int plausible(const scare_learner *self, const int32_t *numbers) {
    uint32_t last = self->rules->numbers - 1u;
    int32_t weight = self->moments[(last + 1u) * (last + 2u) / 2u - 1u].fixed, mean = self->moments[last].fixed;
    int32_t error = self->products[last].fixed;
    int64_t spread = difference(self->moments[0].fixed, weight, mean, mean);
    int64_t common = difference(self->products[0].fixed, weight, mean, error);
    int64_t other = difference(self->square.fixed, weight, error, error);
    int64_t together = spread + common, references = spread + common + common + other;
    int64_t explained = dot(self->products, numbers, last + 1u);
    return together > 0 && together * together * 4 >= spread * references && references * 16 >= spread &&
           explained >= (int64_t)self->square.fixed << (NUMBER_BITS - LEAST_EXPLAINED_BITS) &&
           explained <= (int64_t)weight << (NUMBER_BITS + MOST_EXPLAINED_BITS);
}

static void propose(scare_learner *self) {
    uint32_t count = self->rules->numbers;
    int32_t numbers[SCARE_LEARN_MOST], largest = 0, share;
    solve(self, numbers);
    if (!plausible(self, numbers)) {
        __builtin_memcpy(self->shadow, self->active, sizeof self->shadow);
        return;
    }
    SCARE_ROLLED
    for (uint32_t i = 0u; i < count; i++) {
        numbers[i] -= self->active[i].fixed;
        largest = numbers[i] > largest ? numbers[i] : -numbers[i] > largest ? -numbers[i] : largest;
    }
    share = largest > STEP ? quotient(STEP, largest) : 0;
    SCARE_ROLLED
    for (uint32_t i = 0u; i < count; i++) {
        int32_t moved = share ? (int32_t)rounded((int64_t)numbers[i] * share, NUMBER_BITS) : numbers[i];
        self->shadow[i].fixed = self->active[i].fixed + moved;
    }
}

static float correct(const scare_learner *self, const float *features) {
    uint32_t count = self->rules->numbers;
    int32_t near[SCARE_LEARN_MOST];
    SCARE_ROLLED
    for (uint32_t i = 0u; i < count; i++) {
        near[i] = steps(features[i]);
    }
    int32_t result = word(rounded(dot(self->active, near, count), NUMBER_BITS + FEATURE_BITS - RESULT_BITS));
    return (float)result * (1.0f / (float)(1u << RESULT_BITS));
}

const scare_learn_arithmetic scare_learn_s32 = {0x51334c53u, take, judge, propose, correct};
