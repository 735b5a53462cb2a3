#include "tests/unit/net/tls_kit.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "tests/support/test.h"

/* 2020 to 2120. */
static const struct certificate_times wide = {1577836800, 4733510400};

void tls_kit_server(const struct tls_kit *kit, const char *name,
                    const struct certificate_times *times, struct certificate_pair *out)
{
    struct err err = {0};
    certificate_pair_init(out);
    assert_ok(certificate_make_server(&kit->authority, &name, 1, times, out, &err), &err);
}

void tls_kit_make(struct tls_kit *kit)
{
    struct err err = {0};
    *kit = (struct tls_kit){0};
    certificate_pair_init(&kit->authority);
    certificate_pair_init(&kit->device_pair);
    assert_ok(certificate_make_authority("test", &wide, &kit->authority, &err), &err);
    tls_kit_server(kit, "127.0.0.1", &wide, &kit->server_pair);
    assert_ok(key_make(kit->device_private, kit->device_key, &err), &err);
    assert_ok(certificate_make_device(kit->device_private, &kit->device_pair, &err), &err);
    kit->server = (struct tls_server){kit->server_pair.certificate.data, kit->server_pair.key.data};
    kit->client = (struct tls_client){.ca = kit->authority.certificate.data};
    kit->device = kit->client;
    kit->device.certificate = kit->device_pair.certificate.data;
    kit->device.key = kit->device_pair.key.data;
}

void tls_kit_done(struct tls_kit *kit)
{
    certificate_pair_done(&kit->authority);
    certificate_pair_done(&kit->server_pair);
    certificate_pair_done(&kit->device_pair);
}

int raw_tls_open(const struct serve *serve, const char *priorities, struct raw_tls *out)
{
    out->fd = raw_connect(serve);
    ASSERT(setsockopt(out->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0);
    ASSERT(gnutls_certificate_allocate_credentials(&out->credentials) == 0);
    ASSERT(gnutls_init(&out->session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL) == 0);
    ASSERT(gnutls_priority_set_direct(out->session, priorities ? priorities : "NORMAL", NULL) == 0);
    ASSERT(gnutls_credentials_set(out->session, GNUTLS_CRD_CERTIFICATE, out->credentials) == 0);
    gnutls_transport_set_int(out->session, out->fd);
    int rc;
    do {
        rc = gnutls_handshake(out->session);
    } while (rc == GNUTLS_E_INTERRUPTED);
    return rc;
}

void raw_tls_close(struct raw_tls *raw)
{
    gnutls_deinit(raw->session);
    gnutls_certificate_free_credentials(raw->credentials);
    close(raw->fd);
}

void raw_tls_send(struct raw_tls *raw, const char *text)
{
    const size_t size = strlen(text);
    assert_int_equal(gnutls_record_send(raw->session, text, size), size);
}

void raw_tls_read(struct raw_tls *raw, const char *part, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    while (!part || !strstr(out, part)) {
        assert_true(used + 1 < size);
        const ssize_t count = gnutls_record_recv(raw->session, out + used, size - used - 1);
        if (count == 0 || count == GNUTLS_E_PREMATURE_TERMINATION ||
            (count == GNUTLS_E_PULL_ERROR && errno == ECONNRESET)) {
            break;
        }
        assert_true(count > 0);
        used += (size_t)count;
        out[used] = '\0';
    }
    if (part) {
        assert_holds(out, part);
    }
}
