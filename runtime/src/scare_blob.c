/* Opens a model from a file, after checking it, and interprets its plan. The file, written by scare/export/blob.py, is a
 * head, parts at any places on word boundaries, a CRC-32, and a signature of the sequence and the SHA-512 of all before
 * the CRC. */
#include "scare_blob.h"

#include "scare_ed25519.h"
#include "scare_kernels.h"
#include "scare_port.h"

#define MARK 0x02424353u /* "SCB", version 2 */
#define SIZE_LIMIT 0xffffu
#define MOST_NUMBERS ((uint32_t)1 << 22) /* in a window */
#define MOST_SCRATCH ((uint32_t)1 << 24) /* bytes */
#define MOST_ROWS ((uint32_t)1 << 24)    /* of time */
#define MOST_QUANTUM 524288.0f           /* beyond it, the self-test would overflow */
#define TAIL (sizeof(uint32_t) + SCARE_SIGNATURE_BYTES)
#define DEPTH 9 /* of the stack of a formula; a test computes what rules need */
#define MOST_PARAMETERS 16
#define FLOATS 10u /* of the head */

typedef struct {
    uint32_t at, count; /* bytes from the start of the file; number of elements */
} part;

typedef struct {
    uint32_t mark, bytes; /* of head and parts */
    uint32_t identity, inputs;
    uint32_t window, channels, step_ms, checked, needed, hold, integer, scratch_bytes, settle, stuck_rows;
    float target_scale, target_center, floor, limit, slow_limit, rising, lowest, slope, spike_share,
        tolerance; /* FLOATS */
    part title, channel, absent, interval, whitening, spike_floors, moving, vectors, kernels;
    part always, decision, simple, deep;  /* calls; the last three only in a model with two branches */
    uint32_t decided, periods[2], result; /* where the decision and the result are; windows until the next decision */
    uint32_t sequence;
} blob_head;

/* `stride` of the model. */
SCARE_INLINE uint32_t stride_of(const blob_head *head) {
    return head->integer ? (head->window + 1u) & ~1u : 0u;
}

/* A kernel as a plan calls it: `call` takes words of the file and returns the word after them. */
typedef struct {
    uint32_t identity;
    const uint32_t *(*call)(const uint32_t *words, unsigned char *const *base);
    const uint8_t *rules;
} scare_kernel;

/* Where a pointer of the file begins: in its tables, in the window, or in scratch memory. */
enum { CONTENT, WINDOW, SCRATCH, BASES };

/* The two lowest bits are the base, the others the offset, because every pointer is on a word boundary. */
SCARE_INLINE void *at(uint32_t word, unsigned char *const *base) {
    return base[word & 3u] + (word & ~3u);
}

SCARE_INLINE float real(uint32_t word) {
    float number;
    __builtin_memcpy(&number, &word, sizeof number);
    return number;
}

#include "scare_blob_kernels.h"

#define KNOWN (sizeof kernels / sizeof kernels[0])

/* ---- running ---- */

SCARE_INLINE void run_part(const scare_blob *self, const part *calls, unsigned char *const *base) {
    const uint32_t *next = (const void *)(self->content + calls->at), *end = next + calls->count;
    while (next < end) {
        uint32_t kernel = *next++;
        next = kernels[self->kernel[kernel]].call(next, base);
    }
}

static void run(const void *window, void *scratch, scare_choice *choice, float *scaled, const scare_model *model) {
    const scare_blob *self = (const void *)model;
    const blob_head *head = (const void *)self->content;
    unsigned char *base[BASES];
    base[CONTENT] = (unsigned char *)(uintptr_t)self->content; /* opening has checked that nothing is written there */
    base[WINDOW] = (unsigned char *)(uintptr_t)window;
    base[SCRATCH] = scratch;
    run_part(self, &head->always, base);
    if (head->decision.count) {
        if (choice->left == 0u) {
            run_part(self, &head->decision, base);
            choice->deep = *(const float *)at(head->decided, base) > 0.5f;
            choice->left = head->periods[choice->deep];
        }
        choice->left--;
        run_part(self, choice->deep ? &head->deep : &head->simple, base);
    }
    *scaled = *(const float *)at(head->result, base);
}

/* ---- checking ---- */

typedef struct {
    const unsigned char *content;
    const blob_head *head;
    scare_blob *blob;
    uint32_t limit[BASES]; /* bytes */
} checker;

