#include "net/http_tls.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "net/certificate.h"
#include "net/http_exchange.h"

#define CHAIN_MAX 8
/* Any client can cause failures: log at most one line in this time. */
#define FAILURES_LOG_MS 1000

/* A certificate with its key, in the form of GnuTLS. A handshake borrows them and may last until
 * its connection's deadline. So a replaced credential is kept until the server ends. Replacements
 * happen every few months. */
struct credential {
    gnutls_pcert_st chain[CHAIN_MAX];
    unsigned chain_length;
    gnutls_privkey_t key;
    struct credential *older;
};

struct http_tls {
    struct credential *present;
    int64_t logged_ms; /* when a failure was last logged */
    uint64_t unlogged;
};

/* ---- certificates ---- */

static void credential_free(struct credential *credential)
{
    for (unsigned i = 0; i < credential->chain_length; i++) {
        gnutls_pcert_deinit(&credential->chain[i]);
    }
    gnutls_privkey_deinit(credential->key);
    free(credential);
}

static int check(const struct tls_server *config, struct err *err)
{
    struct certificate_pair pair AUTO(certificate_pair_done);
    certificate_pair_init(&pair);
    int rc = buf_append(&pair.certificate, config->certificate, strlen(config->certificate), err);
    rc = rc ? rc : buf_append(&pair.key, config->key, strlen(config->key), err);
    return rc ? rc : certificate_check(&pair, err);
}

/* GnuTLS wants a pointer to bytes that may be written, but only reads them. */
static gnutls_datum_t datum_of(const char *text)
{
    const union {
        const char *in;
        unsigned char *out;
    } data = {.in = text};
    return (gnutls_datum_t){.data = data.out, .size = (unsigned)strlen(text)};
}

int http_tls_replace(struct http_tls *tls, const struct tls_server *config, struct err *err)
{
    int rc = check(config, err);
    if (rc) {
        return rc;
    }
    struct credential *credential = calloc(1, sizeof(*credential));
    if (!credential || gnutls_privkey_init(&credential->key) < 0) {
        free(credential);
        return err_set(err, ERR_MEMORY, "no memory for a certificate");
    }
    const gnutls_datum_t certificate = datum_of(config->certificate), key = datum_of(config->key);
    unsigned length = CHAIN_MAX;
    int verdict = gnutls_pcert_list_import_x509_raw(credential->chain, &length, &certificate,
                                                    GNUTLS_X509_FMT_PEM, 0);
    credential->chain_length = verdict < 0 ? 0 : length;
    if (verdict >= 0) {
        verdict =
            gnutls_privkey_import_x509_raw(credential->key, &key, GNUTLS_X509_FMT_PEM, NULL, 0);
    }
    if (verdict < 0) {
        credential_free(credential);
        return err_set(err, ERR_FORMAT, "GnuTLS cannot use the certificate: %s",
                       gnutls_strerror(verdict));
    }
    credential->older = tls->present;
    tls->present = credential;
    return 0;
}

int http_tls_new(const struct tls_server *config, struct http_tls **out, struct err *err)
{
    struct http_tls *tls = calloc(1, sizeof(*tls));
    if (!tls) {
        return err_set(err, ERR_MEMORY, "no memory for the HTTP server");
    }
    int rc = http_tls_replace(tls, config, err);
    if (rc) {
        http_tls_free(&tls);
        return rc;
    }
    *out = tls;
    return 0;
}

void http_tls_free(struct http_tls **tls)
{
    if (*tls) {
        while ((*tls)->present) {
            struct credential *dying = (*tls)->present;
            (*tls)->present = dying->older;
            credential_free(dying);
        }
        free(*tls);
        *tls = NULL;
    }
}

/* ---- handshakes ---- */

/* libmicrohttpd sets its connection as the pointer of the session. */
static struct http_exchange *exchange_of(gnutls_session_t session)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        gnutls_session_get_ptr(session), MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    ASSERT(info && info->socket_context);
    return info->socket_context;
}

