/* http_tls.h: TLS of the server. libmicrohttpd runs the handshakes and transfers the bytes through
 * a GnuTLS session for each connection. This module provides the certificate, and sends and
 * receives the server's own bytes through the same session. For the modules of the server only; on
 * its thread. */
#ifndef NET_HTTP_TLS_H
#define NET_HTTP_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <gnutls/abstract.h>

#include "base/err.h"
#include "net/hash.h"
#include "net/tls.h"

struct http_exchange;
struct http_tls; /* the certificates of a server */

/* Protocols and ciphers: TLS 1.2 and 1.3, authenticated encryption, ephemeral keys. */
#define HTTP_TLS_PRIORITIES                                                                        \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-CIPHER-ALL:+AES-256-GCM:+AES-128-GCM:"            \
    "+CHACHA20-POLY1305:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA"

NODISCARD int http_tls_new(const struct tls_server *config, struct http_tls **out, struct err *err);
void http_tls_free(struct http_tls **tls);
/* Use another certificate from the next handshake on. After a failure the old one stays. */
NODISCARD int http_tls_replace(struct http_tls *tls, const struct tls_server *config,
                               struct err *err);
/* Provide the certificate of a handshake; a callback of GnuTLS. */
int http_tls_choose(gnutls_session_t session, const gnutls_datum_t *issuers, int issuer_count,
                    const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                    gnutls_pcert_st **chain, unsigned *chain_length, gnutls_privkey_t *key);

/* Begin a connection, before its first byte is read. */
void http_tls_begin(struct http_exchange *exchange);
/* End a connection, whose session no longer exists: log a failed handshake. */
void http_tls_end(struct http_exchange *exchange);
/* Return whether the client's first byte is that of an HTTP request without TLS. */
bool http_tls_is_plain(const struct http_exchange *exchange);
/* Return whether there are decrypted bytes that libmicrohttpd has not read. */
bool http_tls_pending(const struct http_exchange *exchange);
/* Send bytes while libmicrohttpd is not sending. Returns whether all bytes were sent. */
bool http_tls_send(struct http_exchange *exchange, const void *data, size_t size);
/* Read the Ed25519 key that the client has proved to hold; false: none. */
bool http_tls_peer_key(struct http_exchange *exchange, uint8_t key[HASH_SIZE]);

#endif
