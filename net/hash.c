#include "net/hash.h"

/* OpenSSL has a type of this name, err.h a constant. */
#define ERR_STATE openssl_err_state
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#undef ERR_STATE

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/parse.h"

#define BASE64_DECODED_MAX 768

struct sha256 {
    EVP_MD_CTX *context;
};

static void key_release(EVP_PKEY **key)
{
    EVP_PKEY_free(*key);
}

int sha256_new(struct sha256 **out, struct err *err)
{
    struct sha256 *hash = calloc(1, sizeof(*hash));
    if (!hash) {
        return err_set(err, ERR_MEMORY, "no memory for a hash");
    }
    hash->context = EVP_MD_CTX_new();
    if (!hash->context || EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL) != 1) {
        sha256_free(&hash);
        return err_set(err, ERR_MEMORY, "no memory for a hash");
    }
    *out = hash;
    return 0;
}

void sha256_free(struct sha256 **hash)
{
    if (*hash) {
        EVP_MD_CTX_free((*hash)->context);
        free(*hash);
        *hash = NULL;
    }
}

void sha256_update(struct sha256 *hash, const void *data, size_t size)
{
    /* Once initialised, SHA-256 fails only if its context is misused. */
    ASSERT(EVP_DigestUpdate(hash->context, data, size) == 1);
}

void sha256_finish_text(struct sha256 *hash, char out[HASH_TEXT_SIZE])
{
    uint8_t digest[HASH_SIZE];
    ASSERT(EVP_DigestFinal_ex(hash->context, digest, NULL) == 1);
    ASSERT(EVP_DigestInit_ex(hash->context, NULL, NULL) == 1);
    parse_to_hex(digest, sizeof(digest), out);
}

void sha256_text(const void *data, size_t size, char out[HASH_TEXT_SIZE])
{
    uint8_t digest[HASH_SIZE];
    ASSERT(SHA256(data, size, digest) != NULL);
    parse_to_hex(digest, sizeof(digest), out);
}

void hmac_text(const uint8_t key[HASH_SIZE], const char *text, char out[HASH_TEXT_SIZE])
{
    uint8_t digest[HASH_SIZE];
    unsigned size = 0;
    ASSERT(HMAC(EVP_sha256(), key, HASH_SIZE, (const unsigned char *)text, strlen(text), digest,
                &size) != NULL);
    ASSERT(size == HASH_SIZE);
    parse_to_hex(digest, sizeof(digest), out);
}

void hmac_base64(const void *key, size_t key_size, const void *data, size_t size,
                 char out[HMAC_BASE64_SIZE])
{
    uint8_t digest[HASH_SIZE];
    unsigned digest_size = 0;
    ASSERT(key_size <= INT_MAX);
    ASSERT(HMAC(EVP_sha256(), key, (int)key_size, data, size, digest, &digest_size) != NULL);
    ASSERT(digest_size == HASH_SIZE);
    ASSERT(EVP_EncodeBlock((unsigned char *)out, digest, HASH_SIZE) == HMAC_BASE64_SIZE - 1);
}

/* Check the characters and the size. *padding: the count of '='. */
static bool is_base64(const char *text, size_t *padding)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t length = strspn(text, digits);
    *padding = strspn(text + length, "=");
    return text[length + *padding] == '\0' && *padding <= 2 && (length + *padding) % 4 == 0 &&
           length > 0;
}

int base64_decode(const char *text, void *out, size_t capacity)
{
    uint8_t block[BASE64_DECODED_MAX];
    size_t padding;
    const size_t length = strlen(text);
    if (length / 4 * 3 > sizeof(block) || !is_base64(text, &padding)) {
        return -1;
    }
    /* OpenSSL counts the padding as bytes. */
    const int size =
        EVP_DecodeBlock(block, (const unsigned char *)text, (int)length) - (int)padding;
    if (size < 0 || (size_t)size > capacity) {
        return -1;
    }
    memcpy(out, block, (size_t)size);
    OPENSSL_cleanse(block, sizeof(block));
    return size;
}

int random_bytes(void *out, size_t size, struct err *err)
{
    uint8_t *bytes = out;
    for (size_t done = 0; done < size;) {
        ssize_t count = getrandom(bytes + done, size - done, 0);
        if (count < 0 && errno != EINTR) {
            return err_set(err, ERR_IO, "getrandom: %s", strerror(errno));
        }
        done += count > 0 ? (size_t)count : 0;
    }
    return 0;
}

int key_make(uint8_t private_key[HASH_SIZE], uint8_t public_key[HASH_SIZE], struct err *err)
{
    uint8_t seed[HASH_SIZE];
    uint8_t point[HASH_SIZE];
    int rc = random_bytes(seed, sizeof(seed), err);
    if (!rc) {
        rc = key_public(seed, point, err);
    }
    if (!rc) {
        memcpy(private_key, seed, sizeof(seed));
        memcpy(public_key, point, sizeof(point));
    }
    OPENSSL_cleanse(seed, sizeof(seed));
    return rc;
}

int key_public(const uint8_t private_key[HASH_SIZE], uint8_t public_key[HASH_SIZE], struct err *err)
{
    AUTO(key_release)
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, private_key, HASH_SIZE);
    uint8_t point[HASH_SIZE];
    size_t size = sizeof(point);
    if (!key || EVP_PKEY_get_raw_public_key(key, point, &size) != 1 || size != HASH_SIZE) {
        return err_set(err, ERR_MEMORY, "no memory for an Ed25519 key");
    }
    memcpy(public_key, point, size);
    return 0;
}
