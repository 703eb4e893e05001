/* A calibration that learns, for tests: on this computer and on a virtual board. */
#include MODEL_HEADER
#include "model_learning.h"

static uint32_t memory[SCARE_WORDS(MODEL_BYTES)];
static scare calibration;
static scare_learner learner;
static scare_answer answer;

int learning_begin(void);
int learning_push(uint32_t now_ms, const float *reading, float *result);
int learning_learn(float reference, const float *result);
void learning_hold(float reference);
void learning_correct(void);
int learning_store(void *blob);
int learning_restore(const void *blob, uint32_t bytes);
void learning_revert(void);
uint32_t learning_bytes(void);

int learning_begin(void) {
    return (int)scare_init(&calibration, &model, memory, sizeof memory) +
           (int)scare_learn_init(&learner, &model_learning);
}

/* The result is the calibrated value, what is to be added to it, and the ends of the corrected interval. */
int learning_push(uint32_t now_ms, const float *reading, float *result) {
    int status = (int)scare_calibrate(&calibration, now_ms, reading, &answer);
    result[0] = answer.value;
    result[1] = scare_learn_correction(&learner, &calibration, result[0]);
    scare_learn_correct(&learner, &calibration, &answer);
    result[2] = answer.low;
    result[3] = answer.high;
    return status;
}

int learning_learn(float reference, const float *result) {
    scare_learn_hold(&learner, &calibration, &answer, reference);
    return (int)scare_learn(&learner, &calibration, result[0], reference);
}

void learning_hold(float reference) {
    scare_learn_hold(&learner, &calibration, &answer, reference);
}

void learning_correct(void) {
    scare_learn_correct(&learner, &calibration, &answer);
}

int learning_store(void *blob) {
    return (int)scare_learn_store(&learner, blob, SCARE_LEARN_BYTES);
}

int learning_restore(const void *blob, uint32_t bytes) {
    return (int)scare_learn_restore(&learner, blob, bytes);
}

void learning_revert(void) {
    scare_learn_revert(&learner);
}

uint32_t learning_bytes(void) {
    return (uint32_t)sizeof learner;
}

int main(void) {
    return learning_begin();
}
