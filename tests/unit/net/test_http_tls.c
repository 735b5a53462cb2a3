#include "net/http_tls.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/parse.h"
#include "net/http_client.h"
#include "tests/support/test.h"
#include "tests/unit/net/tls_kit.h"

#define ONLY(version) "NORMAL:-VERS-ALL:+VERS-" version
#define REQUEST(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

struct fixture {
    struct tls_kit kit;
    struct serve serve;
    struct http_client *client;
    struct buf reply;
    struct gate parked, hung_up;
    struct certificate_pair renewed;
};

/* The caller's key in hexadecimal. */
static void who(void *context, struct http_exchange *exchange)
{
    (void)context;
    uint8_t key[HASH_SIZE];
    char text[HASH_TEXT_SIZE] = "nobody";
    if (http_peer_key(exchange, key)) {
        parse_to_hex(key, sizeof(key), text);
    }
    reply_text(exchange, http_is_tls(exchange) ? 200 : 500, text);
}

/* Use the new certificate; not with the key of the old one. */
static void renew(void *context, struct http_exchange *exchange)
{
    const struct fixture *f = context;
    const char *certificate = f->renewed.certificate.data;
    const struct tls_server wrong = {certificate, f->kit.server.key};
    const struct tls_server right = {certificate, f->renewed.key.data};
    struct err err = {0};
    ASSERT(http_server_use_certificate(f->serve.server, &wrong, &err) == ERR_INVALID);
    ASSERT(http_server_use_certificate(f->serve.server, &right, &err) == 0);
    reply_text(exchange, 200, "renewed");
}

static void on_hangup(void *arg)
{
    gate_pass(arg, NULL);
}

static void park(void *context, struct http_exchange *exchange)
{
    struct fixture *f = context;
    http_on_hangup(exchange, on_hangup, &f->hung_up);
    gate_pass(&f->parked, exchange);
}

static const struct http_route routes[] = {
    {.method = "GET", .pattern = "/who", .handle = who},
    {.method = "GET", .pattern = "/renew", .handle = renew},
    {.method = "GET", .pattern = "/park", .handle = park},
    {.method = "POST", .pattern = "/small", .handle = who, .body_max = 10},
};

static int open_with(void **state, int64_t header_timeout_ms)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct err err = {0};
    assert_non_null(f);
    tls_kit_make(&f->kit);
    gate_init(&f->parked);
    gate_init(&f->hung_up);
    buf_init(&f->reply, 1 << 20);
    struct http_server_config config = serve_config(routes, sizeof(routes) / sizeof(routes[0]), f);
    config.tls = f->kit.server;
    config.connections_max = 128;
    config.header_timeout_ms = header_timeout_ms;
    serve_start(&f->serve, &config);
    assert_ok(http_client_new(&f->client, &err), &err);
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return open_with(state, 60000);
}

static int setup_short_time(void **state)
{
    return open_with(state, 500);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    http_client_free(&f->client);
    serve_stop(&f->serve);
    tls_kit_done(&f->kit);
    gate_done(&f->parked);
    gate_done(&f->hung_up);
    buf_done(&f->reply);
    free(f);
    return 0;
}

/* The status of GET /who, or a negative code. */
static int get_from(struct fixture *f, const char *url, const struct tls_client *tls,
                    struct err *err)
{
    struct http_result result;
    const struct http_call call = {
        .method = "GET", .url = url, .tls = tls, .reply = &f->reply, .timeout_ms = 20000};
    int rc = http_client_call(f->client, &call, &result, err);
    return rc ? rc : result.status;
}

static int get(struct fixture *f, const struct tls_client *tls, struct err *err)
{
    return get_from(f, serve_url(&f->serve, "/who").text, tls, err);
}

static void the_server_reads_the_key_of_the_clients_certificate(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    char key[HASH_TEXT_SIZE];
    parse_to_hex(f->kit.device_key, HASH_SIZE, key);
    for (int i = 0; i < 3; i++) { /* the same client, in turns with and without a certificate */
        assert_int_equal(get(f, &f->kit.device, &err), 200);
        assert_string_equal(f->reply.data, key);
        assert_int_equal(get(f, &f->kit.client, &err), 200);
        assert_string_equal(f->reply.data, "nobody");
    }
}

