#include "net/address.h"

#include <arpa/inet.h>

#include "tests/support/test.h"

static void addresses_of_both_families_are_read_and_written_back(void **state)
{
    (void)state;
    static const struct {
        const char *text, *canonical;
        int family;
        uint16_t port;
        bool loopback;
    } cases[] = {
        {"127.0.0.1:7410", "127.0.0.1:7410", AF_INET, 7410, true},
        {"localhost:0", "127.0.0.1:0", AF_INET, 0, true},
        {"127.200.3.4:65535", "127.200.3.4:65535", AF_INET, 65535, true},
        {"10.0.0.5:7410", "10.0.0.5:7410", AF_INET, 7410, false},
        {"0.0.0.0:80", "0.0.0.0:80", AF_INET, 80, false},
        {"[::1]:7410", "[::1]:7410", AF_INET6, 7410, true},
        {"[0:0:0:0:0:0:0:1]:1", "[::1]:1", AF_INET6, 1, true},
        {"[fe80::1]:7411", "[fe80::1]:7411", AF_INET6, 7411, false},
        {"[::]:7410", "[::]:7410", AF_INET6, 7410, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct address address;
        struct err err = {0};
        assert_ok(address_parse(cases[i].text, &address, &err), &err);
        assert_string_equal(address.text, cases[i].canonical);
        assert_int_equal(address.storage.ss_family, cases[i].family);
        assert_int_equal(address.port, cases[i].port);
        assert_int_equal(address_is_loopback(&address), cases[i].loopback);

        struct address again;
        address_set(&again, (const struct sockaddr *)&address.storage);
        assert_string_equal(again.text, address.text);
        assert_int_equal(again.length, address.length);
    }
}

static void texts_that_are_no_address_are_refused_and_quoted(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "7410",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        ":7410",
        "example.org:80",
        "::1:7410",
        "[::1]",
        "[::1]7410",
        "[]:7410",
        "[::1:7410",
        "127.0.0.1:80x",
        "127.0.0.1: 80",
        "127.0.0.256:80",
        "[127.0.0.1]:80",
        "[localhost]:80",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct address address = {.port = 9};
        struct err err = {0};
        assert_int_equal(address_parse(cases[i], &address, &err), ERR_INVALID);
        assert_holds(err.text, cases[i]);
        assert_holds(err.text, "expected HOST:PORT");
        assert_int_equal(address.port, 9);
    }
}

static void nothing_listens_beyond_loopback_by_accident(void **state)
{
    (void)state;
    struct address address;
    struct err err = {0};
    assert_ok(address_parse("10.0.0.5:7410", &address, &err), &err);
    assert_int_equal(address_check(&address, false, "run init", &err), ERR_INVALID);
    assert_string_equal(err.text, "refusing to listen on 10.0.0.5:7410 without TLS: run init, or "
                                  "confirm with --insecure");
    assert_ok(address_check(&address, true, "", &err), &err);
    assert_ok(address_parse("[::1]:7410", &address, &err), &err);
    assert_ok(address_check(&address, false, "", &err), &err);
}

static void a_host_is_written_for_urls(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"10.0.0.6:7411", "10.0.0.6"},
                                           {"[fd00::6]:7411", "[fd00::6]"},
                                           {"[::ffff:10.0.0.6]:7411", "10.0.0.6"}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct address address;
        struct err err = {0};
        char host[ADDRESS_HOST_SIZE];
        assert_ok(address_parse(pairs[i][0], &address, &err), &err);
        address_host(&address, host);
        assert_string_equal(host, pairs[i][1]);
    }
}

static void the_own_address_toward_a_host_is_found(void **state)
{
    (void)state;
    struct address address;
    struct err err = {0};
    static const char *const urls[] = {"http://127.0.0.1", "https://127.0.0.1:7410",
                                       "http://localhost:1/x", "https://127.0.0.1:7410/"};
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        assert_ok(address_toward(urls[i], &address, &err), &err);
        assert_true(address_is_loopback(&address));
        assert_int_equal(address.port, 0);
    }
    assert_int_equal(address_toward("https://no-such-name.invalid:7410", &address, &err),
                     ERR_NETWORK);
    assert_holds(err.text, "no-such-name.invalid");
    static const char *const wrong[] = {"", "https://", "https://:7410", "https://[::1:7410"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(address_toward(wrong[i], &address, &err), ERR_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_of_both_families_are_read_and_written_back),
        cmocka_unit_test(texts_that_are_no_address_are_refused_and_quoted),
        cmocka_unit_test(nothing_listens_beyond_loopback_by_accident),
        cmocka_unit_test(a_host_is_written_for_urls),
        cmocka_unit_test(the_own_address_toward_a_host_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
