#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/relay.h"
#include "tests/support/test.h"

#define NAME "dev_1.plan_1"
#define PARKED "HTTP/1.1 200 Parked\r\n\r\n"
#define CONNECTED "HTTP/1.1 200 Connected\r\n\r\n"
/* Sooner displaced by connections of one address than served: net/relay_desk.c has half of it. */
#define CROWD 100

static const uint8_t secret[HASH_SIZE] = {7};

static bool find_key(void *arg, const char *name, uint8_t out[HASH_SIZE])
{
    (void)arg;
    const char *plan = strchr(name, '.');
    if (!plan) {
        return false;
    }
    relay_key(secret, plan + 1, out);
    return true;
}

static int set_up(void **state)
{
    struct relay_config config = {.key = find_key};
    struct relay *relay = NULL;
    struct err err = {0};
    assert_ok(address_parse("127.0.0.1:0", &config.listen, &err), &err);
    assert_ok(relay_open(&config, &relay, &err), &err);
    *state = relay;
    return 0;
}

static int tear_down(void **state)
{
    struct relay *relay = *state;
    relay_close(&relay);
    return 0;
}

/* ---- both sides ---- */

static int dial(const struct relay *relay)
{
    const struct address *address = relay_address(relay);
    const struct timeval limit = {.tv_sec = 20};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address->storage, address->length), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (int)strlen(text));
}

/* Exactly these bytes come next. */
static void hears(int fd, const char *text)
{
    char got[256] = "";
    const size_t size = strlen(text);
    assert_true(size < sizeof(got));
    assert_int_equal(recv(fd, got, size, MSG_WAITALL), (int)size);
    assert_string_equal(got, text);
}

static void hears_the_end(int fd)
{
    char byte;
    assert_true(recv(fd, &byte, 1, 0) <= 0);
}

/* What the relay answers before it closes. */
static void is_refused(int fd, const char *status)
{
    char got[256] = "";
    hears(fd, "HTTP/1.1 ");
    assert_int_equal(recv(fd, got, 3, MSG_WAITALL), 3);
    assert_string_equal(got, status);
    while (recv(fd, got, sizeof(got), 0) > 0) {
    }
    close(fd);
}

static int ask(const struct relay *relay, enum relay_verb verb, const char *name,
               const char *ticket)
{
    char text[RELAY_PREFACE_BYTES];
    int fd = dial(relay);
    if (verb == RELAY_PARK) {
        (void)relay_preface_park(name, ticket, text);
    } else {
        (void)snprintf(text, sizeof(text),
                       "CONNECT %s:1 HTTP/1.1\r\nProxy-Authorization: Bearer %s\r\n\r\n", name,
                       ticket);
    }
    say(fd, text);
    return fd;
}

static int ask_rightly(const struct relay *relay, enum relay_verb verb)
{
    uint8_t key[HASH_SIZE];
    char ticket[HASH_TEXT_SIZE];
    relay_key(secret, "plan_1", key);
    relay_ticket(key, verb, NAME, ticket);
    return ask(relay, verb, NAME, ticket);
}

static int park(const struct relay *relay)
{
    int fd = ask_rightly(relay, RELAY_PARK);
    hears(fd, PARKED);
    return fd;
}

/* ---- tests ---- */

static void a_caller_and_a_parked_device_are_joined(void **state)
{
    const struct relay *relay = *state;
    int device = park(relay), caller = ask_rightly(relay, RELAY_CALL);
    hears(caller, CONNECTED);
    say(caller, "to the device");
    hears(device, "to the device");
    say(device, "to the caller");
    hears(caller, "to the caller");
    const struct relay_counts counts = relay_counts(relay);
    assert_int_equal(counts.joined, 1);
    assert_int_equal(counts.streams, 2);
    assert_int_equal(counts.parked, 0);
    close(caller);
    hears_the_end(device);
    close(device);
}

static void a_caller_waits_for_its_device_to_park(void **state)
{
    const struct relay *relay = *state;
    int caller = ask_rightly(relay, RELAY_CALL), device = park(relay);
    hears(caller, CONNECTED);
    say(caller, "x");
    hears(device, "x");
    close(device);
    hears_the_end(caller);
    close(caller);
}

static void a_caller_without_a_device_is_told_so(void **state)
{
    is_refused(ask_rightly(*state, RELAY_CALL), "504");
}

static void a_side_that_has_said_all_still_listens(void **state)
{
    const struct relay *relay = *state;
    int device = park(relay), caller = ask_rightly(relay, RELAY_CALL);
    hears(caller, CONNECTED);
    say(caller, "question");
    assert_int_equal(shutdown(caller, SHUT_WR), 0);
    hears(device, "question");
    hears_the_end(device);
    say(device, "answer");
    close(device);
    hears(caller, "answer");
    hears_the_end(caller);
    close(caller);
}

