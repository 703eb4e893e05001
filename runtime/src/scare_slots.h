/* Two slots for blobs: a new one is written beside the one in use, tried, and given up if it does not work.
 *
 *     at each start:  scare_slots_begin   takes the slot in use; the other one, if its file is bad, its self-test fails,
 *                                         or it was begun three times without being confirmed
 *     when it works:  scare_slots_confirm such as after an hour of values, or where you feed the watchdog
 *     to update:      write the file to slot scare_slots_free, in any pieces; scare_slots_switch; scare_slots_begin or a
 *                     reset
 *
 * What is remembered between starts is one word, kept by the application where it survives a reset: NVS, EEPROM, a
 * backup register, a page of flash. Anything that is not such a word, as in new flash, means slot 0, not confirmed. */
#ifndef SCARE_SLOTS_H
#define SCARE_SLOTS_H

#include "scare_blob.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 1: take unsigned files too. Whoever can write a slot then decides what the device reports. */
#ifndef SCARE_SLOTS_UNSIGNED
#define SCARE_SLOTS_UNSIGNED 0
#endif

#define SCARE_SLOTS_STARTS 3u /* without a confirmation, until a slot is given up */

typedef struct {
    const void *content[2];      /* where each slot begins in memory, on a word boundary */
    size_t bytes;                /* of each */
    const uint8_t *key;          /* the owner's public key, 32 bytes; not read if SCARE_SLOTS_UNSIGNED is 1 */
    uint32_t inputs;             /* of the files to take (`inputs` of scare_blob): those for this device's readings */
    int older;                   /* 1: switch to files that were signed before the one in use, too */
    uint32_t (*load)(void);      /* the word */
    void (*save)(uint32_t word); /* is called at most once at each start, and by confirm and switch */
} scare_slots;

/* Open a slot and prepare `calibration` in `memory`, self-test included. SCARE_OK, or why neither slot works. */
scare_status scare_slots_begin(const scare_slots *self, scare_blob *blob, scare *calibration, void *memory,
                               size_t bytes);

/* Keep the slot in use from now on. Only the first call for a slot saves. */
void scare_slots_confirm(const scare_slots *self);

/* The slot not in use, 0 or 1. */
uint32_t scare_slots_free(const scare_slots *self);

/* Use the other slot from the next start on, if its file may be taken: SCARE_OK, or why not. SCARE_OLDER: its signature
 * is right, but of a time before that of the file in use, as when somebody sends an old file again. */
scare_status scare_slots_switch(const scare_slots *self);

#ifdef __cplusplus
}
#endif

#endif