/* What a call reaches: for each parameter the bytes behind its pointer. */
typedef struct {
    const uint32_t *words;
    const uint8_t *kinds;
    uint32_t count, bytes[MOST_PARAMETERS];
} reach;

SCARE_SMALL int is_within(const checker *self, uint32_t base, uint32_t start, uint32_t bytes) {
    return base < BASES && start % sizeof(uint32_t) == 0u && start <= self->limit[base] &&
           bytes <= self->limit[base] - start;
}

SCARE_SMALL int has_part(const checker *self, const part *found, uint32_t size, uint32_t least, uint32_t most) {
    return found->count >= least && found->count <= most &&
           (found->count == 0u || is_within(self, CONTENT, found->at, found->count * size));
}

/* Total, largest, or largest sum of a pair, of a constant table that a rule before this one has checked. */
SCARE_SMALL int64_t table_of(const checker *self, const reach *found, const uint8_t *code) {
    uint32_t word = found->words[code[1]], wide = found->kinds[code[1]] & 1u, previous = 0u;
    const unsigned char *table = self->content + (word & ~3u);
    int64_t result = 0;
    for (uint32_t i = code[2]; i < found->bytes[code[1]] >> wide; i += code[3]) {
        uint32_t number = wide ? table[2u * i] | (uint32_t)table[2u * i + 1u] << 8 : table[i];
        if (*code == OP_TOTAL) {
            result += number;
        } else if (*code == OP_LARGEST || i % 2u) {
            result = previous + number > result ? previous + number : result;
        }
        previous = *code == OP_LAST && i % 2u == 0u ? number : 0u;
    }
    return result;
}

/* Compute a formula; returns the rule's end, or NULL if a power is too large or a table is not in the file. */
SCARE_SMALL const uint8_t *evaluate(const checker *self, const reach *found, const uint8_t *code, int64_t *result) {
    int64_t stack[DEPTH], *top = stack; /* the first is not used */
    for (; *code < REACHES; code++) {
        if (*code < found->count) {
            uint32_t word = found->words[*code];
            *++top = found->kinds[*code] == KIND_SIGNED ? (int64_t)(int32_t)word : (int64_t)word;
        } else if (*code == OP_BYTE) {
            *++top = *++code;
        } else if (*code == OP_HALF) {
            *++top = code[1] | code[2] << 8;
            code += 2;
        } else if (*code == OP_WORD) {
            *++top = code[1] | code[2] << 8 | code[3] << 16 | (int64_t)code[4] << 24;
            code += 4;
        } else if (*code >= OP_TOTAL) {
            if ((found->words[code[1]] & 3u) != CONTENT) {
                return NULL;
            }
            *++top = table_of(self, found, code);
            code += 3;
        } else if (*code == OP_POWER) {
            if (*top < 0 || *top > 31) {
                return NULL;
            }
            *top = (int64_t)1 << *top;
        } else {
            int64_t second = *top--;
            switch (*code) {
            case OP_ADD: *top += second; break;
            case OP_SUBTRACT: *top -= second; break;
            case OP_MULTIPLY: *top *= second; break;
            case OP_DIVIDE: *top = (uint32_t)*top / (uint32_t)second; break;
            case OP_REMAINDER: *top = (uint32_t)*top % (uint32_t)second; break;
            case OP_LESS: *top = *top < second; break;
            case OP_NOT_ABOVE: *top = *top <= second; break;
            case OP_EQUAL: *top = *top == second; break;
            default: *top = *top > second ? *top : second; break;
            }
        }
    }
    *result = *top;
    return code;
}

/* Look at the call at `words`, by the rules of its kernel: sizes, ranges, and what each pointer reaches. Returns the
 * next call, or NULL. */
