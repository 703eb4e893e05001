/* A model that is data: one file with weights, tables, plan and descriptor, run by the kernels that the firmware has.
 *
 *     static scare_blob blob;                                  // content: the file, on a word boundary, such as in flash
 *     if (scare_blob_open(&blob, content, bytes, key) == SCARE_OK &&
 *         scare_init(&calibration, &blob.model, memory, sizeof memory) == SCARE_OK)
 *         status = scare_self_test(&calibration, &blob.golden);
 *
 * From then on scare_calibrate, scare_store and all else work as with a model in C. Opening checks everything that a run
 * will rely on; nothing is copied but the numbers of scare_model, so content and blob must stay where they are. Compile
 * all sources with SCARE_SETTLE=1, for blobs of new devices. */
#ifndef SCARE_BLOB_H
#define SCARE_BLOB_H

#include "scare.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 0: without the kernels of one arithmetic, which takes less flash; its blobs are SCARE_FOREIGN. */
#ifndef SCARE_BLOB_FLOAT32
#define SCARE_BLOB_FLOAT32 1
#endif
#ifndef SCARE_BLOB_FIXED
#define SCARE_BLOB_FIXED 1
#endif

/* Bytes of stack, at most, of opening a file before anything is calibrated; most of them check the signature. */
#if defined(SCARE_SLOTS_UNSIGNED) && SCARE_SLOTS_UNSIGNED
#define SCARE_BLOB_OPEN_STACK 640u
#else
#define SCARE_BLOB_OPEN_STACK 1536u
#endif

#define SCARE_BLOB_KERNELS 32u /* different kernels in one file, at most */

typedef struct {
    scare_model model;   /* for scare_init; the first member, by which a run finds the others */
    scare_golden golden; /* for scare_self_test */
    const char *title;   /* what it calibrates, from which channels, for which device */
    uint32_t inputs;     /* checksum of names and units of channels and target: do not run a blob of others */
    uint32_t sequence;   /* larger in files that were signed later; 0: not signed */
    uint32_t bytes;      /* of the file */
    const unsigned char *content;
    uint8_t kernel[SCARE_BLOB_KERNELS]; /* index in the firmware of each kernel of the file */
} scare_blob;

/* Open a file whose signature was made with the private counterpart of `key` (32 bytes); `bytes` may be more than the
 * file has. SCARE_DAMAGED: cut short, changed, or not valid; SCARE_UNSIGNED: signed with another key, or not at all;
 * SCARE_FOREIGN: of another format, or with a kernel that this firmware does not have. */
scare_status scare_blob_open(scare_blob *self, const void *content, size_t bytes, const uint8_t *key);

/* Open any file, signed or not: whoever can write it decides what the device reports. */
scare_status scare_blob_open_unsigned(scare_blob *self, const void *content, size_t bytes);

/* The version of the file as 24 hexadecimal digits and a zero: what `scare live` takes and gives as its ETag. */
void scare_blob_version(const scare_blob *self, char version[25]);

#ifdef __cplusplus
}
#endif

#endif
