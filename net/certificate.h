/* certificate.h: makes and reads keys and X.509 certificates, as PEM texts: the coordinator's own
 * authority, its server certificate, the container of a device's key. Wraps OpenSSL, which only net
 * includes. Any thread. */
#ifndef NET_CERTIFICATE_H
#define NET_CERTIFICATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/hash.h"

#define CERTIFICATE_NAMES_MAX 32
#define CERTIFICATE_PEM_MAX ((size_t)256 << 10) /* a chain, or a key */

/* A key and its certificate, followed by the certificates of its issuers. */
struct certificate_pair {
    struct buf certificate, key; /* PEM */
};
void certificate_pair_init(struct certificate_pair *pair);
void certificate_pair_done(struct certificate_pair *pair); /* the key's memory is cleared */

/* The period of validity, in seconds since 1970 UTC. */
struct certificate_times {
    int64_t begin, end;
};

/* Make a new authority: a P-256 key and its certificate, which may sign only certificates of
 * servers. name: for people. */
NODISCARD int certificate_make_authority(const char *name, const struct certificate_times *times,
                                         struct certificate_pair *out, struct err *err);
/* Make a P-256 key and a certificate of a server, signed by the authority. name[count]: host names
 * and numeric addresses, at least one. ERR_INVALID: a name is neither; err states it. */
NODISCARD int certificate_make_server(const struct certificate_pair *authority,
                                      const char *const *name, size_t count,
                                      const struct certificate_times *times,
                                      struct certificate_pair *out, struct err *err);
/* Make the container of an Ed25519 key (net/hash.h): a self-signed certificate, always valid. */
NODISCARD int certificate_make_device(const uint8_t private_key[HASH_SIZE],
                                      struct certificate_pair *out, struct err *err);

/* Check that key and certificate are readable and belong together. ERR_FORMAT: unreadable;
 * ERR_INVALID: the key is of another certificate. */
NODISCARD int certificate_check(const struct certificate_pair *pair, struct err *err);
/* Read the validity of the first certificate of a text. ERR_FORMAT. */
NODISCARD int certificate_read_times(const char *pem, struct certificate_times *out,
                                     struct err *err);
/* Call visit for each name and address of the first certificate. ERR_FORMAT. */
NODISCARD int certificate_each_name(const char *pem, void (*visit)(void *arg, const char *name),
                                    void *arg, struct err *err);
/* Write the SHA-256 of the first certificate, which people compare. ERR_FORMAT. */
NODISCARD int certificate_fingerprint(const char *pem, char out[HASH_TEXT_SIZE], struct err *err);
/* Append the first certificate of a text if it has this fingerprint (hexadecimal). Later
 * certificates are not appended, because they were not compared. ERR_FORMAT; ERR_INVALID: it has
 * another fingerprint, which err states. */
NODISCARD int certificate_take_pinned(const char *pem, const char *sha256, struct buf *out,
                                      struct err *err);
/* Read the Ed25519 key of a certificate in DER form. ERR_FORMAT: the key is of another kind. */
NODISCARD int certificate_key(const void *der, size_t size, uint8_t public_key[HASH_SIZE],
                              struct err *err);

#endif
