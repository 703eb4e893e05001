/* The state of a calibration as a blob: a head, one bit for each checked row, the past, settling, the window from its
 * oldest row to its newest, a checksum. Numbers are as the processor stores them. */
#include "scare_port.h"
#include "scare_window.h"

#define POLYNOMIAL 0xedb88320u
#define VERSION 1u
#define MARK (0x53430000u | VERSION << 8 | SCARE_SETTLE << 1 | SCARE_PAST) /* "SC" */
#define EXACT_ROWS 8u                                                      /* newest rows, never rounded */
#define MOST_STEPS 255.0f                                                  /* of a rounded number */

/* What a blob says: there was a reading; the window holds numbers; the device has not settled; numbers are rounded; the
 * branch in use is the deep one. */
enum { TIMED = 1u, FILLED = 2u, UNSETTLED = 4u, ROUNDED = 8u, DEEP = 16u };

typedef struct {
    uint32_t mark, identity, bytes; /* of the whole blob */
    uint32_t is;
    uint32_t last_low, last_high; /* time of the last reading used */
    uint32_t age, unbroken, next_bit, left, settled;
    float slow;
} state_head;

/* How a channel is rounded to bytes. */
typedef struct {
    float low, step;
} blob_scale;

SCARE_SMALL unsigned char *copy(void *to, const void *from, size_t bytes) {
    unsigned char *at = to;
    const unsigned char *source = from;
    SCARE_ROLLED
    for (size_t i = 0u; i < bytes; i++) {
        at[i] = source[i];
    }
    return at + bytes;
}