SCARE_SMALL const uint32_t *inspect(const checker *self, const uint32_t *words, const uint32_t *end, reach *found) {
    const uint8_t *rule;
    if (*words >= self->head->kernels.count) {
        return NULL;
    }
    rule = kernels[self->blob->kernel[*words]].rules;
    found->words = words + 1;
    found->count = *rule++;
    found->kinds = rule;
    if (found->count > (uint32_t)(end - found->words)) {
        return NULL;
    }
    for (uint32_t i = 0u; i < found->count; i++, rule++) {
        found->bytes[i] = 0u;
        if (*rule == KIND_SIZE && found->words[i] > SIZE_LIMIT) {
            return NULL;
        }
    }
    while (*rule != END) {
        int64_t number;
        rule = evaluate(self, found, rule, &number);
        if (!rule) {
            return NULL;
        }
        if (*rule == HOLDS) {
            if (number == 0) {
                return NULL;
            }
        } else {
            uint32_t pointer = *rule & ~(uint32_t)REACHES, word = found->words[pointer], kind = found->kinds[pointer];
            if (number < 0 || number > MOST_SCRATCH) {
                return NULL;
            }
            found->bytes[pointer] = (uint32_t)number << (kind & 3u);
            if (!is_within(self, word & 3u, word & ~3u, found->bytes[pointer]) ||
                (kind & KIND_OUTPUT && (word & 3u) != SCRATCH)) {
                return NULL;
            }
        }
        rule++;
    }
    return found->words + found->count;
}

/* Whether calls from `next` until `end` write all of `bytes` at `word`, which is in scratch memory, in one call. */
SCARE_SMALL int is_written(const checker *self, const uint32_t *next, const uint32_t *end, uint32_t word,
                           uint32_t bytes) {
    reach found;
    while (next < end) {
        next = inspect(self, next, end, &found);
        for (uint32_t i = 0u; i < found.count; i++) {
            if (found.kinds[i] & KIND_OUTPUT && found.words[i] <= word && bytes <= found.bytes[i] &&
                word - found.words[i] <= found.bytes[i] - bytes) {
                return 1;
            }
        }
    }
    return 0;
}

SCARE_SMALL const uint32_t *begin_of(const checker *self, const part *calls) {
    return (const void *)(self->content + calls->at);
}

SCARE_SMALL int is_known(const checker *self, const part *calls, const uint32_t *end, uint32_t word, uint32_t bytes) {
    const part *always = &self->head->always;
    return is_written(self, begin_of(self, calls), end, word, bytes) ||
           (calls != always &&
            is_written(self, begin_of(self, always), begin_of(self, always) + always->count, word, bytes));
}

/* Whether a call reads only what was written before, and writes over none of it but what it may. */
SCARE_SMALL int is_sound(const checker *self, const part *calls, const uint32_t *call, const reach *found) {
    for (uint32_t i = 0u; i < found->count; i++) {
        uint32_t word = found->words[i], kind = found->kinds[i];
        if (!(kind & KIND_POINTER) || kind & KIND_OUTPUT || (word & 3u) != SCRATCH || found->bytes[i] == 0u) {
            continue;
        }
        if (!is_known(self, calls, call, word, found->bytes[i])) {
            return 0;
        }
        for (uint32_t o = 0u; o < found->count; o++) {
            uint32_t out = found->words[o];
            if (found->kinds[o] & KIND_OUTPUT && !(kind & KIND_OVER && out == word) && out < word + found->bytes[i] &&
                word < out + found->bytes[o]) {
                return 0;
            }
        }
    }
    return 1;
}

SCARE_SMALL int are_sound(const checker *self, const part *calls) {
    const uint32_t *call, *end;
    reach found;
    if (!has_part(self, calls, sizeof(uint32_t), 0u, MOST_NUMBERS)) {
        return 0;
    }
    call = begin_of(self, calls);
    end = call + calls->count;
    while (call < end) {
        const uint32_t *next = inspect(self, call, end, &found);
        if (!next || !is_sound(self, calls, call, &found)) {
            return 0;
        }
        call = next;
    }
    return 1;
}

/* Whether these calls leave a float at `word`. */
SCARE_SMALL int leave(const checker *self, const part *calls, uint32_t word) {
    return (word & 3u) == SCRATCH && is_known(self, calls, begin_of(self, calls) + calls->count, word, sizeof(float));
}

SCARE_SMALL int is_plan_sound(const checker *self) {
    const blob_head *head = self->head;
    if (!are_sound(self, &head->always)) {
        return 0;
    }
    if (head->decision.count == 0u) {
        return head->simple.count == 0u && head->deep.count == 0u && leave(self, &head->always, head->result);
    }
    return are_sound(self, &head->decision) && are_sound(self, &head->simple) && are_sound(self, &head->deep) &&
           head->periods[0] > 0u && head->periods[1] > 0u && leave(self, &head->decision, head->decided) &&
           leave(self, &head->simple, head->result) && leave(self, &head->deep, head->result);
}

