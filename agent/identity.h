/* identity.h: the identity of this device: an Ed25519 key in STATE_DIR/identity, made at the first
 * start, and the lock that keeps a second agent out of the directory. For main. */
#ifndef AGENT_IDENTITY_H
#define AGENT_IDENTITY_H

#include "base/err.h"
#include "net/certificate.h"
#include "schema/limits.h"

struct identity {
    char public_key[SHA256_SIZE];        /* hexadecimal */
    char boot[ID_SIZE];                  /* new at each start */
    struct certificate_pair certificate; /* the container of the key, for TLS */
    int lock;                            /* held until identity_done */
};

/* Open the identity, creating the key if it is missing. ERR_STATE: another agent uses the
 * directory. ERR_FORMAT: the file is not an identity. */
NODISCARD int identity_open(const char *state_directory, struct identity *out, struct err *err);
void identity_done(struct identity *identity);

#endif
