/* Calibrated readings from a low-cost sensor: give one reading after the other, get the calibrated value of each.
 *
 *     static uint32_t memory[SCARE_WORDS(MODEL_BYTES)];
 *     scare calibration;
 *     scare_init(&calibration, &model, memory, sizeof memory);
 *     …
 *     if (scare_push(&calibration, millis(), reading, &calibrated) == SCARE_OK) use(calibrated);
 *
 * The caller owns all memory. Whatever the status is, `calibrated` is written: NaN unless it is SCARE_OK. */
#ifndef SCARE_H
#define SCARE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    SCARE_OK = 0,         /* there is a calibrated value */
    SCARE_HISTORY = 1,    /* too few readings yet, or a gap not long enough ago */
    SCARE_MISSING = 2,    /* a number of the reading is NaN or infinite, or stands for "no reading" */
    SCARE_RANGE = 3,      /* a number of the reading is outside the channel's valid range */
    SCARE_EARLY = 4,      /* less than half a step after the last reading, or up to a window before it: not used */
    SCARE_NOT_FINITE = 5, /* the model's result is not a number */
    SCARE_MEMORY = 6,     /* the memory given is too small or not aligned to a word */
    SCARE_ARGUMENT = 7    /* a null pointer, or not initialised */
} scare_status;

/* How one channel is read: valid from low to high; scaled value = ((x - center) - rest) * inverse. */
typedef struct {
    float low, high;
    float center, rest; /* center + rest is the center more precisely than one float can say */
    float inverse;
    float quantum; /* steps of the int16_t window for a scaled value of 1; 0 in float32 models */
} scare_channel;

/* The branch in use and for how many more windows, for models that choose one. */
typedef struct {
    uint32_t left;
    uint32_t deep;
} scare_choice;

typedef struct {
    uint32_t window, channels;
    uint32_t step_ms;               /* milliseconds from one reading to the next */
    uint32_t checked, needed, hold; /* of the newest `checked` rows, `needed` are real and none is held longer */
    const scare_channel *channel;   /* one for each channel */
    const float *absent;            /* numbers that stand for "no reading" */
    uint32_t absent_count;
    float target_scale, target_center;
    uint32_t integer;       /* 0: the window holds float, row after row; 1: int16_t, channel after channel */
    uint32_t scratch_bytes; /* that `run` needs */
    void (*run)(const void *window, void *scratch, scare_choice *choice, float *scaled);
} scare_model;

/* One device's calibration. Its fields are private. */
typedef struct {
    const scare_model *model;
    void *window;
    uint32_t *real; /* one bit for each checked row: was it real? */
    void *scratch;
    uint32_t last_ms, timed;      /* time of the last reading used; whether there was one */
    uint32_t filled;              /* whether there was a real row, so that the window holds numbers */
    uint32_t next_bit, real_bits; /* where the next bit goes; how many are set */
    uint32_t age, unbroken;       /* rows since the last real one; rows since one was held too long */
    scare_choice choice;
} scare;

/* Bytes of a model's memory are a constant of its header; an array of words is aligned well. */
#define SCARE_WORDS(bytes) (((bytes) + 3u) / 4u)

/* Prepare an empty calibration in `memory`, of at least the model's bytes. */
scare_status scare_init(scare *self, const scare_model *model, void *memory, size_t bytes);

/* Forget all readings. */
scare_status scare_reset(scare *self);

/* Take the reading (one number for each channel) of time `now_ms`, which may wrap around. Of several numbers that
 * cannot be used the first decides the status. A reading more than a window before the last one used, or more than
 * 2^31 ms (24 days) after it, which looks the same, begins anew as after scare_reset. */
scare_status scare_push(scare *self, uint32_t now_ms, const float *reading, float *calibrated);

/* What a status means, in a few words. */
const char *scare_explain(scare_status status);

#ifdef __cplusplus
}
#endif

#endif
