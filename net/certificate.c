#include "net/certificate.h"

/* OpenSSL has a type of this name, err.h a constant. */
#define ERR_STATE openssl_err_state
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#undef ERR_STATE

#include <arpa/inet.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "net/origin.h"

#define SERIAL_BITS 127 /* RFC 5280: unique, positive, at most 20 bytes */
#define DEVICE_NAME "paceline device"

static void release_key(EVP_PKEY **key)
{
    EVP_PKEY_free(*key);
}

static void release_certificate(X509 **certificate)
{
    X509_free(*certificate);
}

static void release_bio(BIO **bio)
{
    BIO_free(*bio);
}

/* OpenSSL's reason for its last failure. */
static int openssl_error(int code, const char *what, struct err *err)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    int rc = err_set(err, code, "%s: %s", what, reason ? reason : "OpenSSL states no reason");
    ERR_clear_error();
    return rc;
}

void certificate_pair_init(struct certificate_pair *pair)
{
    buf_init(&pair->certificate, CERTIFICATE_PEM_MAX);
    buf_init(&pair->key, CERTIFICATE_PEM_MAX);
}

void certificate_pair_done(struct certificate_pair *pair)
{
    if (pair->key.data) {
        explicit_bzero(pair->key.data, pair->key.capacity);
    }
    buf_done(&pair->key);
    buf_done(&pair->certificate);
}

/* ---- writing ---- */

/* Set a random serial number, the name, the times and the public key. */
static int fill(X509 *certificate, const char *name, const struct certificate_times *times,
                EVP_PKEY *key)
{
    BIGNUM *serial = BN_new();
    X509_NAME *subject = X509_get_subject_name(certificate);
    const bool done = serial &&
                      BN_rand(serial, SERIAL_BITS, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
                      BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(certificate)) &&
                      X509_set_version(certificate, X509_VERSION_3) == 1 &&
                      X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                                 (const unsigned char *)name, -1, -1, 0) == 1 &&
                      ASN1_TIME_set(X509_getm_notBefore(certificate), (time_t)times->begin) &&
                      ASN1_TIME_set(X509_getm_notAfter(certificate), (time_t)times->end) &&
                      X509_set_pubkey(certificate, key) == 1;
    BN_free(serial);
    return done ? 0 : -1;
}

static int add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    const int rc = extension && X509_add_ext(certificate, extension, -1) == 1 ? 0 : -1;
    X509_EXTENSION_free(extension);
    return rc;
}

static int append_bio(BIO *bio, struct buf *out, struct err *err)
{
    char *data = NULL;
    const long size = BIO_get_mem_data(bio, &data);
    return size > 0 ? buf_append(out, data, (size_t)size, err)
                    : err_set(err, ERR_MEMORY, "no memory for a certificate");
}

/* Append the certificate and its key to the pair, as PEM. */
static int write_pair(X509 *certificate, EVP_PKEY *key, struct certificate_pair *out,
                      struct err *err)
{
    AUTO(release_bio) BIO *certificate_bio = BIO_new(BIO_s_mem());
    AUTO(release_bio) BIO *key_bio = BIO_new(BIO_s_secmem());
    if (!certificate_bio || !key_bio || PEM_write_bio_X509(certificate_bio, certificate) != 1 ||
        PEM_write_bio_PrivateKey(key_bio, key, NULL, NULL, 0, NULL, NULL) != 1) {
        return openssl_error(ERR_MEMORY, "write a certificate", err);
    }
    int rc = append_bio(certificate_bio, &out->certificate, err);
    return rc ? rc : append_bio(key_bio, &out->key, err);
}

/* ---- reading ---- */

static X509 *read_certificate(const char *pem, struct err *err)
{
    AUTO(release_bio) BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    if (!certificate) {
        (void)openssl_error(ERR_FORMAT, "not a certificate in PEM", err);
    }
    return certificate;
}

/* Reject encrypted keys: no user is there to enter a password. */
static int no_password(char *out, int size, int writes, void *arg)
{
    (void)out, (void)size, (void)writes, (void)arg;
    return 0;
}

static EVP_PKEY *read_key(const char *pem, struct err *err)
{
    AUTO(release_bio) BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
    if (!key) {
        (void)openssl_error(ERR_FORMAT, "not a private key in PEM without a password", err);
    }
    return key;
}

/* ---- making ---- */