SCARE_COMPACT uint32_t scare_checksum(const void *content, size_t bytes) {
    const unsigned char *at = content;
    uint32_t crc = 0xffffffffu;
    SCARE_ROLLED
    for (size_t i = 0u; i < bytes; i++) {
        crc ^= at[i];
        SCARE_ROLLED
        for (uint32_t bit = 0u; bit < 8u; bit++) {
            crc = (crc >> 1) ^ (POLYNOMIAL & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}

/* Bytes of the parts before the window. */
SCARE_SMALL size_t real_bytes(const scare_model *model) {
    return (model->checked + 31u) / 32u * sizeof(uint32_t);
}

SCARE_SMALL size_t past_bytes(const scare_model *model) {
    return SCARE_PAST * model->channels * sizeof(scare_past);
}

SCARE_SMALL size_t center_bytes(const scare_model *model) {
#if SCARE_SETTLE
    return model->settle ? model->moving_count * sizeof(scare_two_floats) : 0u;
#else
    (void)model;
    return 0u;
#endif
}

SCARE_SMALL uint32_t rounded_rows(const scare_model *model, uint32_t is) {
    return (is & ROUNDED) && model->window > EXACT_ROWS ? model->window - EXACT_ROWS : 0u;
}

/* Where the reading of a channel is that moves and has not settled, and so is stored as it came; NULL for others. */
SCARE_SMALL float *reading_at(const scare *self, uint32_t channel, uint32_t row, uint32_t is) {
#if SCARE_SETTLE
    const scare_model *model = self->model;
    uint32_t place = self->next_row + row < model->window ? self->next_row + row : self->next_row + row - model->window;
    SCARE_ROLLED
    for (uint32_t m = 0u; (is & UNSETTLED) && m < model->moving_count; m++) {
        if (model->moving[m].channel == channel) {
            return self->readings + place * model->moving_count + m;
        }
    }
#else
    (void)self;
    (void)channel;
    (void)row;
    (void)is;
#endif
    return NULL;
}

/* Whether the numbers of a channel are steps of 16 bits, where they are not rounded. */
SCARE_SMALL int is_short(const scare *self, uint32_t channel, uint32_t is) {
    return self->model->stride && !reading_at(self, channel, 0u, is);
}

SCARE_SMALL float number_at(const scare *self, uint32_t channel, uint32_t row, uint32_t is) {
    const float *reading = reading_at(self, channel, row, is);
    return reading ? *reading : scare_window_number(self, channel, row);
}

SCARE_SMALL size_t blob_bytes(const scare *self, uint32_t is) {
    const scare_model *model = self->model;
    uint32_t rounded = rounded_rows(model, is);
    size_t bytes = sizeof(state_head) + real_bytes(model) + past_bytes(model) + center_bytes(model) + sizeof(uint32_t);
    SCARE_ROLLED
    for (uint32_t c = 0u; (is & FILLED) && c < model->channels; c++) {
        bytes += (model->window - rounded) * (is_short(self, c, is) ? sizeof(int16_t) : sizeof(float));
        bytes += rounded ? sizeof(blob_scale) + rounded : 0u;
    }
    return bytes;
}

/* Round the first rows of a channel to bytes. Each error is carried on to the next row, so means over rows stay near. */
SCARE_SMALL void round_channel(const scare *self, uint32_t channel, uint32_t is, unsigned char *scales,
                               unsigned char *at) {
    float low = number_at(self, channel, 0u, is), high = low, carried = 0.0f;
    uint32_t rows = rounded_rows(self->model, is);
    blob_scale scale;
    SCARE_ROLLED
    for (uint32_t row = 1u; row < rows; row++) {
        float number = number_at(self, channel, row, is);
        low = number < low ? number : low;
        high = number > high ? number : high;
    }
    scale.low = low;
    scale.step = (high - low) / MOST_STEPS;
    (void)copy(scales + channel * sizeof scale, &scale, sizeof scale);
    SCARE_ROLLED
    for (uint32_t row = 0u; row < rows; row++) {
        float wanted = number_at(self, channel, row, is) - low + carried;
        float steps = scale.step > 0.0f ? wanted / scale.step + 0.5f : 0.0f;
        steps = steps < MOST_STEPS ? steps : MOST_STEPS;
        at[row] = (unsigned char)(steps > 0.0f ? steps : 0.0f);
        carried = wanted - (float)at[row] * scale.step;
    }
}

SCARE_SMALL unsigned char *store_window(const scare *self, uint32_t is, unsigned char *at) {
    const scare_model *model = self->model;
    uint32_t rounded = rounded_rows(model, is);
    if (rounded) {
        unsigned char *scales = at;
        at += model->channels * sizeof(blob_scale);
        SCARE_ROLLED
        for (uint32_t c = 0u; c < model->channels; c++, at += rounded) {
            round_channel(self, c, is, scales, at);
        }
    }
    SCARE_ROLLED
    for (uint32_t row = rounded; row < model->window; row++) {
        SCARE_ROLLED
        for (uint32_t c = 0u; c < model->channels; c++) {
            float number = number_at(self, c, row, is);
            if (is_short(self, c, is)) {
                float steps = number * model->channel[c].quantum;
                int16_t whole = (int16_t)(steps + (steps < 0.0f ? -0.5f : 0.5f));
                at = copy(at, &whole, sizeof whole);
            } else {
                at = copy(at, &number, sizeof number);
            }
        }
    }
    return at;
}

/* Read a number that is not rounded, and return where the next one is. */
SCARE_SMALL const unsigned char *read_number(const scare *self, uint32_t channel, uint32_t is, const unsigned char *at,
                                             float *number) {
    if (is_short(self, channel, is)) {
        int16_t steps;
        (void)copy(&steps, at, sizeof steps);
        *number = (float)steps / self->model->channel[channel].quantum;
        return at + sizeof steps;
    }
    (void)copy(number, at, sizeof *number);
    return at + sizeof *number;
}

/* Add the rows of a blob to the window one after the other. */
SCARE_SMALL const unsigned char *restore_window(scare *self, uint32_t is, const unsigned char *at) {
    const scare_model *model = self->model;
    uint32_t rounded = rounded_rows(model, is);
    const unsigned char *scales = at, *bytes = at + model->channels * sizeof(blob_scale);
    float *row = self->scratch;
    at = rounded ? bytes + rounded * model->channels : at;
    SCARE_ROLLED
    for (uint32_t i = 0u; i < model->window; i++) {
        SCARE_ROLLED
        for (uint32_t c = 0u; c < model->channels; c++) {
            float *reading = reading_at(self, c, i, is);
            if (i < rounded) {
                blob_scale scale;
                (void)copy(&scale, scales + c * sizeof scale, sizeof scale);
                row[c] = scale.low + (float)bytes[c * rounded + i] * scale.step;
            } else {
                at = read_number(self, c, is, at, &row[c]);
            }
            if (reading) {
                const scare_channel *channel = &model->channel[c];
                float scaled = ((row[c] - channel->center) - channel->rest) * channel->inverse;
                *reading = row[c];
                scaled = scaled > channel->clamp.low ? scaled : channel->clamp.low;
                row[c] = scaled < channel->clamp.high ? scaled : channel->clamp.high;
            }
        }
        scare_window_add(self, row);
    }
    return at;
}

/* Take over a blob that is valid. */
SCARE_SMALL void restore(scare *self, const state_head *head, const unsigned char *at) {
    const scare_model *model = self->model;
    (void)copy(self->real, at, real_bytes(model));
    at += real_bytes(model);
#if SCARE_PAST
    (void)copy((scare_past *)self->window - model->channels, at, past_bytes(model));
    at += past_bytes(model);
#endif
#if SCARE_SETTLE
    self->next_row = 0u;
    *self->settled = head->settled;
    (void)copy(self->center, at, center_bytes(model));
    at += center_bytes(model);
#endif
    if (head->is & FILLED) {
        (void)restore_window(self, head->is, at);
    }
    self->last_ms = head->last_low;
    self->timed = head->is & TIMED ? 1u : 0u;
    self->filled = head->is & FILLED ? 1u : 0u;
    self->next_bit = head->next_bit;
    self->real_bits = 0u;
    SCARE_ROLLED
    for (uint32_t bit = 0u; bit < model->checked; bit++) {
        self->real_bits += (self->real[bit / 32u] >> bit % 32u) & 1u;
    }
    self->age = head->age;
    self->unbroken = head->unbroken;
    self->choice.left = head->left;
    self->choice.deep = head->is & DEEP ? 1u : 0u;
    self->slow = head->slow;
}

SCARE_COMPACT scare_status scare_store(const scare *self, uint64_t clock_ms, void *blob, size_t bytes) {
    state_head head;
    unsigned char *at;
    uint64_t last_ms;
    uint32_t crc;
    if (!self || !self->model || !blob) {
        return SCARE_ARGUMENT;
    }
    head.settled = 0u;
    head.is = (self->timed ? TIMED : 0u) | (self->filled ? FILLED : 0u) | (self->choice.deep ? DEEP : 0u);
#if SCARE_SETTLE
    head.settled = *self->settled;
    head.is |= head.settled < self->model->settle ? UNSETTLED : 0u;
#endif
    head.is |= blob_bytes(self, head.is) > bytes ? ROUNDED : 0u;
    if (blob_bytes(self, head.is) > bytes) {
        return SCARE_MEMORY;
    }
    last_ms = clock_ms - (uint64_t)(int64_t)(int32_t)((uint32_t)clock_ms - self->last_ms);
    head.mark = MARK;
    head.identity = self->model->identity;
    head.bytes = (uint32_t)blob_bytes(self, head.is);
    head.last_low = (uint32_t)last_ms;
    head.last_high = (uint32_t)(last_ms >> 32);
    head.age = self->age;
    head.unbroken = self->unbroken;
    head.next_bit = self->next_bit;
    head.left = self->choice.left;
    head.slow = self->slow;
    at = copy(blob, &head, sizeof head);
    at = copy(at, self->real, real_bytes(self->model));
#if SCARE_PAST
    at = copy(at, (const scare_past *)self->window - self->model->channels, past_bytes(self->model));
#endif
#if SCARE_SETTLE
    at = copy(at, self->center, center_bytes(self->model));
#endif
    if (head.is & FILLED) {
        at = store_window(self, head.is, at);
    }
    crc = scare_checksum(blob, head.bytes - sizeof crc);
    (void)copy(at, &crc, sizeof crc);
    return SCARE_OK;
}

SCARE_COMPACT scare_status scare_restore(scare *self, uint64_t clock_ms, const void *blob, size_t bytes) {
    const unsigned char *content = blob;
    state_head head;
    uint32_t crc;
    if (!self || !self->model || !blob) {
        return SCARE_ARGUMENT;
    }
    if (bytes < sizeof head) {
        return SCARE_DAMAGED;
    }
    (void)copy(&head, content, sizeof head);
    if (head.bytes > bytes || head.bytes < sizeof head + sizeof crc) {
        return SCARE_DAMAGED;
    }
    (void)copy(&crc, content + head.bytes - sizeof crc, sizeof crc);
    if (crc != scare_checksum(content, head.bytes - sizeof crc)) {
        return SCARE_DAMAGED;
    }
    if (head.mark != MARK || head.identity != self->model->identity) {
        return SCARE_FOREIGN;
    }
    if (head.bytes != blob_bytes(self, head.is) || head.next_bit >= self->model->checked) {
        return SCARE_DAMAGED;
    }
    restore(self, &head, content + sizeof head);
    if (clock_ms - ((uint64_t)head.last_high << 32 | head.last_low) + 0x80000000u > UINT32_MAX) {
        return scare_reset(self);
    }
    return SCARE_OK;
}
