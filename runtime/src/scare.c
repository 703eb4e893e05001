/* From readings to windows to calibrated values. The rules are those of scare/windowing/live_windows.py,
 * scare/windowing/training_range.py and scare/data/flags.py; tests compare both.
 * Gaps are handled only here and in the board's glue code (which readings it passes on); kernels keep no state. */
#include "scare_port.h"
#include "scare_window.h"

#define WORD_BITS 32u
#define LARGEST 3.4e38f                /* limit that no reading exceeds */
#define PAST_ROWS 16.0f                /* decay length, in rows, of the usual change that a spike is compared with */
#define KEPT (1.0f - 1.0f / PAST_ROWS) /* share of that usual change that the next row keeps */
/* Flags of rows with wider intervals. */
#if SCARE_SETTLE
#define LESS_SURE (SCARE_FLAG_SPIKE | SCARE_FLAG_OUTSIDE | SCARE_FLAG_UNSETTLED)
#else
#define LESS_SURE (SCARE_FLAG_SPIKE | SCARE_FLAG_OUTSIDE)
#endif

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* Sizes of parts of the memory given to scare_init, in words. */
static uint32_t window_words(const scare_model *model) {
    uint32_t channel_bytes = (uint32_t)(model->window * sizeof(float));
    return SCARE_WORDS(model->channels * (model->stride ? model->stride * (uint32_t)sizeof(int16_t) : channel_bytes));
}

static uint32_t real_words(const scare_model *model) {
    return (model->checked + WORD_BITS - 1u) / WORD_BITS;
}

