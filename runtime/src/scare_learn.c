/* The learner: rounds of pairs, candidates, blobs, as in scare/upkeep/learner.py. */
#include "scare_learn.h"

#include "scare_port.h"
#include "scare_window.h"

#define WORD 4u
#define HEAD_WORDS 2u
#define BLOB_WORDS (SCARE_LEARN_BYTES / WORD)
#define WITHOUT_WIDTH 0x10000u /* a blob from before there was a width: so much less is its first word */
#define WIDEST 4.0f            /* and a quarter, the narrowest */

static void clear(void *memory, size_t bytes) {
    unsigned char *at = memory;
    SCARE_ROLLED
    for (size_t i = 0; i < bytes; i++) {
        at[i] = 0u;
    }
}

static int is_finite(float number) {
    uint32_t bits;
    __builtin_memcpy(&bits, &number, sizeof bits);
    return (bits & 0x7f800000u) != 0x7f800000u;
}

/* Fill in the features: value, inputs and 1; returns whether all are finite. */
static int features_of(const scare_learner *self, const scare *calibration, float calibrated, float *features) {
    uint32_t last;
    int finite;
    if (!self || !self->rules || !calibration || !calibration->model) {
        return 0;
    }
    last = self->rules->numbers - 1u;
    features[0] = (calibrated - calibration->model->target_center) / calibration->model->target_scale;
    finite = is_finite(features[0]);
    SCARE_ROLLED
    for (uint32_t i = 1u; i < last; i++) {
        features[i] = scare_window_number(calibration, i - 1u, calibration->model->window - 1u);
        finite &= is_finite(features[i]);
    }
    features[last] = 1.0f;
    return finite;
}

static scare_learned end_round(scare_learner *self) {
    const scare_learn_arithmetic *arithmetic = self->rules->arithmetic;
    scare_learned outcome = arithmetic->judge(self);
    if (outcome == SCARE_LEARN_BETTER) {
        __builtin_memcpy(self->active, self->shadow, sizeof self->active);
    } else if (outcome == SCARE_LEARN_REVERTED) {
        clear(self->active, sizeof self->active);
    }
    self->in_round = 0u;
    clear(self->sums, sizeof self->sums);
    arithmetic->propose(self);
    return outcome;
}

scare_status scare_learn_init(scare_learner *self, const scare_learning *rules) {
    if (!self || !rules || rules->numbers < 2u || rules->numbers > SCARE_LEARN_MOST) {
        return SCARE_ARGUMENT;
    }
    clear(self, sizeof *self);
    self->rules = rules;
    self->width = 1.0f;
    return SCARE_OK;
}

scare_learned scare_learn(scare_learner *self, const scare *calibration, float calibrated, float reference) {
    float features[SCARE_LEARN_MOST], residual;
    if (!features_of(self, calibration, calibrated, features)) {
        return SCARE_LEARN_REFUSED;
    }
    residual = (reference - calibrated) / calibration->model->target_scale;
    if (!is_finite(residual) || !self->rules->arithmetic->take(self, features, residual)) {
        return SCARE_LEARN_REFUSED;
    }
    self->taken++;
    self->in_round++;
    return self->in_round >= self->rules->round ? end_round(self) : SCARE_LEARN_TAKEN;
}

float scare_learn_correction(const scare_learner *self, const scare *calibration, float calibrated) {
    float features[SCARE_LEARN_MOST], correction, least;
    if (!features_of(self, calibration, calibrated, features)) {
        return 0.0f;
    }
    correction = self->rules->arithmetic->correct(self, features) * calibration->model->target_scale;
    least = calibration->model->floor - calibrated;
    return correction > least ? correction : least;
}

