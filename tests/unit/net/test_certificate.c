#include "net/certificate.h"

#include <stdio.h>
#include <string.h>

#include "net/hash.h"
#include "tests/support/test.h"

static const struct certificate_times times = {1577836800, 1609459200}; /* the year 2020 */

static void make_authority(struct certificate_pair *out)
{
    struct err err = {0};
    certificate_pair_init(out);
    assert_ok(certificate_make_authority("test", &times, out, &err), &err);
}

static void collect(void *arg, const char *name)
{
    struct buf *names = arg;
    struct err err = {0};
    assert_ok(buf_printf(names, &err, "%s ", name), &err);
}

static void a_server_certificate_has_its_names_and_times(void **state)
{
    (void)state;
    static const char *const names[] = {"paceline.example", "10.0.0.5", "fd00::5", "localhost"};
    struct certificate_pair authority, server;
    struct certificate_times read;
    struct err err = {0};
    struct buf text;
    buf_init(&text, 1024);
    make_authority(&authority);
    certificate_pair_init(&server);
    assert_ok(certificate_make_server(&authority, names, 4, &times, &server, &err), &err);
    assert_ok(certificate_check(&server, &err), &err);
    assert_ok(certificate_read_times(server.certificate.data, &read, &err), &err);
    assert_int_equal(read.begin, times.begin);
    assert_int_equal(read.end, times.end);
    assert_ok(certificate_each_name(server.certificate.data, collect, &text, &err), &err);
    assert_string_equal(text.data, "paceline.example 10.0.0.5 fd00::5 localhost ");
    assert_holds(server.certificate.data, authority.certificate.data);
    buf_done(&text);
    certificate_pair_done(&server);
    certificate_pair_done(&authority);
}

static void a_name_that_no_client_can_call_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "https://x", "a b", "x,IP:1.2.3.4", "10.0.0.5:7410"};
    struct certificate_pair authority, server;
    make_authority(&authority);
    certificate_pair_init(&server);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = {0};
        assert_int_equal(certificate_make_server(&authority, &bad[i], 1, &times, &server, &err),
                         ERR_INVALID);
        assert_holds(err.text, bad[i]);
    }
    certificate_pair_done(&server);
    certificate_pair_done(&authority);
}

static void the_key_of_another_certificate_is_found(void **state)
{
    (void)state;
    struct certificate_pair one, other;
    struct err err = {0};
    make_authority(&one);
    make_authority(&other);
    const struct certificate_pair mixed = {.certificate = one.certificate, .key = other.key};
    assert_int_equal(certificate_check(&mixed, &err), ERR_INVALID);
    assert_string_equal(err.text, "the key belongs to another certificate");
    const struct certificate_pair swapped = {.certificate = one.key, .key = one.certificate};
    assert_int_equal(certificate_check(&swapped, &err), ERR_FORMAT);
    const struct certificate_pair keyless = {.certificate = one.certificate};
    assert_int_equal(certificate_check(&keyless, &err), ERR_FORMAT);
    certificate_pair_done(&one);
    certificate_pair_done(&other);
}

static void a_truncated_certificate_is_no_certificate(void **state)
{
    (void)state;
    struct certificate_pair pair;
    struct certificate_times read;
    char text[HASH_TEXT_SIZE];
    make_authority(&pair);
    for (size_t size = 0; size + 28 < pair.certificate.size; size += 7) {
        struct err err = {0};
        pair.certificate.data[size] = '\0';
        assert_int_equal(certificate_read_times(pair.certificate.data, &read, &err), ERR_FORMAT);
        assert_int_equal(certificate_fingerprint(pair.certificate.data, text, &err), ERR_FORMAT);
        pair.certificate.data[size] = 'A';
    }
    certificate_pair_done(&pair);
}

static void the_certificate_of_a_device_is_valid_at_any_time(void **state)
{
    (void)state;
    struct certificate_pair device;
    struct certificate_times read;
    struct err err = {0};
    uint8_t private_key[HASH_SIZE], public_key[HASH_SIZE];
    assert_ok(key_make(private_key, public_key, &err), &err);
    certificate_pair_init(&device);
    assert_ok(certificate_make_device(private_key, &device, &err), &err);
    assert_ok(certificate_check(&device, &err), &err);
    assert_ok(certificate_read_times(device.certificate.data, &read, &err), &err);
    assert_int_equal(read.begin, 0);
    assert_true(read.end > INT64_C(200000000000));
    certificate_pair_done(&device);
}

/* Who fetches an authority by its hash must not get another one with it. */
static void only_the_certificate_with_the_hash_is_taken(void **state)
{
    (void)state;
    struct certificate_pair wanted, other;
    struct err err = {0};
    char hash[HASH_TEXT_SIZE], found[HASH_TEXT_SIZE];
    BUF_AUTO struct buf both;
    BUF_AUTO struct buf taken;
    buf_init(&both, CERTIFICATE_PEM_MAX);
    buf_init(&taken, CERTIFICATE_PEM_MAX);
    make_authority(&wanted);
    make_authority(&other);
    assert_ok(certificate_fingerprint(wanted.certificate.data, hash, &err), &err);
    assert_ok(buf_printf(&both, &err, "text before\n%s%s", wanted.certificate.data,
                         other.certificate.data),
              &err);
    assert_ok(certificate_take_pinned(both.data, hash, &taken, &err), &err);
    assert_string_equal(taken.data, wanted.certificate.data);
    buf_clear(&taken);
    assert_int_equal(certificate_take_pinned(other.certificate.data, hash, &taken, &err),
                     ERR_INVALID);
    assert_ok(certificate_fingerprint(other.certificate.data, found, &err), &err);
    assert_int_equal(certificate_take_pinned(other.certificate.data, hash, &taken, &err),
                     ERR_INVALID);
    assert_holds(err.text, found);
    assert_holds(err.text, hash);
    assert_int_equal(certificate_take_pinned("<html>", hash, &taken, &err), ERR_FORMAT);
    assert_int_equal(taken.size, 0);
    certificate_pair_done(&wanted);
    certificate_pair_done(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_certificate_has_its_names_and_times),
        cmocka_unit_test(a_name_that_no_client_can_call_is_refused),
        cmocka_unit_test(the_key_of_another_certificate_is_found),
        cmocka_unit_test(a_truncated_certificate_is_no_certificate),
        cmocka_unit_test(the_certificate_of_a_device_is_valid_at_any_time),
        cmocka_unit_test(only_the_certificate_with_the_hash_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