int http_tls_choose(gnutls_session_t session, const gnutls_datum_t *issuers, int issuer_count,
                    const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                    gnutls_pcert_st **chain, unsigned *chain_length, gnutls_privkey_t *key)
{
    (void)issuers, (void)issuer_count, (void)algorithms, (void)algorithm_count;
    struct credential *credential = exchange_of(session)->server->tls->present;
    *chain = credential->chain;
    *chain_length = credential->chain_length;
    *key = credential->key;
    return 0;
}

static int on_message(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                      const gnutls_datum_t *message)
{
    (void)message;
    struct http_exchange *exchange = exchange_of(session);
    if (type == GNUTLS_HANDSHAKE_CLIENT_HELLO && incoming) {
        exchange->handshake = HANDSHAKE_ASKED;
    } else if (type == GNUTLS_HANDSHAKE_SERVER_HELLO && !incoming) {
        exchange->handshake = HANDSHAKE_ANSWERED;
    } else if (type == GNUTLS_HANDSHAKE_FINISHED && incoming && when == GNUTLS_HOOK_POST) {
        exchange->handshake = HANDSHAKE_DONE;
    }
    return 0;
}

void http_tls_begin(struct http_exchange *exchange)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    ASSERT(info && info->tls_session);
    exchange->session = info->tls_session;
    exchange->handshake = HANDSHAKE_NONE;
    exchange->peer = PEER_UNREAD;
    gnutls_certificate_server_set_request(exchange->session, GNUTLS_CERT_REQUEST);
    gnutls_handshake_set_hook_function(exchange->session, GNUTLS_HANDSHAKE_ANY, GNUTLS_HOOK_BOTH,
                                       on_message);
}

void http_tls_end(struct http_exchange *exchange)
{
    static const char *const reasons[] = {
        [HANDSHAKE_ASKED] = "the client offers neither TLS 1.3 nor 1.2, or no common cipher",
        [HANDSHAKE_ANSWERED] = "the client rejects the certificate of this server, or vanished",
    };
    struct http_server *server = exchange->server;
    struct http_tls *tls = server->tls;
    exchange->session = NULL;
    if (exchange->handshake != HANDSHAKE_ASKED && exchange->handshake != HANDSHAKE_ANSWERED) {
        return;
    }
    if (server->now_ms - tls->logged_ms < FAILURES_LOG_MS && tls->logged_ms > 0) {
        tls->unlogged++;
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct address client = {0};
    if (info && info->client_addr) {
        address_set(&client, info->client_addr);
    }
    log_info("tls_handshake_failed", "client=%s others=%llu reason=%s", client.text,
             (unsigned long long)tls->unlogged, log_quote(reasons[exchange->handshake]).text);
    tls->logged_ms = server->now_ms;
    tls->unlogged = 0;
}

bool http_tls_is_plain(const struct http_exchange *exchange)
{
    enum { TLS_HANDSHAKE_RECORD = 0x16 };
    unsigned char first = 0;
    return recv(exchange->socket_fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 &&
           first != TLS_HANDSHAKE_RECORD;
}

/* ---- an open connection ---- */

bool http_tls_pending(const struct http_exchange *exchange)
{
    return exchange->session && gnutls_record_check_pending(exchange->session) > 0;
}

bool http_tls_send(struct http_exchange *exchange, const void *data, size_t size)
{
    const char *bytes = data;
    while (size > 0) {
        /* A record that is not sent at once stays open in the session, and nothing may be sent
         * after it. */
        const ssize_t count = gnutls_record_send(exchange->session, bytes, size);
        if (count <= 0 || (size_t)count > size) {
            return false;
        }
        bytes += count;
        size -= (size_t)count;
    }
    return true;
}

bool http_tls_peer_key(struct http_exchange *exchange, uint8_t key[HASH_SIZE])
{
    if (exchange->peer == PEER_UNREAD) {
        unsigned count = 0;
        const gnutls_datum_t *chain = gnutls_certificate_get_peers(exchange->session, &count);
        const bool has = count > 0 && certificate_key(chain[0].data, chain[0].size,
                                                      exchange->peer_key, NULL) == 0;
        exchange->peer = has ? PEER_HAS_KEY : PEER_HAS_NONE;
    }
    if (exchange->peer == PEER_HAS_KEY) {
        memcpy(key, exchange->peer_key, HASH_SIZE);
    }
    return exchange->peer == PEER_HAS_KEY;
}
