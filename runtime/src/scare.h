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

/* 1: also set SCARE_FLAG_STUCK and SCARE_FLAG_SPIKE, for 16 more bytes per channel. Must be the same in all sources. */
#ifndef SCARE_PAST
#define SCARE_PAST 0
#endif

/* 1: also take models for devices that were not in training, which settle: until a device has had `settle` readings,
 * its rows have SCARE_FLAG_UNSETTLED; then the centers of its channels move towards its own means. The exporter sets it
 * for such models. Must be the same in all sources. */
#ifndef SCARE_SETTLE
#define SCARE_SETTLE 0
#endif

typedef enum {
    SCARE_OK = 0,         /* the answer has a calibrated value */
    SCARE_HISTORY = 1,    /* too few readings so far or since a gap */
    SCARE_MISSING = 2,    /* a number of the reading is NaN or infinite, or stands for "no reading" */
    SCARE_RANGE = 3,      /* a number of the reading is outside the channel's valid range */
    SCARE_EARLY = 4,      /* less than half a step after the last reading, or up to a window before it: not used */
    SCARE_NOT_FINITE = 5, /* the model's result is not a number */
    SCARE_MEMORY = 6,     /* the memory given is too small or not aligned to a word */
    SCARE_ARGUMENT = 7,   /* a null pointer, or not initialised */
    SCARE_DAMAGED = 8,    /* the blob is damaged or cut short */
    SCARE_FOREIGN = 9,    /* the blob is of another model, or of another version of this code */
    SCARE_WRONG = 10,     /* the self-test failed: a result differs from the one stored with the model */
    SCARE_UNSIGNED = 11,  /* the blob has no signature that was made with the owner's key */
    SCARE_OLDER = 12      /* the blob was signed before the one in use */
} scare_status;

/* Row flags: bits of `flags`, the same as in Python (docs/flags.md). */
enum {
    SCARE_FLAG_RANGE = 1 << 0,
    SCARE_FLAG_STUCK = 1 << 2, /* only where SCARE_PAST is 1 */
    SCARE_FLAG_SPIKE = 1 << 3, /* only where SCARE_PAST is 1 */
    SCARE_FLAG_MISSING = 1 << 8,
    SCARE_FLAG_EARLY = 1 << 9,
    SCARE_FLAG_HISTORY = 1 << 10,
    SCARE_FLAG_UNSETTLED = 1 << 11, /* only where SCARE_SETTLE is 1 */
    SCARE_FLAG_RESTART = 1 << 12,
    SCARE_FLAG_OUTSIDE = 1 << 13, /* outside the training range: extrapolated linearly */
    SCARE_FLAG_NOT_FINITE = 1 << 14
};

/* A calibrated value, the ends of its prediction interval, and the flags of its row. Without a value all three are NaN;
 * a model without intervals leaves low and high NaN. */
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
    float center, rest; /* the center is center + rest, which is more precise than one float */
    float inverse;
    float quantum;              /* steps of the int16_t window for a scaled value of 1; 0 in float32 models */
    scare_range clamp, trained; /* of scaled values: the window clamps them; training range */
} scare_channel;

/* Distances below and above a value, by its band: the number of edges at or below the value. */
#define SCARE_BANDS 8
typedef struct {
    float edge[SCARE_BANDS - 1], below[SCARE_BANDS], above[SCARE_BANDS];
    float widening; /* factor of both distances for flagged rows (spike, outside) */
} scare_interval;

/* For models with two branches: the branch in use, and for how many more windows. */
typedef struct {
    uint32_t left;
    uint32_t deep;
} scare_choice;

/* A channel whose center moves by (weight + rest) * the sum of `settle` differences between readings and center. The
 * weight has 12 bits, the rest is what they cut off. */
typedef struct {
    uint32_t channel;
    float weight, rest;
} scare_moving;

/* A number more precise than one float: high + low. */
typedef struct {
    float high, low;
} scare_two_floats;

typedef struct scare_model {
    uint32_t window, channels;
    uint32_t step_ms;               /* milliseconds from one reading to the next */
    uint32_t checked, needed, hold; /* of the newest `checked` rows `needed` must be real; `hold`: longest gap filled */
    const scare_channel *channel;   /* [channels] */
    const float *absent;            /* sentinels: numbers that mean "no reading" */
    uint32_t absent_count;
    float target_scale, target_center;
    float floor;                    /* lower bound of calibrated values */
    const scare_interval *interval; /* NULL: no intervals */
    const float *whitening;      /* per channel: an offset, then a row of a lower triangle; NULL: no training range */
    float limit, slow_limit;     /* of the squared Mahalanobis distance to training, and of its slow mean */
    float rising, lowest, slope; /* channel-0 value from which `lowest` applies; output per unit beyond the clamp */
    uint32_t stride; /* 0: the window holds float, row after row; else int16_t, channel after channel, each this many
                        numbers after the one before: an even number, so that channels begin on a word boundary */
    uint32_t scratch_bytes; /* memory that `run` needs, at least one row */
    void (*run)(const void *window, void *scratch, scare_choice *choice, float *scaled, const struct scare_model *self);
    uint32_t identity; /* a checksum of the model: blobs of others are not restored */
#if SCARE_PAST
    int32_t stuck_rows;        /* equal readings, after the first, that count as stuck */
    float spike_share;         /* weight of the newest change in the limit above which a change is a spike */
    const float *spike_floors; /* [channels], added to that limit */
#endif
#if SCARE_SETTLE
    uint32_t settle;            /* readings until a new device has settled; 0: the device was in training */
    const scare_moving *moving; /* [moving_count] */
    uint32_t moving_count;
#endif
} scare_model;

