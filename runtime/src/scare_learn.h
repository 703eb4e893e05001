/* Learning from a visit: beside a reference, a few numbers are learned that make calibrated values nearer to it.
 *
 *     static scare_learner learner;
 *     scare_learn_init(&learner, &model_learning);
 *     scare_learn_restore(&learner, blob, sizeof blob);       …what was stored before power was lost
 *     …
 *     if (scare_push(&calibration, millis(), reading, &calibrated) == SCARE_OK) {
 *         if (beside_reference && scare_learn(&learner, &calibration, calibrated, reference) >= SCARE_LEARN_BETTER) {
 *             scare_learn_store(&learner, blob, sizeof blob); …and write it where it survives
 *         }
 *         use(calibrated + scare_learn_correction(&learner, &calibration, calibrated));
 *     }
 *
 * Recursive least squares with forgetting. A candidate is made every `round` pairs and kept in the shadow; on the pairs
 * of the next round, which it has not seen, it must beat what holds and what was shipped before it takes over. If what
 * was shipped is better again, it holds again. Nothing here is compiled in unless it is called. Its twin in Python, equal
 * in every bit, is scare/upkeep/learner.py. */
#ifndef SCARE_LEARN_H
#define SCARE_LEARN_H

#include "scare.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SCARE_LEARN_MOST 7u    /* numbers: of the value, of the first five channels, of 1 */
#define SCARE_LEARN_PAIRS 28u  /* of them */
#define SCARE_LEARN_SUMS 3u    /* squared errors of a round: as shipped, as it holds, of the candidate */
#define SCARE_LEARN_BYTES 244u /* of a blob */

typedef enum {
    SCARE_LEARN_REFUSED = 0, /* no pair: a number is missing, or the reference much too far away; nothing changed */
    SCARE_LEARN_TAKEN = 1,   /* remembered */
    SCARE_LEARN_BETTER = 2,  /* and the candidate has taken over */
    SCARE_LEARN_REVERTED = 3 /* and what was shipped holds again, because it was better */
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

/* What is learned of one calibration. Its fields are private, but for `taken`, the pairs there were. */
typedef struct {
    const struct scare_learning *rules;
    scare_number moments[SCARE_LEARN_PAIRS], products[SCARE_LEARN_MOST], square;
    scare_number active[SCARE_LEARN_MOST], shadow[SCARE_LEARN_MOST];
    uint32_t in_round, taken;
    scare_sum sums[SCARE_LEARN_SUMS];
} scare_learner;

/* How pairs are reckoned with: in float32 or in fixed point. */
typedef struct {
    uint32_t mark; /* that blobs begin with */
    int (*take)(scare_learner *self, const float *features, float residual);
    scare_learned (*judge)(const scare_learner *self);
    void (*propose)(scare_learner *self);
    float (*correct)(const scare_learner *self, const float *features);
} scare_learn_arithmetic;

extern const scare_learn_arithmetic scare_learn_f32, scare_learn_s32;

/* The rules for a model, beside which they are exported. */
typedef struct scare_learning {
    const scare_learn_arithmetic *arithmetic;
    uint32_t numbers, memory_bits, round; /* 2^memory_bits pairs are remembered, `round` pairs judge a candidate */
    uint32_t identity;                    /* of the calibrator: blobs of others are refused */
    float prior[SCARE_LEARN_MOST];        /* what pairs have to outweigh */
} scare_learning;

/* Begin with nothing learned. */
scare_status scare_learn_init(scare_learner *self, const scare_learning *rules);

/* Take a pair: what scare_push gave for the newest reading of a calibration, and what the reference says. */
scare_learned scare_learn(scare_learner *self, const scare *calibration, float calibrated, float reference);

/* What to add to the calibrated value of the newest reading, and to both ends of its interval; 0 if nothing holds. The
 * value does not fall below the model's floor by it. */
float scare_learn_correction(const scare_learner *self, const scare *calibration, float calibrated);

/* What was shipped holds again; what is remembered of the pairs stays. */
void scare_learn_revert(scare_learner *self);

/* The state as a blob with a checksum, to be kept by the application; SCARE_MEMORY if there are less than
 * SCARE_LEARN_BYTES. A blob that is damaged or of another calibrator is not restored (SCARE_ARGUMENT), and the learner
 * stays as it is. */
scare_status scare_learn_store(const scare_learner *self, void *blob, size_t bytes);
scare_status scare_learn_restore(scare_learner *self, const void *blob, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
