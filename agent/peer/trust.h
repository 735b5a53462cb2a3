/* trust.h: the TLS settings of this device: its own identity, and the peers that its calls trust.
 * It trusts the coordinator by the CA, and another device only by the key that the assignment
 * names. Filled before the first thread, constant afterwards. */
#ifndef AGENT_PEER_TRUST_H
#define AGENT_PEER_TRUST_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/certificate.h"
#include "net/tls.h"

struct trust {
    bool tls;                      /* this device and its coordinator speak TLS */
    struct buf ca;                 /* PEM */
    struct tls_client coordinator; /* of calls to it */
    struct tls_server server;      /* of the listener for other agents */
};

/* ca_file: the coordinator's CA; "": the system's CAs. own: the container of this device's key,
 * borrowed. ERR_FORMAT: the file holds no certificate. */
NODISCARD int trust_open(const char *ca_file, const struct certificate_pair *own, struct trust *out,
                         struct err *err);
void trust_done(struct trust *trust);
/* Set the TLS settings of calls to the device with this key (hexadecimal). "" matches no key. trust
 * NULL, or without TLS: no settings. */
void trust_peer(const struct trust *trust, const char *public_key, struct tls_client *out);

#endif