static void a_server_of_another_authority_is_refused(void **state)
{
    struct fixture *f = *state;
    struct tls_kit other;
    struct err err = {0};
    tls_kit_make(&other);
    assert_int_equal(get(f, &other.client, &err), ERR_NETWORK);
    assert_holds(err.text, "SSL certificate problem");
    /* Nor do the system's authorities vouch for it. */
    assert_int_equal(get(f, NULL, &err), ERR_NETWORK);
    assert_holds(err.text, "SSL certificate problem");
    assert_int_equal(get(f, &f->kit.client, &err), 200);
    tls_kit_done(&other);
}

static void a_server_with_another_name_is_refused(void **state)
{
    struct fixture *f = *state;
    struct certificate_pair pair;
    const struct certificate_times times = {1577836800, 4733510400};
    struct err err = {0};
    tls_kit_server(&f->kit, "10.1.2.3", &times, &pair);
    struct serve other = {0};
    struct http_server_config config = serve_config(routes, 1, f);
    config.tls = (struct tls_server){pair.certificate.data, pair.key.data};
    serve_start(&other, &config);
    assert_int_equal(get_from(f, serve_url(&other, "/who").text, &f->kit.client, &err),
                     ERR_NETWORK);
    assert_holds(err.text, "127.0.0.1");
    serve_stop(&other);
    certificate_pair_done(&pair);
}

static void a_wrong_clock_does_not_matter_to_a_client_with_the_authority(void **state)
{
    struct fixture *f = *state;
    const struct certificate_times past = {1577836800, 1577836801},
                                   future = {4102444800, 4733510400};
    const struct certificate_times *const times[] = {&past, &future};
    for (int i = 0; i < 2; i++) {
        struct certificate_pair pair;
        struct err err = {0};
        tls_kit_server(&f->kit, "127.0.0.1", times[i], &pair);
        struct serve other = {0};
        struct http_server_config config = serve_config(routes, 1, f);
        config.tls = (struct tls_server){pair.certificate.data, pair.key.data};
        serve_start(&other, &config);
        assert_int_equal(get_from(f, serve_url(&other, "/who").text, &f->kit.client, &err), 200);
        serve_stop(&other);
        certificate_pair_done(&pair);
    }
}

static void a_pinned_key_is_the_only_one_that_is_trusted(void **state)
{
    struct fixture *f = *state;
    struct tls_kit other;
    struct err err = {0};
    tls_kit_make(&other);
    struct serve device = {0};
    struct http_server_config config = serve_config(routes, 1, f);
    config.tls =
        (struct tls_server){f->kit.device_pair.certificate.data, f->kit.device_pair.key.data};
    serve_start(&device, &config);
    const struct serve_url url = serve_url(&device, "/who");
    struct tls_client pins = {.pinned = true};
    memcpy(pins.server_key, f->kit.device_key, HASH_SIZE);
    assert_int_equal(get_from(f, url.text, &pins, &err), 200);
    memcpy(pins.server_key, other.device_key, HASH_SIZE);
    assert_int_equal(get_from(f, url.text, &pins, &err), ERR_NETWORK);
    assert_holds(err.text, "pinned");
    /* The server of the authority has a key of another kind. */
    assert_int_equal(get(f, &pins, &err), ERR_NETWORK);
    /* Without the pin, a certificate that nobody signed is worth nothing. */
    assert_int_equal(get_from(f, url.text, &f->kit.client, &err), ERR_NETWORK);
    serve_stop(&device);
    tls_kit_done(&other);
}

static void only_tls_1_3_and_1_2_are_spoken(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *priorities;
        int version; /* GNUTLS_VERSION_UNKNOWN: refused */
    } cases[] = {
        {NULL, GNUTLS_TLS1_3},
        {ONLY("TLS1.3"), GNUTLS_TLS1_3},
        {ONLY("TLS1.2"), GNUTLS_TLS1_2},
        {ONLY("TLS1.1"), GNUTLS_VERSION_UNKNOWN},
        {ONLY("TLS1.0"), GNUTLS_VERSION_UNKNOWN},
        {"NORMAL:-VERS-ALL:+VERS-TLS1.2:-CIPHER-ALL:+AES-128-CBC", GNUTLS_VERSION_UNKNOWN},
        {"NORMAL:-VERS-ALL:+VERS-TLS1.2:-KX-ALL:+RSA", GNUTLS_VERSION_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct raw_tls raw;
        char answer[512];
        int rc = raw_tls_open(&f->serve, cases[i].priorities, &raw);
        if (cases[i].version == GNUTLS_VERSION_UNKNOWN) {
            assert_true(rc < 0);
        } else {
            assert_int_equal(rc, 0);
            assert_int_equal(gnutls_protocol_get_version(raw.session), cases[i].version);
            raw_tls_send(&raw, REQUEST("/who"));
            raw_tls_read(&raw, "nobody", answer, sizeof(answer));
        }
        raw_tls_close(&raw);
    }
}