SCARE_SMALL int are_finite(const void *content, uint32_t bytes) {
    const uint32_t *word = content;
    for (uint32_t i = 0u; i < bytes / sizeof *word; i++) {
        if ((word[i] & 0x7f800000u) == 0x7f800000u) {
            return 0;
        }
    }
    return 1;
}

SCARE_SMALL int has_floats(const checker *self, const part *found, uint32_t size, uint32_t least, uint32_t most) {
    return has_part(self, found, size, least, most) &&
           (found->count == 0u || are_finite(self->content + found->at, found->count * size));
}

SCARE_SMALL int are_channels_sound(const checker *self) {
    const scare_channel *channel = (const void *)(self->content + self->head->channel.at);
    const scare_moving *moving = (const void *)(self->content + self->head->moving.at);
    for (uint32_t c = 0u; c < self->head->channels; c++) {
        float quantum = channel[c].quantum;
        if (self->head->integer ? !(quantum >= 1.0f / MOST_QUANTUM && quantum <= MOST_QUANTUM) : quantum != 0.0f) {
            return 0;
        }
    }
    for (uint32_t m = 0u; m < self->head->moving.count; m++) {
        if (moving[m].channel >= self->head->channels) {
            return 0;
        }
    }
    return 1;
}

SCARE_SMALL int is_descriptor_sound(const checker *self) {
    const blob_head *head = self->head;
    uint32_t channels = head->channels, triangle = channels * (channels + 3u) / 2u;
    return channels >= 1u && channels <= 255u && head->window >= 1u && head->window <= SIZE_LIMIT &&
           head->window * channels <= MOST_NUMBERS && head->integer <= 1u && head->step_ms >= 1u &&
           head->step_ms <= INT32_MAX && head->checked >= 1u && head->checked <= head->window &&
           head->needed <= head->checked && head->hold <= MOST_ROWS && head->settle <= MOST_ROWS &&
           head->stuck_rows <= MOST_ROWS && head->scratch_bytes <= MOST_SCRATCH &&
           are_finite(&head->target_scale, FLOATS * sizeof(float)) && head->scratch_bytes % sizeof(uint32_t) == 0u &&
           head->scratch_bytes >= channels * sizeof(float) && has_part(self, &head->title, 1u, 1u, 1024u) &&
           self->content[head->title.at + head->title.count - 1u] == 0u &&
           has_floats(self, &head->channel, sizeof(scare_channel), channels, channels) &&
           has_floats(self, &head->absent, sizeof(float), 0u, 255u) &&
           has_floats(self, &head->interval, sizeof(scare_interval), 0u, 1u) &&
           (head->whitening.count == 0u || has_floats(self, &head->whitening, sizeof(float), triangle, triangle)) &&
           has_floats(self, &head->spike_floors, sizeof(float), channels, channels) &&
           has_floats(self, &head->moving, sizeof(scare_moving), 0u, channels) &&
           has_part(self, &head->vectors, sizeof(scare_vector), 0u, 255u) &&
           has_part(self, &head->kernels, sizeof(uint32_t), 0u, SCARE_BLOB_KERNELS) && are_channels_sound(self);
}

/* Find the kernels that the file names; whether there are all. */
SCARE_SMALL int find_kernels(checker *self) {
    const uint32_t *identity = (const void *)(self->content + self->head->kernels.at);
    for (uint32_t i = 0u; i < self->head->kernels.count; i++) {
        uint32_t k = 0u;
        while (k < KNOWN && kernels[k].identity != identity[i]) {
            k++;
        }
        if (k == KNOWN) {
            return 0;
        }
        self->blob->kernel[i] = (uint8_t)k;
    }
    return 1;
}

/* ---- opening ---- */

SCARE_SMALL const void *start_of(const checker *self, const part *found) {
    return found->count ? self->content + found->at : NULL;
}

