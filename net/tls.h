/* tls.h: what a server and a client of net need to speak TLS: PEM texts. Only TLS 1.3 and 1.2 are
 * spoken. Any thread. */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include "net/hash.h"

/* Clients are asked for a certificate but need none: see http_peer_key. */
struct tls_server {
    const char *certificate; /* with those of its issuers after it; NULL: no TLS */
    const char *key;
};

/* Whom a client trusts, and who it is. The texts stay in place, unchanged, while clients that used
 * them exist. */
struct tls_client {
    /* Trust these authorities, whatever the clock says: a device without a battery has no time.
     * NULL: the system's, within their times. */
    const char *ca;
    const char *certificate, *key; /* shown to the server; NULL: none */
    /* Trust the server with this Ed25519 key and no other; its name and issuer do not matter. */
    bool pinned;
    uint8_t server_key[HASH_SIZE];
    /* Trust any server: only to fetch what is compared with a known hash. */
    bool unverified;
};

#endif
