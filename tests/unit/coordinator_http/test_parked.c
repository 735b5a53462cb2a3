#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "coordinator/http/parked.h"
#include "tests/support/test.h"
#include "tests/unit/coordinator_http/desk.h"

#define CAPACITY 3
#define CROWD 60 /* more than one run checks */

/* One object with a revision, and its waiting requests. */
struct shelf {
    struct parked *parked;
    int64_t revision;
    int64_t deadline_ms; /* given to the next waiter */
    int looks;
    int hangups;
    char gone[ID_SIZE]; /* whose client hung up last */
};

static bool look(void *context, struct http_exchange *exchange, const char *id, int64_t after,
                 bool last)
{
    struct shelf *shelf = context;
    shelf->looks++;
    if (shelf->revision <= after && !last) {
        return false;
    }
    char text[64];
    int length = snprintf(text, sizeof(text), "%s is at %" PRId64 "%s.", id, shelf->revision,
                          last ? " last" : "");
    http_reply(exchange, 200, "text/plain", text, (size_t)length);
    return true;
}

static void on_hangup(void *context, struct http_exchange *exchange, enum object_kind kind,
                      const char *id)
{
    struct shelf *shelf = context;
    assert_int_equal(kind, OBJECT_JOB);
    assert_string_equal(http_param(exchange, "id"), id);
    shelf->hangups++;
    snprintf(shelf->gone, sizeof(shelf->gone), "%s", id);
}

static void wait_for_job(void *context, struct http_exchange *exchange)
{
    struct shelf *shelf = context;
    parked_wait(shelf->parked, exchange, OBJECT_JOB, http_param(exchange, "id"), 5,
                shelf->deadline_ms, look);
}

static const struct http_route routes[] = {
    {.method = "GET", .pattern = "/{id}", .handle = wait_for_job}};

struct room {
    struct shelf shelf;
    struct desk *desk;
};

static int set_up(void **state)
{
    static struct room room;
    struct err err = {0};
    room = (struct room){.shelf = {.revision = 5, .deadline_ms = 1000}};
    assert_ok(parked_new(CAPACITY, &room.shelf, &room.shelf.parked, &err), &err);
    room.desk = desk_open(routes, 1, &room.shelf);
    *state = &room;
    return 0;
}

static int tear_down(void **state)
{
    struct room *room = *state;
    desk_close(&room->desk);
    parked_free(&room->shelf.parked);
    return 0;
}

static int ask(struct room *room, const char *id)
{
    char request[64];
    snprintf(request, sizeof(request), "GET /%s HTTP/1.1", id);
    int fd = desk_send(room->desk, request);
    desk_run(room->desk);
    return fd;
}

static void a_newer_object_is_answered_at_once(void **state)
{
    struct room *room = *state;
    room->shelf.revision = 6;
    int fd = ask(room, "job_a");
    assert_holds(desk_read(room->desk, fd, "."), "job_a is at 6.");
    assert_int_equal(parked_count(room->shelf.parked), 0);
    assert_int_equal(parked_deadline_ms(room->shelf.parked), INT64_MAX);
    close(fd);
}

static void a_request_waits_until_its_object_is_woken_with_news(void **state)
{
    struct room *room = *state;
    struct parked *parked = room->shelf.parked;
    int fd = ask(room, "job_a");
    assert_int_equal(parked_count(parked), 1);
    assert_int_equal(parked_deadline_ms(parked), 1000);
    parked_wake(parked, OBJECT_JOB, "job_b");
    parked_wake(parked, OBJECT_DEVICE, "job_a");
    parked_run(parked, 999);
    assert_int_equal(room->shelf.looks, 1);
    parked_wake(parked, OBJECT_JOB, "job_a"); /* without news */
    parked_run(parked, 999);
    assert_int_equal(room->shelf.looks, 2);
    assert_true(desk_is_silent(room->desk, fd));
    room->shelf.revision = 6;
    parked_wake(parked, OBJECT_JOB, "job_a");
    parked_wake(parked, OBJECT_JOB, "job_a"); /* twice in one turn */
    parked_run(parked, 999);
    assert_int_equal(room->shelf.looks, 3);
    assert_holds(desk_read(room->desk, fd, "."), "job_a is at 6.");
    assert_int_equal(parked_count(parked), 0);
    close(fd);
}

