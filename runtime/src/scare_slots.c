/* Which of two slots is used. */
#include "scare_slots.h"

#include "scare_port.h"

/* The word, whose high half is the complement of its low half: the slot in use, whether it is confirmed, whether the
 * other one was given up, and in units of START how often this one was begun. */
enum { SLOT = 1u, CONFIRMED = 2u, GIVEN_UP = 4u, START = 8u };

static uint32_t load(const scare_slots *self) {
    uint32_t word = self->load(), low = word & 0xffffu;
    return word >> 16 == (low ^ 0xffffu) ? low : 0u;
}

static void save(const scare_slots *self, uint32_t low) {
    self->save(low | (low ^ 0xffffu) << 16);
}

static scare_status open_slot(const scare_slots *self, uint32_t slot, scare_blob *blob) {
#if SCARE_SLOTS_UNSIGNED
    scare_status status = scare_blob_open_unsigned(blob, self->content[slot], self->bytes);
#else
    scare_status status = scare_blob_open(blob, self->content[slot], self->bytes, self->key);
#endif
    return status == SCARE_OK && blob->inputs != self->inputs ? SCARE_FOREIGN : status;
}

SCARE_COMPACT scare_status scare_slots_begin(const scare_slots *self, scare_blob *blob, scare *calibration,
                                             void *memory, size_t bytes) {
    uint32_t word = load(self);
    scare_status status = SCARE_WRONG;
    for (uint32_t other = 0u; other < 2u; other++) {
        uint32_t slot = (word & SLOT) ^ other;
        if (other ? word & GIVEN_UP : !(word & CONFIRMED) && word / START >= SCARE_SLOTS_STARTS) {
            continue;
        }
        if (!other && !(word & CONFIRMED)) {
            save(self, word + START);
        }
        status = open_slot(self, slot, blob);
        status = status == SCARE_OK ? scare_init(calibration, &blob->model, memory, bytes) : status;
        status = status == SCARE_OK ? scare_self_test(calibration, &blob->golden) : status;
        if (status == SCARE_OK) {
            if (other) {
                save(self, slot | CONFIRMED | GIVEN_UP);
            }
            break;
        }
    }
    return status;
}

void scare_slots_confirm(const scare_slots *self) {
    uint32_t word = load(self);
    if (!(word & CONFIRMED)) {
        save(self, (word & (SLOT | GIVEN_UP)) | CONFIRMED);
    }
}

uint32_t scare_slots_free(const scare_slots *self) {
    return (load(self) & SLOT) ^ 1u;
}

SCARE_COMPACT scare_status scare_slots_switch(const scare_slots *self) {
    scare_blob blob;
    uint32_t slot = scare_slots_free(self), sequence;
    scare_status status = open_slot(self, slot, &blob);
    if (status == SCARE_OK && !self->older) {
        sequence = blob.sequence;
        status = open_slot(self, slot ^ 1u, &blob) == SCARE_OK && sequence < blob.sequence ? SCARE_OLDER : SCARE_OK;
    }
    if (status == SCARE_OK) {
        save(self, slot);
    }
    return status;
}