int certificate_make_authority(const char *name, const struct certificate_times *times,
                               struct certificate_pair *out, struct err *err)
{
    AUTO(release_key) EVP_PKEY *key = EVP_EC_gen("P-256");
    AUTO(release_certificate) X509 *authority = X509_new();
    if (!key || !authority || fill(authority, name, times, key) ||
        X509_set_issuer_name(authority, X509_get_subject_name(authority)) != 1 ||
        add_extension(authority, authority, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
        add_extension(authority, authority, NID_key_usage, "critical,keyCertSign") ||
        add_extension(authority, authority, NID_subject_key_identifier, "hash") ||
        X509_sign(authority, key, EVP_sha256()) == 0) {
        return openssl_error(ERR_MEMORY, "make an authority", err);
    }
    return write_pair(authority, key, out, err);
}

/* Append "DNS:name" or "IP:address" to the list. */
static int add_name(struct buf *names, const char *name, struct err *err)
{
    unsigned char address[sizeof(struct in6_addr)];
    const bool numeric =
        inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
    int rc = numeric ? 0 : origin_check_name(name, err);
    return rc ? rc
              : buf_printf(names, err, "%s%s:%s", names->size ? "," : "", numeric ? "IP" : "DNS",
                           name);
}

int certificate_make_server(const struct certificate_pair *authority, const char *const *name,
                            size_t count, const struct certificate_times *times,
                            struct certificate_pair *out, struct err *err)
{
    ASSERT(count > 0 && count <= CERTIFICATE_NAMES_MAX);
    BUF_AUTO struct buf names;
    buf_init(&names, CERTIFICATE_PEM_MAX);
    for (size_t i = 0; i < count; i++) {
        int rc = add_name(&names, name[i], err);
        if (rc) {
            return rc;
        }
    }
    AUTO(release_certificate) X509 *issuer = read_certificate(authority->certificate.data, err);
    AUTO(release_key) EVP_PKEY *issuer_key = issuer ? read_key(authority->key.data, err) : NULL;
    if (!issuer_key) {
        return ERR_FORMAT;
    }
    AUTO(release_key) EVP_PKEY *key = EVP_EC_gen("P-256");
    AUTO(release_certificate) X509 *server = X509_new();
    if (!key || !server || fill(server, "paceline coordinator", times, key) ||
        X509_set_issuer_name(server, X509_get_subject_name(issuer)) != 1 ||
        add_extension(server, issuer, NID_basic_constraints, "critical,CA:FALSE") ||
        add_extension(server, issuer, NID_key_usage, "critical,digitalSignature") ||
        add_extension(server, issuer, NID_ext_key_usage, "serverAuth") ||
        add_extension(server, issuer, NID_subject_key_identifier, "hash") ||
        add_extension(server, issuer, NID_authority_key_identifier, "keyid") ||
        add_extension(server, issuer, NID_subject_alt_name, names.data) ||
        X509_sign(server, issuer_key, EVP_sha256()) == 0) {
        return openssl_error(ERR_MEMORY, "make a server certificate", err);
    }
    int rc = write_pair(server, key, out, err);
    return rc ? rc
              : buf_append(&out->certificate, authority->certificate.data,
                           authority->certificate.size, err);
}

int certificate_make_device(const uint8_t private_key[HASH_SIZE], struct certificate_pair *out,
                            struct err *err)
{
    /* RFC 5280, 4.1.2.5: this end means "no expiry". */
    static const struct certificate_times always = {0, 253402300799};
    AUTO(release_key)
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, private_key, HASH_SIZE);
    AUTO(release_certificate) X509 *device = X509_new();
    if (!key || !device || fill(device, DEVICE_NAME, &always, key) ||
        X509_set_issuer_name(device, X509_get_subject_name(device)) != 1 ||
        X509_sign(device, key, NULL) == 0) {
        return openssl_error(ERR_MEMORY, "make the certificate of a device", err);
    }
    return write_pair(device, key, out, err);
}

/* ---- inspecting ---- */

int certificate_check(const struct certificate_pair *pair, struct err *err)
{
    AUTO(release_certificate)
    X509 *certificate = read_certificate(pair->certificate.data ? pair->certificate.data : "", err);
    AUTO(release_key)
    EVP_PKEY *key = certificate ? read_key(pair->key.data ? pair->key.data : "", err) : NULL;
    if (!key) {
        return ERR_FORMAT;
    }
    if (X509_check_private_key(certificate, key) != 1) {
        ERR_clear_error();
        return err_set(err, ERR_INVALID, "the key belongs to another certificate");
    }
    return 0;
}