static void every_reader_that_waits_for_an_object_is_answered(void **state)
{
    struct room *room = *state;
    int fd[CAPACITY];
    for (size_t i = 0; i < CAPACITY; i++) {
        fd[i] = ask(room, i == 1 ? "job_b" : "job_a");
    }
    room->shelf.revision = 7;
    parked_wake(room->shelf.parked, OBJECT_JOB, "job_a");
    parked_run(room->shelf.parked, 0);
    assert_holds(desk_read(room->desk, fd[0], "."), "job_a is at 7.");
    assert_holds(desk_read(room->desk, fd[2], "."), "job_a is at 7.");
    assert_true(desk_is_silent(room->desk, fd[1]));
    assert_int_equal(parked_count(room->shelf.parked), 1);
    for (size_t i = 0; i < CAPACITY; i++) {
        close(fd[i]);
    }
}

static void when_the_wait_is_over_the_object_is_answered_as_it_is(void **state)
{
    struct room *room = *state;
    struct parked *parked = room->shelf.parked;
    int early = ask(room, "job_a");
    room->shelf.deadline_ms = 2000;
    int late = ask(room, "job_a");
    parked_run(parked, 999);
    assert_true(desk_is_silent(room->desk, early));
    parked_run(parked, 1000);
    assert_holds(desk_read(room->desk, early, "."), "job_a is at 5 last.");
    assert_true(desk_is_silent(room->desk, late));
    assert_int_equal(parked_deadline_ms(parked), 2000);
    parked_run(parked, 5000);
    assert_holds(desk_read(room->desk, late, "."), "job_a is at 5 last.");
    assert_int_equal(parked_deadline_ms(parked), INT64_MAX);
    close(early);
    close(late);
}

static void with_no_room_left_the_answer_is_given_now(void **state)
{
    struct room *room = *state;
    int fd[CAPACITY + 1];
    for (size_t i = 0; i <= CAPACITY; i++) {
        fd[i] = ask(room, "job_a");
    }
    assert_int_equal(parked_count(room->shelf.parked), CAPACITY);
    assert_holds(desk_read(room->desk, fd[CAPACITY], "."), "job_a is at 5 last.");
    for (size_t i = 0; i <= CAPACITY; i++) {
        close(fd[i]);
    }
}

static void places_are_used_again(void **state)
{
    struct room *room = *state;
    for (int round = 0; round < 10; round++) {
        int fd[CAPACITY];
        room->shelf.revision = 5;
        for (size_t i = 0; i < CAPACITY; i++) {
            fd[i] = ask(room, "job_a");
        }
        assert_int_equal(parked_count(room->shelf.parked), CAPACITY);
        room->shelf.revision = 6;
        parked_wake(room->shelf.parked, OBJECT_JOB, "job_a");
        parked_run(room->shelf.parked, 0);
        for (size_t i = 0; i < CAPACITY; i++) {
            assert_holds(desk_read(room->desk, fd[i], "."), "job_a is at 6.");
            close(fd[i]);
        }
    }
}

/* Answer all parked exchanges, a bounded number per run. Returns the number of runs. */
static int runs_until_all_looked(struct parked *parked, int64_t now_ms, const struct shelf *shelf,
                                 int most)
{
    int runs = 0;
    while (parked_deadline_ms(parked) <= now_ms) {
        int looks = shelf->looks;
        parked_run(parked, now_ms);
        assert_in_range(shelf->looks - looks, 1, most);
        runs++;
    }
    return runs;
}

static void a_run_looks_for_a_bounded_number_of_requests(void **state)
{
    struct room *room = *state;
    struct shelf *shelf = &room->shelf;
    struct err err = {0};
    int fd[CROWD];
    parked_free(&shelf->parked);
    assert_ok(parked_new(CROWD, shelf, &shelf->parked, &err), &err);
    for (int round = 0; round < 2; round++) {
        shelf->revision = 5;
        for (int i = 0; i < CROWD; i++) {
            shelf->deadline_ms = 1000 + (i * 7) % CROWD; /* in no order */
            fd[i] = ask(room, "job_a");
        }
        assert_int_equal(parked_deadline_ms(shelf->parked), 1000);
        shelf->looks = 0;
        shelf->revision = 6;
        if (round == 0) {
            parked_wake(shelf->parked, OBJECT_JOB, "job_a");
        }
        assert_true(runs_until_all_looked(shelf->parked, 5000, shelf, CROWD - 1) > 1);
        assert_int_equal(shelf->looks, CROWD);
        assert_int_equal(parked_count(shelf->parked), 0);
        for (int i = 0; i < CROWD; i++) {
            assert_holds(desk_read(room->desk, fd[i], "."),
                         round == 0 ? "job_a is at 6." : "job_a is at 6 last.");
            close(fd[i]);
        }
        desk_run(room->desk);
    }
}