void scare_learn_correct(const scare_learner *self, const scare *calibration, scare_answer *answer) {
    float correction, below, above;
    if (!self || !self->rules || !calibration || !calibration->model || !answer || !is_finite(answer->value)) {
        return;
    }
    correction = scare_learn_correction(self, calibration, answer->value);
    below = self->width * (answer->value - answer->low);
    above = self->width * (answer->high - answer->value);
    answer->value += correction;
    answer->low = answer->value - below;
    answer->low = answer->low < calibration->model->floor ? calibration->model->floor : answer->low; /* NaN stays */
    answer->high = answer->value + above;
}

void scare_learn_hold(scare_learner *self, const scare *calibration, const scare_answer *corrected, float reference) {
    int inside;
    float width;
    if (!self || !self->rules || !calibration || !calibration->model || !corrected || !is_finite(corrected->low) ||
        !is_finite(reference)) {
        return;
    }
    inside =
        reference <= corrected->high && (reference >= corrected->low || corrected->low <= calibration->model->floor);
    width = self->width * (inside ? self->rules->narrower : self->rules->wider);
    width = width < WIDEST ? width : WIDEST;
    self->width = width > 1.0f / WIDEST ? width : 1.0f / WIDEST;
}

void scare_learn_revert(scare_learner *self) {
    if (self) {
        clear(self->active, sizeof self->active);
        self->width = 1.0f;
    }
}

/* Copy the state to a blob or back, in the blob's order. */
static void exchange(scare_learner *self, uint32_t *words, int store) {
    struct {
        void *part;
        size_t bytes;
    } parts[] = {
        {self->moments, sizeof self->moments},
        {self->products, sizeof self->products},
        {&self->square, sizeof self->square},
        {self->active, sizeof self->active},
        {self->shadow, sizeof self->shadow},
        {self->sums, sizeof self->sums},
        {&self->in_round, WORD},
        {&self->taken, WORD},
        {&self->width, WORD},
    };
    words += HEAD_WORDS;
    SCARE_ROLLED
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        unsigned char *to = store ? (void *)words : parts[i].part, *from = store ? parts[i].part : (void *)words;
        SCARE_ROLLED
        for (size_t byte = 0; byte < parts[i].bytes; byte++) {
            to[byte] = from[byte];
        }
        words += parts[i].bytes / WORD;
    }
}

scare_status scare_learn_store(const scare_learner *self, void *blob, size_t bytes) {
    uint32_t words[BLOB_WORDS];
    scare_learner copy;
    if (!self || !self->rules || !blob) {
        return SCARE_ARGUMENT;
    }
    if (bytes < SCARE_LEARN_BYTES) {
        return SCARE_MEMORY;
    }
    copy = *self;
    words[0] = self->rules->arithmetic->mark;
    words[1] = self->rules->identity;
    exchange(&copy, words, 1);
    words[BLOB_WORDS - 1u] = scare_checksum(words, SCARE_LEARN_BYTES - WORD);
    __builtin_memcpy(blob, words, SCARE_LEARN_BYTES);
    return SCARE_OK;
}

scare_status scare_learn_restore(scare_learner *self, const void *blob, size_t bytes) {
    uint32_t words[BLOB_WORDS], size = SCARE_LEARN_BYTES;
    const float width = 1.0f;
    if (!self || !self->rules || !blob || bytes < SCARE_LEARN_BYTES - WORD) {
        return SCARE_ARGUMENT;
    }
    __builtin_memcpy(words, blob, WORD);
    if (words[0] == self->rules->arithmetic->mark - WITHOUT_WIDTH) {
        size -= WORD;
    } else if (words[0] != self->rules->arithmetic->mark || bytes < size) {
        return SCARE_ARGUMENT;
    }
    __builtin_memcpy(words, blob, size);
    if (words[size / WORD - 1u] != scare_checksum(words, size - WORD) || words[1] != self->rules->identity ||
        words[BLOB_WORDS - 4u] >= self->rules->round) {
        return SCARE_ARGUMENT;
    }
    if (size < SCARE_LEARN_BYTES) {
        __builtin_memcpy(&words[BLOB_WORDS - 2u], &width, WORD);
    }
    exchange(self, words, 0);
    return SCARE_OK;
}
