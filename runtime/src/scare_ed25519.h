/* Verification of Ed25519 signatures (RFC 8032, section 5.1.7). */
#ifndef SCARE_ED25519_H
#define SCARE_ED25519_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCARE_KEY_BYTES 32u
#define SCARE_SIGNATURE_BYTES 64u

/* Whether the signature of a message was made with the key; 1 or 0. */
int scare_ed25519_verify(const uint8_t *signature, const uint8_t *key, const void *message, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