SCARE_SMALL void describe(const checker *self, scare_blob *blob) {
    const blob_head *head = self->head;
    scare_model *model = &blob->model;
    model->window = head->window;
    model->channels = head->channels;
    model->step_ms = head->step_ms;
    model->checked = head->checked;
    model->needed = head->needed;
    model->hold = head->hold;
    model->channel = start_of(self, &head->channel);
    model->absent = start_of(self, &head->absent);
    model->absent_count = head->absent.count;
    model->target_scale = head->target_scale;
    model->target_center = head->target_center;
    model->floor = head->floor;
    model->interval = start_of(self, &head->interval);
    model->whitening = start_of(self, &head->whitening);
    model->limit = head->limit;
    model->slow_limit = head->slow_limit;
    model->rising = head->rising;
    model->lowest = head->lowest;
    model->slope = head->slope;
    model->stride = stride_of(head);
    model->scratch_bytes = head->scratch_bytes;
    model->run = run;
    model->identity = head->identity;
#if SCARE_PAST
    model->stuck_rows = (int32_t)head->stuck_rows;
    model->spike_share = head->spike_share;
    model->spike_floors = start_of(self, &head->spike_floors);
#endif
#if SCARE_SETTLE
    model->settle = head->settle;
    model->moving = start_of(self, &head->moving);
    model->moving_count = head->moving.count;
#endif
    blob->golden.vector = start_of(self, &head->vectors);
    blob->golden.count = head->vectors.count;
    blob->golden.tolerance = head->tolerance;
    blob->title = start_of(self, &head->title);
    blob->inputs = head->inputs;
    blob->sequence = head->sequence;
    blob->bytes = head->bytes + (uint32_t)TAIL;
}

/* Whether it is a file of this format whose length and checksum are right. */
SCARE_SMALL scare_status check_whole(const scare_blob *self, const void *content, size_t bytes) {
    const blob_head *head = content;
    uint32_t crc;
    if (!self || !content || (uintptr_t)content % sizeof(uint32_t)) {
        return SCARE_ARGUMENT;
    }
    if (bytes < sizeof *head + TAIL || head->bytes > bytes - TAIL || head->bytes < sizeof *head ||
        head->bytes % sizeof(uint32_t) != 0u) {
        return SCARE_DAMAGED;
    }
    __builtin_memcpy(&crc, (const unsigned char *)content + head->bytes, sizeof crc);
    if (crc != scare_checksum(content, head->bytes)) {
        return SCARE_DAMAGED;
    }
    return head->mark == MARK ? SCARE_OK : SCARE_FOREIGN;
}

/* Open a file that is whole. */
SCARE_SMALL scare_status open_whole(scare_blob *self, const void *content) {
    checker check;
    self->content = content;
    check.content = content;
    check.head = content;
    check.blob = self;
    check.limit[CONTENT] = check.head->bytes;
    if (!is_descriptor_sound(&check)) {
        return SCARE_DAMAGED;
    }
    check.limit[WINDOW] =
        check.head->channels * (check.head->integer ? stride_of(check.head) * 2u : check.head->window * 4u);
    check.limit[SCRATCH] = check.head->scratch_bytes;
    if ((check.head->settle && !SCARE_SETTLE) || !find_kernels(&check)) {
        return SCARE_FOREIGN;
    }
    if (!is_plan_sound(&check)) {
        return SCARE_DAMAGED;
    }
    describe(&check, self);
    return SCARE_OK;
}

SCARE_COMPACT scare_status scare_blob_open_unsigned(scare_blob *self, const void *content, size_t bytes) {
    scare_status status = check_whole(self, content, bytes);
    return status == SCARE_OK ? open_whole(self, content) : status;
}

/* Whether the file's manifest, which `scare live` gives without the file, was signed with the key. */
SCARE_SMALL int is_signed(const blob_head *head, const uint8_t *key) {
    const unsigned char *signature = (const unsigned char *)head + head->bytes + sizeof(uint32_t);
    uint8_t manifest[sizeof head->sequence + SCARE_SHA512_BYTES];
    __builtin_memcpy(manifest, &head->sequence, sizeof head->sequence);
    scare_sha512(manifest + sizeof head->sequence, head, head->bytes);
    return scare_ed25519_verify(signature, key, manifest, sizeof manifest);
}

SCARE_COMPACT scare_status scare_blob_open(scare_blob *self, const void *content, size_t bytes, const uint8_t *key) {
    scare_status status = check_whole(self, content, bytes);
    if (status == SCARE_OK) {
        status = key && is_signed(content, key) ? open_whole(self, content) : SCARE_UNSIGNED;
    }
    return status;
}

void scare_blob_version(const scare_blob *self, char version[25]) {
    static const char digits[] = "0123456789abcdef";
    const unsigned char *tail = self->content + self->bytes - TAIL;
    for (uint32_t i = 0; i < 12; i++) {
        version[2 * i] = digits[tail[i] >> 4];
        version[2 * i + 1] = digits[tail[i] & 15];
    }
    version[24] = 0;
}
