#include "net/http_trust.h"

/* OpenSSL has a type of this name, err.h a constant. */
#define ERR_STATE openssl_err_state
#include <openssl/evp.h>
#include <openssl/ssl.h>
#undef ERR_STATE

#include <string.h>

/* Let OpenSSL check the certificates but not their period of validity. */
static CURLcode ignore_time(CURL *easy, void *context, void *arg)
{
    (void)easy;
    (void)arg;
    return X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_NO_CHECK_TIME) == 1
               ? CURLE_OK
               : CURLE_OUT_OF_MEMORY;
}

static CURLcode set_text(CURL *easy, CURLoption option, const char *pem)
{
    /* libcurl wants a pointer to bytes that may be written, but only reads them. */
    const union {
        const char *in;
        char *out;
    } data = {.in = pem};
    struct curl_blob blob = {
        .data = data.out, .len = pem ? strlen(pem) : 0, .flags = CURL_BLOB_NOCOPY};
    return curl_easy_setopt(easy, option, pem ? &blob : NULL);
}

/* A pin is "sha256//" and the digest of the server's public key in its binary form. For Ed25519
 * that form is twelve fixed bytes and the key (RFC 8410, 4). */
static CURLcode set_pin(CURL *easy, const uint8_t key[HASH_SIZE])
{
    static const uint8_t prefix[12] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                       0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
    uint8_t public_key[sizeof(prefix) + HASH_SIZE];
    uint8_t digest[HASH_SIZE];
    char pin[64] = "sha256//";
    memcpy(public_key, prefix, sizeof(prefix));
    memcpy(public_key + sizeof(prefix), key, HASH_SIZE);
    if (EVP_Digest(public_key, sizeof(public_key), digest, NULL, EVP_sha256(), NULL) != 1) {
        return CURLE_OUT_OF_MEMORY;
    }
    (void)EVP_EncodeBlock((unsigned char *)pin + strlen(pin), digest, sizeof(digest));
    return curl_easy_setopt(easy, CURLOPT_PINNEDPUBLICKEY, pin);
}

static bool same_tls(const struct tls_client *a, const struct tls_client *b)
{
    return a->ca == b->ca && a->certificate == b->certificate && a->key == b->key &&
           a->pinned == b->pinned && a->unverified == b->unverified &&
           memcmp(a->server_key, b->server_key, HASH_SIZE) == 0;
}

/* The authorities of the call replace those of the system. A pinned key needs no authorities, and
 * an unverified call accepts any server. */
static CURLcode set_trust(CURL *easy, const struct tls_client *tls)
{
    const curl_version_info_data *built = curl_version_info(CURLVERSION_NOW);
    const bool system = !tls->ca && !tls->pinned && !tls->unverified;
    const long verifies = tls->pinned || tls->unverified ? 0 : 1;
    CURLcode code = curl_easy_setopt(easy, CURLOPT_CAINFO, system ? built->cainfo : NULL);
    code = code ? code : curl_easy_setopt(easy, CURLOPT_CAPATH, system ? built->capath : NULL);
    code = code ? code : set_text(easy, CURLOPT_CAINFO_BLOB, tls->ca);
    code = code ? code : curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, verifies);
    code = code ? code : curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2 * verifies);
    code = code ? code
                : curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION,
                                   tls->ca ? ignore_time : (curl_ssl_ctx_callback)NULL);
    if (code) {
        return code;
    }
    return tls->pinned ? set_pin(easy, tls->server_key)
                       : curl_easy_setopt(easy, CURLOPT_PINNEDPUBLICKEY, NULL);
}

int http_trust_set(CURL *easy, struct tls_client *present, const struct tls_client *wanted,
                   struct err *err)
{
    static const struct tls_client none;
    const struct tls_client *tls = wanted ? wanted : &none;
    if (same_tls(present, tls)) {
        return 0;
    }
    *present = none;
    CURLcode code = set_trust(easy, tls);
    code = code ? code : set_text(easy, CURLOPT_SSLCERT_BLOB, tls->certificate);
    code = code ? code : set_text(easy, CURLOPT_SSLKEY_BLOB, tls->key);
    if (code) {
        return err_set(err, ERR_MEMORY, "set up TLS: %s", curl_easy_strerror(code));
    }
    *present = *tls;
    return 0;
}