/* What scare_self_test checks: seeds of windows, and the scaled result of each. */
typedef struct {
    uint32_t seed;
    float result;
} scare_vector;

typedef struct {
    const scare_vector *vector; /* [count] */
    uint32_t count;
    float tolerance; /* of scaled results */
} scare_golden;

/* State of a channel for SCARE_PAST, stored before the window in reverse order: channel 0 is next to the window. */
typedef struct {
    int32_t left;            /* rows until the channel counts as stuck */
    float last, most, floor; /* last reading; largest change that is no spike; the channel's spike_floors */
} scare_past;

#define SCARE_PAST_BYTES(channels) (SCARE_PAST * (channels) * sizeof(scare_past))

/* Settling begins the memory given to scare_init: the number of readings, a pair for each channel that moves (the sum of
 * differences, later the center), then these channels' readings in the window. */
/* One device's calibration. Its fields are private. */
typedef struct {
    const scare_model *model;
    void *window;
    uint32_t *real; /* one bit for each checked row: 1 for a reading, 0 for a filled row */
    void *scratch;
    uint32_t last_ms, timed;      /* time of the last reading used; whether there was one */
    uint32_t filled;              /* whether there was a reading, so that the window holds numbers */
    uint32_t next_bit, real_bits; /* where the next bit goes; how many are set */
    uint32_t age, unbroken;       /* rows since the last reading; rows since a gap longer than `hold` */
    scare_choice choice;
    float slow; /* exponential mean of the squared distance to training, over about a window */
#if SCARE_SETTLE
    uint32_t *settled;        /* number of readings, up to `settle` */
    scare_two_floats *center; /* of each channel that moves; until it has settled, the sum of its differences */
    float *readings;          /* [window][moving_count], a ring, while it settles */
    uint32_t next_row;        /* where the next row of the ring goes */
#endif
} scare;

/* The header of a model defines how many bytes it needs; an array of words has the right alignment. */
#define SCARE_WORDS(bytes) (((bytes) + 3u) / 4u)

/* Prepare an empty calibration in `memory`, which has at least the model's bytes. */
scare_status scare_init(scare *self, const scare_model *model, void *memory, size_t bytes);

/* Forget all readings. What settling has found stays, until scare_init. */
scare_status scare_reset(scare *self);

/* Calibrate the reading (one number for each channel) of time `now_ms`, which may wrap around. If several channels are
 * unusable, the first of them decides the status and its flags. A reading more than a window before the last one used,
 * or more than 2^31 ms (24 days) after it, which looks the same, starts anew as after scare_reset. */
scare_status scare_calibrate(scare *self, uint32_t now_ms, const float *reading, scare_answer *answer);

/* Like scare_calibrate, for the value alone. */
scare_status scare_push(scare *self, uint32_t now_ms, const float *reading, float *calibrated);

/* Store the state in a blob, which the application keeps where it survives: window, gaps, settling, time of the last
 * reading. `clock_ms` is now, on a clock that counts on while the device is off; its low 32 bits are scare_calibrate's
 * `now_ms`. In MODEL_STORE_BYTES the blob is exact. In fewer, from MODEL_STORE_ROUNDED_BYTES on, all readings but the
 * newest 8 are rounded to 8 bits if it does not fit otherwise. */
scare_status scare_store(const scare *self, uint64_t clock_ms, void *blob, size_t bytes);

/* Continue after scare_init with a stored state; `bytes` may be more than the blob has. If the last reading was more
 * than 2^31 ms (24 days) before `clock_ms`, or after it, only what settling has found is restored. A blob that is
 * damaged, cut short or foreign is not restored, and the state stays as it is. */
scare_status scare_restore(scare *self, uint64_t clock_ms, const void *blob, size_t bytes);

/* Whether the model computes on this board what it did when it was exported: SCARE_OK, or SCARE_WRONG. It takes a few
 * runs and the memory of the window, so call it after scare_init, before scare_restore. */
scare_status scare_self_test(scare *self, const scare_golden *golden);

/* CRC-32, as zlib's. */
uint32_t scare_checksum(const void *content, size_t bytes);

/* How far a reading lies beyond training, in ranges that its channel had there: 0 if no channel does. `channel` is set to
 * the one that lies farthest out; it may be NULL. A row of SCARE_FLAG_OUTSIDE with 0 has channels that do not go
 * together. */
float scare_outside(const scare *self, const float *reading, uint32_t *channel);

/* A short English text for a status. */
const char *scare_explain(scare_status status);

#ifdef __cplusplus
}
#endif

#endif
