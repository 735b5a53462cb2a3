/* tls.h: the TLS settings of a server and of a client of net: PEM texts. Only TLS 1.3 and 1.2 are
 * supported. Any thread. */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include "net/hash.h"

/* The server requests a certificate of clients, but does not require one: see http_peer_key. */
struct tls_server {
    const char *certificate; /* followed by those of its issuers; NULL: no TLS */
    const char *key;
};

/* The authorities that a client trusts, and its own certificate. The texts must stay in place,
 * unchanged, while clients that used them exist. */
struct tls_client {
    /* Trust these authorities and ignore their period of validity, because a device without a
     * battery does not know the time. NULL: the system's authorities, within their validity. */
    const char *ca;
    const char *certificate, *key; /* shown to the server; NULL: none */
    /* Trust the server with this Ed25519 key and no other; its name and issuer do not matter. */
    bool pinned;
    uint8_t server_key[HASH_SIZE];
    /* Trust any server: only to fetch bytes that are compared with a known hash. */
    bool unverified;
};

#endif