static void requests_are_due_in_the_order_of_their_deadlines(void **state)
{
    struct room *room = *state;
    struct shelf *shelf = &room->shelf;
    struct err err = {0};
    int fd[CROWD];
    parked_free(&shelf->parked);
    assert_ok(parked_new(CROWD, shelf, &shelf->parked, &err), &err);
    for (int i = 0; i < CROWD; i++) {
        shelf->deadline_ms = 1000 + (i * 7) % CROWD;
        fd[i] = ask(room, i % 3 ? "job_a" : "job_b");
    }
    /* Some leave from the middle. */
    shelf->revision = 6;
    parked_wake(shelf->parked, OBJECT_JOB, "job_b");
    parked_run(shelf->parked, 0);
    size_t left = parked_count(shelf->parked);
    assert_int_equal(left, CROWD - (CROWD + 2) / 3);
    for (int64_t now_ms = 1000; left > 0; now_ms++) {
        bool due = parked_deadline_ms(shelf->parked) == now_ms;
        assert_true(parked_deadline_ms(shelf->parked) >= now_ms);
        parked_run(shelf->parked, now_ms);
        left -= due;
        assert_int_equal(parked_count(shelf->parked), left);
    }
    for (int i = 0; i < CROWD; i++) {
        close(fd[i]);
    }
}

static void at_the_end_all_are_answered(void **state)
{
    struct room *room = *state;
    int one = ask(room, "job_a"), two = ask(room, "job_b");
    parked_wake(room->shelf.parked, OBJECT_JOB, "job_b");
    parked_end(room->shelf.parked);
    assert_holds(desk_read(room->desk, one, "."), "job_a is at 5 last.");
    assert_holds(desk_read(room->desk, two, "."), "job_b is at 5 last.");
    assert_int_equal(parked_count(room->shelf.parked), 0);
    close(one);
    close(two);
}

static void requests_that_end_by_themselves_are_forgotten_woken_or_not(void **state)
{
    struct room *room = *state;
    int one = ask(room, "job_a"), two = ask(room, "job_b");
    parked_wake(room->shelf.parked, OBJECT_JOB, "job_b");
    desk_shut(room->desk);
    assert_int_equal(parked_count(room->shelf.parked), 0);
    parked_run(room->shelf.parked, 5000);
    assert_int_equal(room->shelf.looks, 2);
    close(one);
    close(two);
}

static void a_client_that_hangs_up_is_reported_and_frees_its_place(void **state)
{
    struct room *room = *state;
    struct parked *parked = room->shelf.parked;
    parked_on_hangup(parked, on_hangup);
    int one = ask(room, "job_a"), two = ask(room, "job_b");
    close(one);
    desk_run(room->desk);
    assert_int_equal(room->shelf.hangups, 1);
    assert_string_equal(room->shelf.gone, "job_a");
    assert_int_equal(parked_count(parked), 1);
    /* The place of an answered request belongs to another one before its connection is checked. */
    int three = ask(room, "job_c");
    parked_end(parked);
    close(two);
    close(three);
    desk_run(room->desk);
    assert_int_equal(room->shelf.hangups, 1);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_newer_object_is_answered_at_once),
        TEST(a_request_waits_until_its_object_is_woken_with_news),
        TEST(every_reader_that_waits_for_an_object_is_answered),
        TEST(when_the_wait_is_over_the_object_is_answered_as_it_is),
        TEST(with_no_room_left_the_answer_is_given_now),
        TEST(places_are_used_again),
        TEST(a_run_looks_for_a_bounded_number_of_requests),
        TEST(requests_are_due_in_the_order_of_their_deadlines),
        TEST(at_the_end_all_are_answered),
        TEST(requests_that_end_by_themselves_are_forgotten_woken_or_not),
        TEST(a_client_that_hangs_up_is_reported_and_frees_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