/* Unless its request arrives between the server's look and libmicrohttpd's, which ends the
 * connection without a word. */
static void a_client_without_tls_is_told_to_use_it(void **state)
{
    struct fixture *f = *state;
    char answer[512] = "";
    for (int i = 0; i < 5 && !strstr(answer, "HTTP/1.1 400 "); i++) {
        raw_ask(&f->serve, REQUEST("/who"), answer, sizeof(answer));
    }
    assert_holds(answer, "HTTP/1.1 400 ");
    assert_holds(answer, "use https://");
}

static void a_body_that_is_too_large_is_refused_before_its_end(void **state)
{
    struct fixture *f = *state;
    struct raw_tls raw;
    char answer[1024];
    assert_int_equal(raw_tls_open(&f->serve, NULL, &raw), 0);
    raw_tls_send(&raw, "POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
    raw_tls_read(&raw, "too_large", answer, sizeof(answer));
    assert_holds(answer, "HTTP/1.1 413 ");
    /* The client may send on: the connection is not reset, and ends without an error. */
    for (int i = 0; i < 100; i++) {
        raw_tls_send(&raw, "more");
    }
    raw_tls_read(&raw, NULL, answer, sizeof(answer));
    raw_tls_close(&raw);
}

static void a_refusal_reaches_a_client_that_reads_after_sending(void **state)
{
    struct fixture *f = *state;
    enum { SIZE = 4 << 20 };
    char *body = malloc(SIZE);
    assert_non_null(body);
    memset(body, 'x', SIZE);
    struct raw_tls raw;
    char answer[1024];
    assert_int_equal(raw_tls_open(&f->serve, NULL, &raw), 0);
    raw_tls_send(&raw, "POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 4194304\r\n\r\n");
    for (size_t sent = 0; sent < SIZE;) {
        const ssize_t count = gnutls_record_send(raw.session, body + sent, SIZE - sent);
        assert_true(count > 0);
        sent += (size_t)count;
    }
    raw_tls_read(&raw, "too_large", answer, sizeof(answer));
    raw_tls_close(&raw);
    free(body);
}

static void a_long_poll_ends_when_its_client_hangs_up(void **state)
{
    struct fixture *f = *state;
    for (int i = 1; i <= 10; i++) {
        struct raw_tls raw;
        assert_int_equal(raw_tls_open(&f->serve, NULL, &raw), 0);
        raw_tls_send(&raw, REQUEST("/park"));
        gate_wait(&f->parked, i);
        if (i % 2) {
            (void)gnutls_bye(raw.session, GNUTLS_SHUT_WR);
        }
        raw_tls_close(&raw);
        gate_wait(&f->hung_up, i);
    }
}

static void a_parked_request_is_answered_from_another_thread(void **state)
{
    struct fixture *f = *state;
    struct raw_tls raw;
    char answer[512];
    assert_int_equal(raw_tls_open(&f->serve, NULL, &raw), 0);
    raw_tls_send(&raw, REQUEST("/park"));
    reply_text(gate_wait(&f->parked, 1), 200, "at last");
    raw_tls_read(&raw, "at last", answer, sizeof(answer));
    /* The same connection serves on. */
    raw_tls_send(&raw, REQUEST("/who"));
    raw_tls_read(&raw, "nobody", answer, sizeof(answer));
    raw_tls_close(&raw);
}

static void requests_that_arrive_together_are_all_answered(void **state)
{
    struct fixture *f = *state;
    struct raw_tls raw;
    char answer[8192];
    assert_int_equal(raw_tls_open(&f->serve, NULL, &raw), 0);
    raw_tls_send(&raw, REQUEST("/who") REQUEST("/who") REQUEST("/missing"));
    raw_tls_read(&raw, "not_found", answer, sizeof(answer));
    raw_tls_close(&raw);
}

static void a_slow_handshake_holds_nobody(void **state)
{
    struct fixture *f = *state;
    enum { SLOW = 20 };
    int fds[SLOW];
    struct err err = {0};
    for (int i = 0; i < SLOW; i++) {
        fds[i] = raw_connect(&f->serve);
        raw_send(fds[i], i % 2 ? "\x16\x03" : "");
    }
    assert_int_equal(get(f, &f->kit.client, &err), 200);
    for (int i = 0; i < SLOW; i++) {
        close(fds[i]);
    }
}

static void a_handshake_that_is_too_slow_is_ended(void **state)
{
    struct fixture *f = *state;
    static const char *const parts[] = {
        "", "\x16\x03", "\x16\x03\x01\x01\x01 this is no hello, and less than its record"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        char rest[256];
        const int fd = raw_connect(&f->serve);
        raw_send(fd, parts[i]);
        raw_read_all(fd, rest, sizeof(rest)); /* until the server ends it */
        close(fd);
    }
}

static size_t server_certificate(const struct raw_tls *raw, const unsigned char **out)
{
    unsigned count = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(raw->session, &count);
    assert_true(count > 0);
    *out = chain[0].data;
    return chain[0].size;
}

static void a_new_certificate_leaves_open_connections_alone(void **state)
{
    struct fixture *f = *state;
    const struct certificate_times times = {1577836800, 4733510400};
    struct raw_tls before, after;
    const unsigned char *old, *new;
    char answer[512];
    tls_kit_server(&f->kit, "127.0.0.1", &times, &f->renewed);
    assert_int_equal(raw_tls_open(&f->serve, NULL, &before), 0);
    raw_tls_send(&before, REQUEST("/renew"));
    raw_tls_read(&before, "renewed", answer, sizeof(answer));
    assert_int_equal(raw_tls_open(&f->serve, NULL, &after), 0);
    raw_tls_send(&before, REQUEST("/who"));
    raw_tls_read(&before, "nobody", answer, sizeof(answer));
    raw_tls_send(&after, REQUEST("/who"));
    raw_tls_read(&after, "nobody", answer, sizeof(answer));
    const size_t old_size = server_certificate(&before, &old);
    const size_t new_size = server_certificate(&after, &new);
    assert_true(old_size != new_size || memcmp(old, new, new_size) != 0);
    raw_tls_close(&before);
    raw_tls_close(&after);
    certificate_pair_done(&f->renewed);
}

enum { IDLE = 64 };

/* Connections of a process of its own, which asked once and stay. */
static void hold_connections(struct fixture *f, int ready, int go)
{
    static struct raw_tls raw[IDLE];
    char answer[512];
    for (int i = 0; i < IDLE; i++) {
        if (raw_tls_open(&f->serve, NULL, &raw[i]) != 0) {
            _exit(1);
        }
        raw_tls_send(&raw[i], REQUEST("/who"));
        raw_tls_read(&raw[i], "nobody", answer, sizeof(answer));
    }
    char byte = 0;
    if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) < 0) {
        _exit(1);
    }
    _exit(0);
}