static uint32_t bits_of(float number) {
    uint32_t bits;
    __builtin_memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* By bits, not by comparing: with -ffast-math a compiler assumes that every number is finite. */
static int is_finite(float number) {
    return (bits_of(number) & 0x7f800000u) != 0x7f800000u;
}

/* Rows from one reading to the next: elapsed / step, halves rounded up; 0 means too early. */
static uint32_t rows_between(uint32_t elapsed_ms, uint32_t step_ms) {
    uint32_t rest = elapsed_ms % step_ms;
    if (elapsed_ms > INT32_MAX) {
        return 0u;
    }
    return elapsed_ms / step_ms + (rest >= step_ms - rest ? 1u : 0u);
}

static float larger(float a, float b) {
    return a > b ? a : b;
}

/* Whether a number of a reading is no reading: a sentinel, NaN or infinite. */
static int is_absent(const scare_model *model, float number) {
    SCARE_ROLLED
    for (uint32_t i = 0u; i < model->absent_count; i++) {
        if (number == model->absent[i]) {
            return 1;
        }
    }
    return !is_finite(number);
}

SCARE_SMALL float clamp(const scare_range *range, float number) {
    number = larger(number, range->low);
    return number < range->high ? number : range->high;
}

/* Check a reading, then scale and clamp it into `row`; `beyond` is how far channel 0 lies beyond its clamp. */
SCARE_SMALL scare_status scale(const scare_model *model, const float *reading, float *row, float *beyond) {
    scare_status status = SCARE_OK;
    SCARE_ROLLED
    for (uint32_t c = model->channels; c-- > 0u;) {
        const scare_channel *channel = &model->channel[c];
        float number = reading[c], scaled = ((number - channel->center) - channel->rest) * channel->inverse;
        float clamped = clamp(&channel->clamp, scaled);
        row[c] = clamped;
        *beyond = scaled - clamped;
        if (clamp(&channel->valid, number) != number) {
            status = SCARE_RANGE;
        }
        if (is_absent(model, number)) {
            status = SCARE_MISSING;
        }
    }
    return status;
}

/* A scaled value in steps of the int16_t window, rounded to the nearest, halves up. */
static int16_t quantise(const scare_channel *channel, float scaled) {
    static const scare_range steps_of_16_bits = {-32767.0f, 32767.0f};
    float steps = clamp(&steps_of_16_bits, scaled * channel->quantum + 0.5f);
    int32_t whole = (int32_t)steps;
    return (int16_t)(whole - (steps < (float)whole ? 1 : 0));
}

/* The upper half of a word, then the lower half of the next one. */
static int32_t across(int32_t word, int32_t next) {
    return (int32_t)((uint32_t)word >> 16 | (uint32_t)next << 16);
}

/* Move eight words at a time by half a word; `last` is the word before them. Returns the last of them. */
SCARE_INLINE int32_t move_eights(void **to, const void **from, uint32_t eights, int32_t last) {
#if SCARE_ASSEMBLY
#define ACROSS_TWO(before, first, second, after)         \
    "ror " second ", " second ", #16\n"                  \
    "pkhtb " first ", " second ", " before ", asr #16\n" \
    "pkhbt " second ", " second ", " after ", lsl #16\n"
    register void *place __asm__("r0") = *to;
    register const void *next __asm__("r1") = *from;
    register int32_t word __asm__("r2") = last;
    register uint32_t left __asm__("r4") = eights;
    __asm__ volatile("push {r7}\n"
                     "mov r12, r4\n"
                     "1: ldmia r1!, {r4-r11}\n" ACROSS_TWO("r2", "r3", "r4", "r5") ACROSS_TWO("r5", "r5", "r6", "r7")
                         ACROSS_TWO("r7", "r7", "r8", "r9") ACROSS_TWO("r9", "r9", "r10", "r11") "mov r2, r11\n"
                                                                                                 "stmia r0!, {r3-r10}\n"
                                                                                                 "subs r12, r12, #1\n"
                                                                                                 "bne 1b\n"
                                                                                                 "pop {r7}"
                     : "+r"(place), "+r"(next), "+r"(word), "+r"(left)
                     :
                     : "r3", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "cc", "memory");
    *to = place, *from = next;
    return word;
#else
    SCARE_ROLLED
    for (uint32_t left = 2u * eights; left > 0u; left--) {
        scare_words next = scare_next_four(from);
        scare_put_four(to, (scare_words){across(last, next.a), across(next.a, next.b), across(next.b, next.c),
                                         across(next.c, next.d)});
        last = next.d;
    }
    return last;
#endif
}

/* Move `count` words towards the start of the memory; with `half`, half a word less far, and one word less. */
static void move_words(void *to, const void *from, uint32_t count, uint32_t half) {
    int32_t last = half ? scare_next_word(&from) : 0;
    uint32_t left = count - half;
    if (half && left >= 8u) {
        last = move_eights(&to, &from, left / 8u, last);
        left %= 8u;
    }
    SCARE_ROLLED
    for (; left >= 4u && !half; left -= 4u) {
        scare_put_four(&to, scare_next_four(&from));
    }
    SCARE_ROLLED
    for (; left > 0u; left--) {
        int32_t next = scare_next_word(&from);
        scare_put_word(&to, half ? across(last, next) : next);
        last = next;
    }
    if (half) {
        scare_put_word(&to, across(last, 0));
    }
}

/* Move the window on by `rows` rows, for both kinds of window. The first new row is `row`, if given; the others repeat
 * the row before them. */
static void shift_floats(const scare_model *model, float *window, uint32_t rows, const float *row) {
    uint32_t channels = model->channels, end = model->window * channels, i = end - rows * channels;
    move_words(window, window + rows * channels, i, 0u);
    SCARE_ROLLED
    for (uint32_t c = 0u; row && c < channels; c++) {
        window[i++] = row[c];
    }
    SCARE_ROLLED
    for (; i < end; i++) {
        window[i] = window[i - channels];
    }
}

static void shift_integers(const scare_model *model, int16_t *window, uint32_t rows, const float *row) {
    uint32_t end = model->window, words = (model->stride - rows + 1u) / 2u, i;
    SCARE_ROLLED
    for (uint32_t c = 0u; c < model->channels; c++, window += model->stride) {
        move_words(window, window + rows / 2u * 2u, words, rows % 2u);
        i = end - rows;
        if (row) {
            window[i++] = quantise(&model->channel[c], row[c]);
        }
        SCARE_ROLLED
        for (; i < end; i++) {
            window[i] = window[i - 1u];
        }
    }
}

SCARE_SMALL void shift(scare *self, uint32_t rows, const float *row) {
    const scare_model *model = self->model;
    if (model->stride) {
        shift_integers(model, (int16_t *)self->window, rows, row);
    } else {
        shift_floats(model, (float *)self->window, rows, row);
    }
}

/* Record whether the newest row is a reading (1) or filled (0), in the ring of the rows that the gap rule checks. */
SCARE_SMALL void mark(scare *self, uint32_t real) {
    uint32_t *word = &self->real[self->next_bit / WORD_BITS];
    uint32_t at = self->next_bit % WORD_BITS, before = (*word >> at) & 1u;
    *word ^= (before ^ real) << at;
    self->real_bits += real - before;
    self->next_bit = self->next_bit + 1u < self->model->checked ? self->next_bit + 1u : 0u;
}

#if SCARE_SETTLE
static int unsettled(const scare *self) {
    return *self->settled < self->model->settle;
}

/* While the device settles, keep `rows` rows of the channels that move: `reading`, or the newest row again. */
SCARE_SMALL void remember(scare *self, uint32_t rows, const float *reading) {
    const scare_model *model = self->model;
    uint32_t count = model->moving_count;
    SCARE_ROLLED
    for (; rows > 0u; rows--) {
        const float *newest = self->readings + (self->next_row ? self->next_row : model->window) * count - count;
        float *next = self->readings + self->next_row * count;
        SCARE_ROLLED
        for (uint32_t m = 0u; m < count; m++) {
            next[m] = reading ? reading[model->moving[m].channel] : newest[m];
        }
        self->next_row = self->next_row + 1u < model->window ? self->next_row + 1u : 0u;
    }
}

/* Add a number to a pair, which also keeps what the sum cuts off (Knuth's two-sum): a float alone would lose a
 * thousandth over 17,280 readings (two days). Volatile, because -ffast-math would drop the second part. */
SCARE_SMALL void add(scare_two_floats *pair, float number) {
    volatile float sum = pair->high + number, other = sum - pair->high, own = sum - other;
    volatile float cut_of_own = pair->high - own, cut_of_other = number - other;
    pair->low += cut_of_own + cut_of_other;
    pair->high = sum;
}

/* Turn the sum of a channel's differences into its center. Products of two numbers of 12 bits are exact. */
SCARE_SMALL void move(const scare_moving *moving, const scare_channel *channel, scare_two_floats *pair) {
    uint32_t bits = bits_of(pair->high) & 0xfffff000u;
    volatile float end;
    float start, rest;
    __builtin_memcpy(&start, &bits, sizeof start);
    end = pair->high - start;
    rest = (end + pair->low) * moving->weight + pair->high * moving->rest;
    pair->high = channel->center;
    pair->low = channel->rest;
    add(pair, start * moving->weight);
    add(pair, rest);
}

/* Scale and clamp a reading of a channel that moved; `beyond` is how far it lies beyond its clamp. */
static float scale_moved(const scare_channel *channel, const scare_two_floats *center, float number, float *beyond) {
    float scaled = ((number - center->high) - center->low) * channel->inverse, clamped = clamp(&channel->clamp, scaled);
    *beyond = scaled - clamped;
    return clamped;
}

/* Scale the rows before the reading with which the device settled as Python does: with the new centers too. */
SCARE_SMALL void rescale(scare *self) {
    const scare_model *model = self->model;
    const float *reading = self->readings + self->next_row * model->moving_count;
    float beyond;
    SCARE_ROLLED
    for (uint32_t row = 0u, left = model->window - self->next_row; row < model->window; row++, left--) {
        if (left == 0u) {
            reading = self->readings;
        }
        SCARE_ROLLED
        for (uint32_t m = 0u; m < model->moving_count; m++) {
            uint32_t c = model->moving[m].channel;
            float scaled = scale_moved(&model->channel[c], &self->center[m], *reading++, &beyond);
            if (model->stride) {
                ((int16_t *)self->window)[c * model->stride + row] = quantise(&model->channel[c], scaled);
            } else {
                ((float *)self->window)[row * model->channels + c] = scaled;
            }
        }
    }
}

/* Count a reading; the last one that settling needs moves the centers. From then on scale `row` with them. */
SCARE_SMALL void settle(scare *self, const float *reading, float *row, float *beyond) {
    const scare_model *model = self->model;
    const scare_moving *moving = model->moving, *end = moving + model->moving_count;
    scare_two_floats *center = self->center;
    float distance;
    if (unsettled(self)) {
        SCARE_ROLLED
        for (; moving < end; moving++, center++) {
            const scare_channel *channel = &model->channel[moving->channel];
            add(center, reading[moving->channel] - channel->center);
            if (*self->settled + 1u == model->settle) {
                add(center, -channel->rest * (float)model->settle);
                move(moving, channel, center);
            }
        }
        ++*self->settled;
        if (unsettled(self)) {
            remember(self, self->filled ? 1u : model->window, reading);
            return;
        }
        if (self->filled) {
            rescale(self);
        }
        moving = model->moving;
        center = self->center;
    }
    SCARE_ROLLED
    for (; moving < end; moving++, center++) {
        uint32_t c = moving->channel;
        row[c] = scale_moved(&model->channel[c], center, reading[c], &distance);
        if (c == 0u) {
            *beyond = distance;
        }
    }
}
#endif

/* Fill rows without a reading by repeating the newest row. */
SCARE_SMALL void hold(scare *self, uint32_t rows) {
    const scare_model *model = self->model;
    if (self->filled) {
        shift(self, smaller(rows, model->window - 1u), NULL);
#if SCARE_SETTLE
        if (unsettled(self)) {
            remember(self, smaller(rows, model->window - 1u), NULL);
        }
#endif
    }
    SCARE_ROLLED
    for (uint32_t i = smaller(rows, model->checked); i > 0u; i--) {
        mark(self, 0u);
    }
    self->age = smaller(self->age + rows, model->hold + 1u);
    self->unbroken = self->age > model->hold ? 0u : smaller(self->unbroken + rows, model->checked);
}

#if SCARE_PAST
/* Start with the first row: it has no change, so the largest usual change is taken from the channel's scale. */
static void begin(scare *self, const float *reading, const float *row) {
    const scare_model *model = self->model;
    scare_past *past = self->window;
    shift(self, model->window, row);
    self->filled = 1u;
    SCARE_ROLLED
    for (uint32_t c = 0u; c < model->channels; c++) {
        float most = PAST_ROWS * model->spike_share / model->channel[c].inverse;
        past--;
        past->left = model->stuck_rows + 1;
        past->last = reading[c];
        past->most = most + most * model->spike_share / KEPT;
        past->floor = model->spike_floors[c];
    }
}

/* Flag channels that have not changed for long (stuck) or changed much more than usual (spike). Changes are not
 * negative, so their bits compare as they do, which takes fewer instructions. */
SCARE_INLINE void look_back(const scare_model *model, scare_past *past, const float *reading, uint32_t *flags) {
    uint32_t channels = model->channels;
    SCARE_ROLLED
    do {
        float change = SCARE_ABS(*reading - (--past)->last), most = past->most, next = past->floor + most * KEPT;
        past->last = *reading++;
        if (SCARE_EVEN(bits_of(change) == 0u)) {
            if (--past->left <= 0) {
                *flags |= SCARE_FLAG_STUCK;
            }
        } else {
            past->left = model->stuck_rows;
            if (bits_of(change) > bits_of(most)) {
                *flags |= SCARE_FLAG_SPIKE;
                change = most;
            }
            next += change * model->spike_share;
        }
        past->most = next;
    } while (--channels);
}
#endif

/* Append a reading, scaled as `row`, to the window; the first one fills the whole window. */
static void take(scare *self, const float *reading, const float *row) {
#if SCARE_PAST
    if (self->filled) {
        shift(self, 1u, row);
    } else {
        begin(self, reading, row);
    }
#else
    (void)reading;
    shift(self, self->filled ? 1u : self->model->window, row);
    self->filled = 1u;
#endif
    mark(self, 1u);
    self->age = 0u;
    self->unbroken = smaller(self->unbroken + 1u, self->model->checked);
}

/* Whether a row is outside the training range: a channel alone, the Mahalanobis distance of all, or that distance for
 * about a window. Cuts the row off at the training range. */
SCARE_SMALL uint32_t is_outside(scare *self, float *row) {
    const scare_model *model = self->model;
    const float *weight = model->whitening;
    float distance = 0.0f;
    uint32_t outside = 0u;
    SCARE_ROLLED
    for (uint32_t line = 0u; line < model->channels; line++) {
        float sum = *weight++, cut = clamp(&model->channel[line].trained, row[line]);
        outside |= cut != row[line] ? 1u : 0u;
        row[line] = cut;
        SCARE_ROLLED
        for (uint32_t c = 0u; c <= line; c++) {
            sum += *weight++ * row[c];
        }
        distance += sum * sum;
    }
    self->slow += (distance - self->slow) / (float)model->window;
    return outside | (distance > model->limit ? 1u : 0u) | (self->slow > model->slow_limit ? 1u : 0u);
}

/* Set the interval around a value, not below the floor. The binary search always takes three steps. */
SCARE_SMALL void surround(const scare_interval *interval, float floor, scare_answer *answer) {
    float factor = answer->flags & LESS_SURE ? interval->widening : 1.0f, value = answer->value;
    uint32_t band = 0u;
    SCARE_ROLLED
    for (uint32_t step = SCARE_BANDS / 2u; step > 0u; step /= 2u) {
        band += value >= interval->edge[band + step - 1u] ? step : 0u;
    }
    answer->low = larger(value - factor * interval->below[band], floor);
    answer->high = value + factor * interval->above[band];
}

/* Run the model if the gap rule allows it, and extrapolate by how far channel 0 lies `beyond` its clamp. The newest
 * row, clipped to the training range, is still in scratch memory. */
static scare_status compute(scare *self, float beyond, scare_answer *answer) {
    const scare_model *model = self->model;
    float scaled, value, lowest = *(const float *)self->scratch >= model->rising ? model->lowest : -LARGEST;
    if (self->real_bits < model->needed || self->unbroken < model->checked) {
        return SCARE_HISTORY;
    }
#if SCARE_SETTLE
    if (unsettled(self)) {
        answer->flags |= SCARE_FLAG_UNSETTLED;
    }
#endif
    model->run(self->window, self->scratch, &self->choice, &scaled, model);
    scaled = (scaled < lowest ? lowest : scaled) + beyond * model->slope;
    value = scaled * model->target_scale + model->target_center;
    if (!is_finite(value)) {
        return SCARE_NOT_FINITE;
    }
    answer->value = larger(value, model->floor);
    if (model->interval) {
        surround(model->interval, model->floor, answer);
    }
    return SCARE_OK;
}

/* Return to the state before the first reading, except for what settling has found. */
SCARE_SMALL void forget(scare *self) {
    SCARE_ROLLED
    for (uint32_t i = 0u; i < real_words(self->model); i++) {
        self->real[i] = 0u;
    }
    self->timed = 0u;
    self->filled = 0u;
    self->next_bit = 0u;
    self->real_bits = 0u;
    self->age = self->model->hold + 1u;
    self->unbroken = 0u;
    self->choice.left = 0u;
    self->choice.deep = 0u;
    self->slow = (float)self->model->channels;
}

/* Whether a reading is more than a window before the last one: the clock was set back. */
static int goes_back(const scare *self, uint32_t elapsed_ms) {
    return self->timed && elapsed_ms > INT32_MAX && ~elapsed_ms / self->model->step_ms >= self->model->window;
}

/* scare_calibrate with valid arguments and an answer of NaN; sets only flags that do not follow from the status. */
static scare_status push(scare *self, uint32_t now_ms, const float *reading, scare_answer *answer) {
    uint32_t elapsed_ms = now_ms - self->last_ms, rows;
    scare_status status;
    float beyond;
    if (goes_back(self, elapsed_ms)) {
        forget(self);
        answer->flags = SCARE_FLAG_RESTART;
    }
    rows = self->timed ? rows_between(elapsed_ms, self->model->step_ms) : 1u;
    if (rows == 0u) {
        return SCARE_EARLY;
    }
    self->last_ms = now_ms;
    self->timed = 1u;
    status = scale(self->model, reading, self->scratch, &beyond);
    if (status != SCARE_OK) {
        hold(self, rows);
        return status;
    }
    if (rows > 1u) {
        hold(self, rows - 1u);
    }
#if SCARE_SETTLE
    settle(self, reading, self->scratch, &beyond);
#endif
    take(self, reading, self->scratch);
#if SCARE_PAST
    look_back(self->model, self->window, reading, &answer->flags);
#endif
    if (self->model->whitening) {
        answer->flags |= is_outside(self, self->scratch) * SCARE_FLAG_OUTSIDE;
    }
    return compute(self, beyond, answer);
}

#if SCARE_SETTLE
static uint32_t settling_words(const scare_model *model) {
    return model->settle ? 1u + model->moving_count * (2u + model->window) : 0u;
}

/* Begin to settle in the first words of the memory. */
static void begin_to_settle(scare *self, uint32_t *memory) {
    uint32_t words = self->model->settle ? 1u + 2u * self->model->moving_count : 0u;
    self->settled = memory;
    self->center = (scare_two_floats *)(memory + 1);
    self->readings = (float *)(memory + words);
    self->next_row = 0u;
    SCARE_ROLLED
    for (uint32_t i = 0u; i < words; i++) {
        memory[i] = 0u;
    }
}
#endif

SCARE_COMPACT scare_status scare_init(scare *self, const scare_model *model, void *memory, size_t bytes) {
    uint32_t window, real;
    if (!self || !model || !memory) {
        return SCARE_ARGUMENT;
    }
    self->model = NULL;
    window = window_words(model);
    real = real_words(model);
#if SCARE_SETTLE
    if (bytes / sizeof(uint32_t) < settling_words(model)) {
        return SCARE_MEMORY;
    }
    bytes -= settling_words(model) * sizeof(uint32_t);
#endif
    if (bytes < (window + real) * sizeof(uint32_t) + SCARE_PAST_BYTES(model->channels) + model->scratch_bytes ||
        (uintptr_t)memory % sizeof(uint32_t)) {
        return SCARE_MEMORY;
    }
    self->model = model;
#if SCARE_SETTLE
    begin_to_settle(self, memory);
    memory = (uint32_t *)memory + settling_words(model);
#endif
    self->window = (uint32_t *)memory + SCARE_WORDS(SCARE_PAST_BYTES(model->channels));
    self->real = (uint32_t *)self->window + window;
    self->scratch = self->real + real;
    SCARE_ROLLED
    for (uint32_t i = 0u; i < window; i++) {
        ((uint32_t *)self->window)[i] = 0u; /* kernels read the row that an odd window lacks */
    }
    forget(self);
    return SCARE_OK;
}

scare_status scare_reset(scare *self) {
    if (!self || !self->model) {
        return SCARE_ARGUMENT;
    }
    forget(self);
    return SCARE_OK;
}

SCARE_COMPACT scare_status scare_calibrate(scare *self, uint32_t now_ms, const float *reading, scare_answer *answer) {
    static const uint16_t reasons[] = {0,
                                       SCARE_FLAG_HISTORY,
                                       SCARE_FLAG_MISSING,
                                       SCARE_FLAG_MISSING | SCARE_FLAG_RANGE,
                                       SCARE_FLAG_EARLY,
                                       SCARE_FLAG_NOT_FINITE};
    const float none = __builtin_nanf("");
    scare_status status = SCARE_ARGUMENT;
    if (answer) {
        answer->value = none;
        answer->low = none;
        answer->high = none;
        answer->flags = 0u;
        if (self && self->model && reading) {
            status = push(self, now_ms, reading, answer);
            answer->flags |= reasons[status];
        }
    }
    return status;
}

scare_status scare_push(scare *self, uint32_t now_ms, const float *reading, float *calibrated) {
    scare_answer answer;
    scare_status status = scare_calibrate(self, now_ms, reading, calibrated ? &answer : NULL);
    if (calibrated) {
        *calibrated = answer.value;
    }
    return status;
}

float scare_window_number(const scare *self, uint32_t channel, uint32_t row) {
    const scare_model *model = self->model;
    if (model->stride) {
        return (float)((const int16_t *)self->window)[channel * model->stride + row] / model->channel[channel].quantum;
    }
    return ((const float *)self->window)[row * model->channels + channel];
}

void scare_window_add(scare *self, const float *row) {
    shift(self, 1u, row);
}

float scare_outside(const scare *self, const float *reading, uint32_t *channel) {
    float farthest = 0.0f;
    if (!self || !self->model || !reading) {
        return farthest;
    }
    for (uint32_t c = 0u; c < self->model->channels; c++) {
        const scare_channel *one = &self->model->channel[c];
        float center = one->center, rest = one->rest, scaled, width = one->trained.high - one->trained.low, beyond;
#if SCARE_SETTLE
        for (uint32_t m = 0u; m < self->model->moving_count && !unsettled(self); m++) {
            if (self->model->moving[m].channel == c) {
                center = self->center[m].high;
                rest = self->center[m].low;
            }
        }
#endif
        scaled = ((reading[c] - center) - rest) * one->inverse;
        beyond = larger(one->trained.low - scaled, scaled - one->trained.high) / (width > 0.0f ? width : 1.0f);
        if (beyond > farthest) {
            farthest = beyond;
            if (channel) {
                *channel = c;
            }
        }
    }
    return farthest;
}

const char *scare_explain(scare_status status) {
    switch (status) {
    case SCARE_OK: return "calibrated";
    case SCARE_HISTORY: return "too few readings so far or since a gap";
    case SCARE_MISSING: return "a number of the reading is missing";
    case SCARE_RANGE: return "a number of the reading is outside its valid range";
    case SCARE_EARLY: return "too soon after the last reading";
    case SCARE_NOT_FINITE: return "the result is not a number";
    case SCARE_MEMORY: return "the memory is too small or not aligned";
    case SCARE_ARGUMENT: return "a null pointer or not initialised";
    case SCARE_DAMAGED: return "the blob is damaged or cut short";
    case SCARE_FOREIGN: return "the blob is of another model or version";
    case SCARE_WRONG: return "the self-test failed";
    case SCARE_UNSIGNED: return "the blob is not signed with the owner's key";
    case SCARE_OLDER: return "the blob was signed before the one in use";
    default: return "no such status";
    }
}
