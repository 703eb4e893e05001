/* On-board learning during a co-location session: next to a reference, learn a small correction of calibrated values.
 *
 *     static scare_learner learner;
 *     scare_learn_init(&learner, &model_learning);
 *     scare_learn_restore(&learner, blob, sizeof blob);       …from flash, after a reset
 *     …
 *     if (scare_calibrate(&calibration, millis(), reading, &answer) == SCARE_OK) {
 *         const float calibrated = answer.value;
 *         scare_learn_correct(&learner, &calibration, &answer);
 *         use(answer.value, answer.low, answer.high);
 *         if (has_reference) {
 *             scare_learn_hold(&learner, &calibration, &answer, reference);
 *             if (scare_learn(&learner, &calibration, calibrated, reference) >= SCARE_LEARN_BETTER) {
 *                 scare_learn_store(&learner, blob, sizeof blob); …and write it to flash
 *             }
 *         }
 *     }
 *
 * Recursive least squares with forgetting. Every `round` pairs a candidate is fitted (the shadow). On the pairs of the
 * next round, which it has not seen, it must beat both the active correction and the shipped model before it becomes
 * active. If the shipped model is better again, the correction is reverted. scare_learn_hold makes intervals wider or
 * narrower, so that they keep their level. Nothing here is linked unless it is called.
 * The Python counterpart, equal in every bit, is scare/upkeep/learner.py. */
#ifndef SCARE_LEARN_H
#define SCARE_LEARN_H

#include "scare.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SCARE_LEARN_MOST 7u    /* coefficients: of the value, of the first five channels, the intercept */
#define SCARE_LEARN_PAIRS 28u  /* pairs of coefficients: second moments */
#define SCARE_LEARN_SUMS 3u    /* sums of squared errors in a round: shipped, active, candidate */
#define SCARE_LEARN_BYTES 248u /* size of a blob */

typedef enum {
    SCARE_LEARN_REFUSED = 0, /* not used: a number is missing, or the reference is too far away; nothing changed */
    SCARE_LEARN_TAKEN = 1,   /* the pair was used */
    SCARE_LEARN_BETTER = 2,  /* used, and the candidate became active */
    SCARE_LEARN_REVERTED = 3 /* used, and the correction was reverted, because the shipped model is better */
} scare_learned;

/* A float, or a word in fixed point. */
typedef union {
    float real;
    int32_t fixed;
} scare_number;

typedef union {
    float real;
    uint64_t fixed;
} scare_sum;

struct scare_learning;

/* Learner of one calibration. Its fields are private, except `taken`, the number of pairs used. */
typedef struct {
    const struct scare_learning *rules;
    scare_number moments[SCARE_LEARN_PAIRS], products[SCARE_LEARN_MOST], square;
    scare_number active[SCARE_LEARN_MOST], shadow[SCARE_LEARN_MOST];
    uint32_t in_round, taken;
    float width; /* of intervals, relative to the model's */
    scare_sum sums[SCARE_LEARN_SUMS];
} scare_learner;

/* The learner's arithmetic: float32 or fixed point. */
typedef struct {
    uint32_t mark; /* first word of a blob */
    int (*take)(scare_learner *self, const float *features, float residual);
    scare_learned (*judge)(const scare_learner *self);
    void (*propose)(scare_learner *self);
    float (*correct)(const scare_learner *self, const float *features);
} scare_learn_arithmetic;

extern const scare_learn_arithmetic scare_learn_f32, scare_learn_s32;

/* Settings of the learner, exported with a model. */
typedef struct scare_learning {
    const scare_learn_arithmetic *arithmetic;
    uint32_t numbers, memory_bits, round; /* coefficients; forgetting over 2^memory_bits pairs; pairs per round */
    uint32_t identity;                    /* of the calibrator: blobs of others are rejected */
    float prior[SCARE_LEARN_MOST];        /* ridge penalty of each coefficient */
    float wider, narrower;                /* factors of the width after a reference outside and inside */
} scare_learning;

/* Start with no correction. */
scare_status scare_learn_init(scare_learner *self, const scare_learning *rules);

/* Learn from a pair: the value that scare_push gave for the newest reading, and the reference value. */
scare_learned scare_learn(scare_learner *self, const scare *calibration, float calibrated, float reference);

/* The correction to add to the calibrated value of the newest reading and to both ends of its interval; 0 if none is
 * active. It never takes the value below the model's floor. */
float scare_learn_correction(const scare_learner *self, const scare *calibration, float calibrated);

/* Correct an answer of scare_calibrate: add the correction, and make the interval wider or narrower. */
void scare_learn_correct(const scare_learner *self, const scare *calibration, scare_answer *answer);

/* Hold the level of the intervals: a reference outside a corrected answer makes the next ones wider, one inside slightly
 * narrower, up to four times either way. In the long run as many references lie inside as the model's level says. A
 * reference below the model's floor counts as the floor. */
void scare_learn_hold(scare_learner *self, const scare *calibration, const scare_answer *corrected, float reference);

/* Return to the shipped model and its intervals; the statistics of the pairs are kept. */
void scare_learn_revert(scare_learner *self);

/* Write the state to a blob with a checksum, which the application stores; SCARE_MEMORY for fewer than SCARE_LEARN_BYTES
 * bytes. A blob that is damaged or of another calibrator is not restored (SCARE_ARGUMENT), and the learner stays as it
 * is. One of 244 bytes, from before there was a width, is restored with the width 1. */
scare_status scare_learn_store(const scare_learner *self, void *blob, size_t bytes);
scare_status scare_learn_restore(scare_learner *self, const void *blob, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
