/* Verification of Ed25519 signatures (RFC 8032, section 5.1.7), and SHA-512. */
#ifndef SCARE_ED25519_H
#define SCARE_ED25519_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCARE_KEY_BYTES 32u
#define SCARE_SIGNATURE_BYTES 64u
#define SCARE_SHA512_BYTES 64u

/* Whether the signature of a message was made with the key; 1 or 0. */
int scare_ed25519_verify(const uint8_t *signature, const uint8_t *key, const void *message, size_t bytes);

/* Write the 64 bytes of a SHA-512 (FIPS 180-4). */
void scare_sha512(uint8_t *digest, const void *content, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