static int read_time(const ASN1_TIME *time, int64_t *out)
{
    int days = 0, seconds = 0;
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    const bool read = epoch && ASN1_TIME_diff(&days, &seconds, epoch, time) == 1;
    ASN1_TIME_free(epoch);
    *out = read ? (int64_t)days * 86400 + seconds : 0;
    return read ? 0 : -1;
}

int certificate_read_times(const char *pem, struct certificate_times *out, struct err *err)
{
    AUTO(release_certificate) X509 *certificate = read_certificate(pem, err);
    struct certificate_times times;
    if (!certificate) {
        return ERR_FORMAT;
    }
    if (read_time(X509_get0_notBefore(certificate), &times.begin) ||
        read_time(X509_get0_notAfter(certificate), &times.end)) {
        return openssl_error(ERR_FORMAT, "the times of a certificate", err);
    }
    *out = times;
    return 0;
}

static void visit_name(const GENERAL_NAME *name, void (*visit)(void *arg, const char *name),
                       void *arg)
{
    char text[INET6_ADDRSTRLEN];
    if (name->type == GEN_DNS) {
        visit(arg, (const char *)ASN1_STRING_get0_data(name->d.dNSName));
    } else if (name->type == GEN_IPADD) {
        const ASN1_OCTET_STRING *address = name->d.iPAddress;
        const int family = ASN1_STRING_length(address) == 4 ? AF_INET : AF_INET6;
        if (inet_ntop(family, ASN1_STRING_get0_data(address), text, sizeof(text))) {
            visit(arg, text);
        }
    }
}

int certificate_each_name(const char *pem, void (*visit)(void *arg, const char *name), void *arg,
                          struct err *err)
{
    AUTO(release_certificate) X509 *certificate = read_certificate(pem, err);
    if (!certificate) {
        return ERR_FORMAT;
    }
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; names && i < sk_GENERAL_NAME_num(names); i++) {
        visit_name(sk_GENERAL_NAME_value(names, i), visit, arg);
    }
    GENERAL_NAMES_free(names);
    return 0;
}

int certificate_fingerprint(const char *pem, char out[HASH_TEXT_SIZE], struct err *err)
{
    AUTO(release_certificate) X509 *certificate = read_certificate(pem, err);
    unsigned char *der = NULL;
    const int size = certificate ? i2d_X509(certificate, &der) : 0;
    if (size <= 0) {
        return ERR_FORMAT;
    }
    sha256_text(der, (size_t)size, out);
    OPENSSL_free(der);
    return 0;
}

int certificate_take_pinned(const char *pem, const char *sha256, struct buf *out, struct err *err)
{
    char found[HASH_TEXT_SIZE];
    int rc = certificate_fingerprint(pem, found, err);
    if (rc) {
        return rc;
    }
    if (strcmp(found, sha256) != 0) {
        return err_set(err, ERR_INVALID, "the certificate has the SHA-256 %s, not %s", found,
                       sha256);
    }
    AUTO(release_certificate) X509 *certificate = read_certificate(pem, err);
    AUTO(release_bio) BIO *bio = BIO_new(BIO_s_mem());
    if (!certificate || !bio || PEM_write_bio_X509(bio, certificate) != 1) {
        return openssl_error(ERR_MEMORY, "write a certificate", err);
    }
    return append_bio(bio, out, err);
}

int certificate_key(const void *der, size_t size, uint8_t public_key[HASH_SIZE], struct err *err)
{
    const unsigned char *at = der;
    AUTO(release_certificate)
    X509 *certificate = size <= LONG_MAX ? d2i_X509(NULL, &at, (long)size) : NULL;
    const EVP_PKEY *key = certificate ? X509_get0_pubkey(certificate) : NULL;
    uint8_t point[HASH_SIZE];
    size_t point_size = sizeof(point);
    if (!key || EVP_PKEY_get_id(key) != EVP_PKEY_ED25519 ||
        EVP_PKEY_get_raw_public_key(key, point, &point_size) != 1 || point_size != HASH_SIZE) {
        ERR_clear_error();
        return err_set(err, ERR_FORMAT, "the certificate holds no Ed25519 key");
    }
    memcpy(public_key, point, sizeof(point));
    return 0;
}