static void an_idle_connection_takes_less_than_64_kib(void **state)
{
    struct fixture *f = *state;
    int ready[2], go[2], status = 0;
    char byte = 0;
    struct err err = {0};
    assert_int_equal(get(f, &f->kit.client, &err), 200);
    assert_int_equal(pipe(ready) || pipe(go), 0);
    const struct mallinfo2 before = mallinfo2();
    const pid_t child = fork();
    if (child == 0) {
        close(go[1]);
        hold_connections(f, ready[1], go[0]);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    const struct mallinfo2 after = mallinfo2();
    const size_t bytes = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
    print_message("%zu bytes of heap for each idle connection\n", bytes / IDLE);
    close(go[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(ready[0]);
    close(go[0]);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(bytes > 0 && bytes / IDLE < 64 << 10);
#endif
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_server_reads_the_key_of_the_clients_certificate),
        TEST(a_server_of_another_authority_is_refused),
        TEST(a_server_with_another_name_is_refused),
        TEST(a_wrong_clock_does_not_matter_to_a_client_with_the_authority),
        TEST(a_pinned_key_is_the_only_one_that_is_trusted),
        TEST(only_tls_1_3_and_1_2_are_spoken),
        TEST(a_client_without_tls_is_told_to_use_it),
        TEST(a_body_that_is_too_large_is_refused_before_its_end),
        TEST(a_refusal_reaches_a_client_that_reads_after_sending),
        TEST(a_long_poll_ends_when_its_client_hangs_up),
        TEST(a_parked_request_is_answered_from_another_thread),
        TEST(requests_that_arrive_together_are_all_answered),
        TEST(a_slow_handshake_holds_nobody),
        cmocka_unit_test_setup_teardown(a_handshake_that_is_too_slow_is_ended, setup_short_time,
                                        teardown),
        TEST(a_new_certificate_leaves_open_connections_alone),
        TEST(an_idle_connection_takes_less_than_64_kib),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