static void a_wrong_ticket_opens_nothing(void **state)
{
    const struct relay *relay = *state;
    uint8_t key[HASH_SIZE];
    char ticket[HASH_TEXT_SIZE];
    relay_key(secret, "plan_2", key); /* of another generation */
    relay_ticket(key, RELAY_CALL, NAME, ticket);
    is_refused(ask(relay, RELAY_CALL, NAME, ticket), "403");
    relay_key(secret, "plan_1", key);
    relay_ticket(key, RELAY_PARK, NAME, ticket); /* of the other side */
    is_refused(ask(relay, RELAY_CALL, NAME, ticket), "403");
    relay_ticket(key, RELAY_PARK, "dev_2.plan_1", ticket); /* of another device */
    is_refused(ask(relay, RELAY_PARK, NAME, ticket), "403");
    relay_ticket(key, RELAY_PARK, "no-plan", ticket);
    is_refused(ask(relay, RELAY_PARK, "no-plan", ticket), "403");
    assert_int_equal(relay_counts(relay).refused, 4);
    assert_int_equal(relay_counts(relay).parked, 0);
}

static void what_is_no_preface_is_refused(void **state)
{
    const struct relay *relay = *state;
    int fd = dial(relay);
    say(fd, "GET / HTTP/1.1\r\n\r\n");
    is_refused(fd, "400");
    fd = dial(relay);
    say(fd, "PARK " NAME " HTTP/1.1\r\nProxy-Authorization: Bearer a\r\n\r\nmore");
    is_refused(fd, "400");
    fd = dial(relay);
    say(fd, "\x16\x03\x01"); /* of TLS */
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    hears_the_end(fd);
    close(fd);
}

static void the_newest_of_too_many_parked_connections_stay(void **state)
{
    const struct relay *relay = *state;
    int device[6];
    for (size_t i = 0; i < 6; i++) {
        device[i] = park(relay);
    }
    hears_the_end(device[0]);
    hears_the_end(device[1]);
    int caller = ask_rightly(relay, RELAY_CALL);
    hears(caller, CONNECTED);
    say(caller, "x");
    hears(device[5], "x");
    close(caller);
    for (size_t i = 0; i < 6; i++) {
        close(device[i]);
    }
}

static void a_crowd_without_tickets_keeps_nobody_out(void **state)
{
    const struct relay *relay = *state;
    int crowd[CROWD], device = park(relay);
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] = dial(relay);
        say(crowd[i], "PARK ");
    }
    int caller = ask_rightly(relay, RELAY_CALL);
    hears(caller, CONNECTED);
    say(device, "x");
    hears(caller, "x");
    hears_the_end(crowd[0]);
    close(caller);
    close(device);
    for (size_t i = 0; i < CROWD; i++) {
        close(crowd[i]);
    }
}

/* ---- many bytes ---- */

#define MANY ((size_t)48 << 20)

static unsigned char byte_at(size_t offset)
{
    return (unsigned char)(offset * 2654435761u >> 24);
}

static void *send_many(void *arg)
{
    const int fd = *(int *)arg;
    unsigned char piece[65521];
    for (size_t sent = 0; sent < MANY;) {
        const size_t size = MANY - sent < sizeof(piece) ? MANY - sent : sizeof(piece);
        for (size_t i = 0; i < size; i++) {
            piece[i] = byte_at(sent + i);
        }
        const ssize_t count = send(fd, piece, size, MSG_NOSIGNAL);
        assert_true(count > 0);
        sent += (size_t)count;
    }
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    return NULL;
}

static void read_many(int fd)
{
    static unsigned char piece[100003];
    size_t got = 0;
    ssize_t count;
    while ((count = recv(fd, piece, sizeof(piece), 0)) > 0) {
        for (size_t i = 0; i < (size_t)count; i++) {
            assert_int_equal(piece[i], byte_at(got + i));
        }
        got += (size_t)count;
    }
    assert_int_equal(got, MANY);
}

/* The memory of a relay does not grow with what it holds for a reader that does not read. */
static void many_bytes_pass_whole_in_both_directions_at_once(void **state)
{
    const struct relay *relay = *state;
    int device = park(relay), caller = ask_rightly(relay, RELAY_CALL);
    pthread_t from_caller, from_device;
    hears(caller, CONNECTED);
    assert_int_equal(pthread_create(&from_caller, NULL, send_many, &caller), 0);
    assert_int_equal(pthread_create(&from_device, NULL, send_many, &device), 0);
    read_many(device);
    read_many(caller);
    assert_int_equal(pthread_join(from_caller, NULL), 0);
    assert_int_equal(pthread_join(from_device, NULL), 0);
    assert_int_equal(relay_counts(relay).bytes, 2 * MANY);
    close(caller);
    close(device);
}

int main(void)
{
#define RELAY_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        RELAY_TEST(a_caller_and_a_parked_device_are_joined),
        RELAY_TEST(a_caller_waits_for_its_device_to_park),
        RELAY_TEST(a_caller_without_a_device_is_told_so),
        RELAY_TEST(a_side_that_has_said_all_still_listens),
        RELAY_TEST(a_wrong_ticket_opens_nothing),
        RELAY_TEST(what_is_no_preface_is_refused),
        RELAY_TEST(the_newest_of_too_many_parked_connections_stay),
        RELAY_TEST(a_crowd_without_tickets_keeps_nobody_out),
        RELAY_TEST(many_bytes_pass_whole_in_both_directions_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
