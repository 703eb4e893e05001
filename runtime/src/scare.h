/* Calibrated readings from a low-cost sensor: give one reading after the other, get the calibrated value of each.
 *
 *     static uint32_t memory[SCARE_WORDS(MODEL_BYTES)];
 *     scare calibration;
 *     scare_init(&calibration, &model, memory, sizeof memory);
 *     …
 *     if (scare_calibrate(&calibration, millis(), reading, &answer) == SCARE_OK) use(answer.value, answer.low, answer.high);
 *
 * The caller owns all memory. Whatever the status is, the answer is written: NaN unless it is SCARE_OK. */
#ifndef SCARE_H
#define SCARE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 1: tell SCARE_FLAG_STUCK and SCARE_FLAG_SPIKE too, with 16 bytes more for each channel. The same for all sources. */
#ifndef SCARE_PAST
#define SCARE_PAST 0
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

/* What is to be said of a row: bits of `flags`, the same as in Python (docs/flags.md). */
enum {
    SCARE_FLAG_RANGE = 1 << 0,
    SCARE_FLAG_STUCK = 1 << 2, /* only where SCARE_PAST is 1 */
    SCARE_FLAG_SPIKE = 1 << 3, /* only where SCARE_PAST is 1 */
    SCARE_FLAG_MISSING = 1 << 8,
    SCARE_FLAG_EARLY = 1 << 9,
    SCARE_FLAG_HISTORY = 1 << 10,
    SCARE_FLAG_RESTART = 1 << 12,
    SCARE_FLAG_OUTSIDE = 1 << 13, /* beyond what training had: the value goes on by a line */
    SCARE_FLAG_NOT_FINITE = 1 << 14
};

/* A calibrated value, the interval in which the truth lies as often as the model says, and the flags of its row. Without
 * a value all three are NaN; a model without intervals has none of them. */
typedef struct {
    float value, low, high;
    uint32_t flags;
} scare_answer;

typedef struct {
    float low, high;
} scare_range;

/* How one channel is read: scaled value = ((x - center) - rest) * inverse. */
typedef struct {
    scare_range valid;  /* readings */
    float center, rest; /* center + rest is the center more precisely than one float can say */
    float inverse;
    float quantum;              /* steps of the int16_t window for a scaled value of 1; 0 in float32 models */
    scare_range clamp, trained; /* of scaled values: the window clamps them; training range */
} scare_channel;

/* Distances below and above a value, by its band: the number of edges that are not above it. */
#define SCARE_BANDS 8
typedef struct {
    float edge[SCARE_BANDS - 1], below[SCARE_BANDS], above[SCARE_BANDS];
    float widening; /* of both, in rows that are less sure */
} scare_interval;

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
    float floor;                    /* no value is below it */
    const scare_interval *interval; /* NULL: it does not say how sure it is */
    const float *whitening;         /* a constant and a line of a lower triangle, each; NULL: training is not known */
    float limit, slow_limit;        /* of squared distances to training, and of their slow mean */
    float rising, lowest, slope;    /* from this first number on none is lower; of a scaled value for 1 not held */
    uint32_t integer;               /* 0: the window holds float, row after row; 1: int16_t, channel after channel */
    uint32_t scratch_bytes;         /* that `run` needs, and one row */
    void (*run)(const void *window, void *scratch, scare_choice *choice, float *scaled);
#if SCARE_PAST
    int32_t stuck_rows;        /* alike, after the first */
    float spike_share;         /* of a change, in what a spike is more than */
    const float *spike_floors; /* of each channel, on top of it */
#endif
} scare_model;

/* What is remembered of a channel's readings, in memory before the window, the first channel next to it. */
typedef struct {
    int32_t left;            /* rows until it is stuck */
    float last, most, floor; /* the last one; the most that is no spike; one of spike_floors */
} scare_past;

#define SCARE_PAST_BYTES(channels) (SCARE_PAST * (channels) * sizeof(scare_past))

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
    float slow; /* mean of the squared distances to training, which forgets in about a window */
} scare;

/* Bytes of a model's memory are a constant of its header; an array of words is aligned well. */
#define SCARE_WORDS(bytes) (((bytes) + 3u) / 4u)

/* Prepare an empty calibration in `memory`, of at least the model's bytes. */
scare_status scare_init(scare *self, const scare_model *model, void *memory, size_t bytes);

/* Forget all readings. */
scare_status scare_reset(scare *self);

/* Take the reading (one number for each channel) of time `now_ms`, which may wrap around. Of several numbers that
 * cannot be used the first decides the status and its flags. A reading more than a window before the last one used, or
 * more than 2^31 ms (24 days) after it, which looks the same, begins anew as after scare_reset. */
scare_status scare_calibrate(scare *self, uint32_t now_ms, const float *reading, scare_answer *answer);

/* The same for those who ask for the value alone. */
scare_status scare_push(scare *self, uint32_t now_ms, const float *reading, float *calibrated);

/* What a status means, in a few words. */
const char *scare_explain(scare_status status);

#ifdef __cplusplus
}
#endif

#endif
