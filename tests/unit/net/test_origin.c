#include <string.h>

#include "net/origin.h"
#include "tests/support/test.h"

static const struct conf_list none;
static const struct conf_list two = {.item = {"paceline.example", "Other"}, .count = 2};

static void names_of_loopback_are_own_hosts(void **state)
{
    (void)state;
    static const char *const own[] = {"localhost",      "LOCALHOST:1", "127.0.0.1",
                                      "127.8.9.1:7410", "[::1]",       "[::1]:7410"};
    static const char *const foreign[] = {"",
                                          "evil.example",
                                          "127.0.0.1.evil.example",
                                          "[::1].evil.example",
                                          "[::2]",
                                          "localhost.evil.example",
                                          "localhos",
                                          "[::1",
                                          "10.0.0.1"};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        assert_true(origin_is_own_host(own[i], &none));
        assert_true(origin_is_own_host(own[i], &two));
    }
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        assert_false(origin_is_own_host(foreign[i], &none));
        assert_false(origin_is_own_host(foreign[i], &two));
    }
    assert_false(origin_is_own_host(NULL, &two));
}

static void allowed_names_match_whole_and_without_their_port(void **state)
{
    (void)state;
    assert_true(origin_is_own_host("paceline.example", &two));
    assert_true(origin_is_own_host("Paceline.Example:443", &two));
    assert_true(origin_is_own_host("other", &two));
    assert_false(origin_is_own_host("paceline.example.evil", &two));
    assert_false(origin_is_own_host("a.paceline.example", &two));
    assert_false(origin_is_own_host("paceline.example", &none));
}

static void an_origin_is_own_when_it_names_the_host(void **state)
{
    (void)state;
    assert_true(origin_is_own("https://paceline.example:8443", "Paceline.example:8443"));
    assert_false(origin_is_own("https://paceline.example", "paceline.example:8443"));
    assert_false(origin_is_own("null", "null"));
    assert_false(origin_is_own("https://a", NULL));
}

static void allowed_names_are_plain_host_names(void **state)
{
    (void)state;
    static const char *const invalid[] = {"", "-a", "a b", "a:1", "http://a", "*.a", "[::1]"};
    char longest[255];
    struct err err = {0};
    memset(longest, 'a', 254);
    longest[254] = '\0';
    assert_int_equal(origin_check_name("paceline.example", &err), 0);
    assert_int_equal(origin_check_name(longest, &err), ERR_INVALID);
    for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++) {
        assert_int_equal(origin_check_name(invalid[i], &err), ERR_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_loopback_are_own_hosts),
        cmocka_unit_test(allowed_names_match_whole_and_without_their_port),
        cmocka_unit_test(an_origin_is_own_when_it_names_the_host),
        cmocka_unit_test(allowed_names_are_plain_host_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
