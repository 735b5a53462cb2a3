#include <string.h>

#include "net/relay_preface.h"
#include "tests/support/test.h"

#define TICKET "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define AUTHORITY "Proxy-Authorization: Bearer " TICKET "\r\n"

static int read_text(const char *text, struct relay_preface *out)
{
    struct err err = {0};
    return relay_preface_read(text, strlen(text), out, &err);
}

static void a_preface_of_either_side_is_read(void **state)
{
    (void)state;
    struct relay_preface preface;
    const char call[] = "CONNECT dev_1.plan_2:1 HTTP/1.1\r\nHost: dev_1.plan_2:1\r\n" AUTHORITY
                        "User-Agent: paceline\r\n\r\n";
    assert_int_equal(read_text(call, &preface), (int)sizeof(call) - 1);
    assert_int_equal(preface.verb, RELAY_CALL);
    assert_string_equal(preface.name, "dev_1.plan_2");
    assert_string_equal(preface.ticket, TICKET);
    char park[RELAY_PREFACE_BYTES];
    const size_t size = relay_preface_park("dev_1.plan_2", TICKET, park);
    struct err err = {0};
    assert_int_equal(relay_preface_read(park, size, &preface, &err), (int)size);
    assert_int_equal(preface.verb, RELAY_PARK);
    assert_string_equal(preface.name, "dev_1.plan_2");
}

static void each_beginning_of_a_preface_is_incomplete(void **state)
{
    (void)state;
    const char text[] = "PARK a HTTP/1.1\r\n" AUTHORITY "\r\n";
    struct relay_preface preface;
    struct err err = {0};
    for (size_t size = 0; size < sizeof(text) - 1; size++) {
        assert_int_equal(relay_preface_read(text, size, &preface, &err), 0);
    }
    assert_int_equal(read_text(text, &preface), (int)sizeof(text) - 1);
}

static void what_is_no_preface_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "GET / HTTP/1.1\r\n" AUTHORITY "\r\n",
        "CONNECT a HTTP/1.1\r\n" AUTHORITY "\r\n",  /* without a port */
        "CONNECT :1 HTTP/1.1\r\n" AUTHORITY "\r\n", /* without a name */
        "PARK a:1 HTTP/1.1\r\n" AUTHORITY "\r\n",
        "PARK a/b HTTP/1.1\r\n" AUTHORITY "\r\n",
        "PARK a HTTP/2\r\n" AUTHORITY "\r\n",
        "PARK a\r\n" AUTHORITY "\r\n",
        "PARK  HTTP/1.1\r\n" AUTHORITY "\r\n",
        "PARK a HTTP/1.1\r\n\r\n", /* without a ticket */
        "PARK a HTTP/1.1\r\nProxy-Authorization: Bearer \r\n\r\n",
        "PARK a HTTP/1.1\r\nProxy-Authorization: Basic " TICKET "\r\n\r\n",
        "PARK a HTTP/1.1\r\nProxy-Authorization: Bearer " TICKET "0\r\n\r\n",
        "PARK a HTTP/1.1\r\nX-" AUTHORITY "\r\n",
        "\r\n\r\n",
        "PARK "
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa "
        "HTTP/1.1\r\n" AUTHORITY "\r\n",
    };
    struct relay_preface preface = {.name = "as before"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(read_text(bad[i], &preface), ERR_FORMAT);
        assert_string_equal(preface.name, "as before");
    }
    struct err err = {0};
    const char zero[] = "PARK a HTTP/1.1\r\n" AUTHORITY "X: \0\r\n\r\n";
    assert_int_equal(relay_preface_read(zero, sizeof(zero) - 1, &preface, &err), ERR_FORMAT);
}

static void a_preface_without_an_end_is_refused(void **state)
{
    (void)state;
    char text[RELAY_PREFACE_BYTES];
    struct relay_preface preface;
    struct err err = {0};
    memset(text, 'a', sizeof(text));
    assert_int_equal(relay_preface_read(text, sizeof(text) - 1, &preface, &err), 0);
    assert_int_equal(relay_preface_read(text, sizeof(text), &preface, &err), ERR_LIMIT);
}

static void a_ticket_is_for_one_plan_one_name_and_one_side(void **state)
{
    (void)state;
    const uint8_t secret[HASH_SIZE] = {1, 2, 3};
    uint8_t key[2][HASH_SIZE];
    char ticket[4][HASH_TEXT_SIZE];
    relay_key(secret, "plan_1", key[0]);
    relay_key(secret, "plan_2", key[1]);
    relay_ticket(key[0], RELAY_PARK, "dev_1.plan_1", ticket[0]);
    relay_ticket(key[1], RELAY_PARK, "dev_1.plan_1", ticket[1]);
    relay_ticket(key[0], RELAY_PARK, "dev_2.plan_1", ticket[2]);
    relay_ticket(key[0], RELAY_CALL, "dev_1.plan_1", ticket[3]);
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(ticket[i], ticket[k]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_preface_of_either_side_is_read),
        cmocka_unit_test(each_beginning_of_a_preface_is_incomplete),
        cmocka_unit_test(what_is_no_preface_is_refused),
        cmocka_unit_test(a_preface_without_an_end_is_refused),
        cmocka_unit_test(a_ticket_is_for_one_plan_one_name_and_one_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
