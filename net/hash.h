/* hash.h: SHA-256, HMAC, base64, random bytes and Ed25519 keys. Wraps OpenSSL, which only net
 * includes. Any thread; a struct sha256 belongs to one thread. */
#ifndef NET_HASH_H
#define NET_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define HASH_SIZE 32
#define HASH_TEXT_SIZE 65 /* lower-case hexadecimal + NUL */

struct sha256; /* a running hash */

NODISCARD int sha256_new(struct sha256 **out, struct err *err);
void sha256_free(struct sha256 **hash);
void sha256_update(struct sha256 *hash, const void *data, size_t size);
/* Write the hash of all bytes so far as text, and restart the hash. */
void sha256_finish_text(struct sha256 *hash, char out[HASH_TEXT_SIZE]);
/* Hash in one call. */
void sha256_text(const void *data, size_t size, char out[HASH_TEXT_SIZE]);
/* Compute the HMAC-SHA-256 of a text, as text, for tickets. */
void hmac_text(const uint8_t key[HASH_SIZE], const char *text, char out[HASH_TEXT_SIZE]);
/* Compute the HMAC-SHA-256 as base64, for signatures of messages to other programs. */
#define HMAC_BASE64_SIZE 45
void hmac_base64(const void *key, size_t key_size, const void *data, size_t size,
                 char out[HMAC_BASE64_SIZE]);
/* Decode base64 (RFC 4648, section 4, with its padding) into at most `capacity` bytes. Returns the
 * size; -1: not base64, or more than `capacity` bytes. */
int base64_decode(const char *text, void *out, size_t capacity);

/* Fill `out` with bytes from the system's entropy. */
NODISCARD int random_bytes(void *out, size_t size, struct err *err);

/* Make an Ed25519 key pair; `private_key` is the 32-byte seed. */
NODISCARD int key_make(uint8_t private_key[HASH_SIZE], uint8_t public_key[HASH_SIZE],
                       struct err *err);
NODISCARD int key_public(const uint8_t private_key[HASH_SIZE], uint8_t public_key[HASH_SIZE],
                         struct err *err);

#endif
