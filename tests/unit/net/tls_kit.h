/* tls_kit.h: the certificates of a test, and a raw client that speaks TLS, for versions and
 * requests that libcurl would not use. */
#ifndef TESTS_UNIT_NET_TLS_KIT_H
#define TESTS_UNIT_NET_TLS_KIT_H

#include <gnutls/gnutls.h>
#include <stddef.h>
#include <stdint.h>

#include "net/certificate.h"
#include "net/tls.h"
#include "tests/unit/net/serve.h"

/* An authority, a server of it with the name 127.0.0.1, and a device. */
struct tls_kit {
    struct certificate_pair authority, server_pair, device_pair;
    uint8_t device_private[HASH_SIZE], device_key[HASH_SIZE];
    struct tls_server server;
    struct tls_client client; /* trusts the authority; no certificate */
    struct tls_client device; /* the same with the device's certificate */
};
void tls_kit_make(struct tls_kit *kit);
void tls_kit_done(struct tls_kit *kit);
/* Another server certificate of the authority. */
void tls_kit_server(const struct tls_kit *kit, const char *name,
                    const struct certificate_times *times, struct certificate_pair *out);

/* A connection to the server. */
struct raw_tls {
    int fd;
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
};
/* Connect and shake hands with GnuTLS' priorities (NULL: its usual ones), trusting anything.
 * Returns GnuTLS' code; raw_tls_close follows in any case. */
int raw_tls_open(const struct serve *serve, const char *priorities, struct raw_tls *out);
void raw_tls_close(struct raw_tls *raw);
void raw_tls_send(struct raw_tls *raw, const char *text);
/* Read until `part` was seen; NULL: until the other side ends. */
void raw_tls_read(struct raw_tls *raw, const char *part, char *out, size_t size);

#endif
