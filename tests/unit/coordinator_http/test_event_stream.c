#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "coordinator/http/event_stream.h"
#include "coordinator/store/state.h"
#include "schema/id.h"
#include "tests/support/test.h"
#include "tests/unit/coordinator_http/desk.h"

struct room {
    struct state_store *state;
    struct event_stream *stream;
    struct desk *desk;
    char id[8192][ID_SIZE]; /* of the events of the store, read by ids_of */
    size_t id_count;
};

static void serve(void *context, struct http_exchange *exchange)
{
    struct room *room = context;
    event_stream_serve(room->stream, exchange, http_header(exchange, "Last-Event-ID"),
                       http_header(exchange, "Job"));
}

static const struct http_route routes[] = {{.method = "GET", .pattern = "/", .handle = serve}};

static void open_room(struct room *room, const char *directory, uint64_t seed)
{
    struct err err = {0};
    assert_ok(state_open(directory, &room->state, &err), &err);
    assert_ok(event_stream_new(room->state, seed, &room->stream, &err), &err);
    room->desk = desk_open(routes, 1, room);
}

static void close_room(struct room *room)
{
    desk_close(&room->desk);
    assert_int_equal(event_stream_readers(room->stream), 0);
    event_stream_free(&room->stream);
    state_close(&room->state);
}

static void add(struct room *room, const char *type, const char *text)
{
    struct action action = {.type = ACTION_PUBLISH, .event = type};
    struct err err = {0};
    snprintf(action.id, sizeof(action.id), "job_1");
    snprintf(action.text, sizeof(action.text), "%s", text);
    if (!state_in_transaction(room->state)) {
        assert_ok(state_begin(room->state, &err), &err);
    }
    assert_ok(event_stream_add(room->stream, &action, &err), &err);
}

/* An event of a job, and of its parent. */
static void add_of(struct room *room, const char *type, const char *job, const char *parent)
{
    struct action action = {.type = ACTION_PUBLISH, .event = type};
    struct err err = {0};
    snprintf(action.job.text, sizeof(action.job.text), "%s", job);
    snprintf(action.of.parent.text, sizeof(action.of.parent.text), "%s", parent);
    action.of.part = parent[0] ? JOB_GROUP : JOB_WHOLE;
    if (!state_in_transaction(room->state)) {
        assert_ok(state_begin(room->state, &err), &err);
    }
    assert_ok(event_stream_add(room->stream, &action, &err), &err);
}

/* An event whose message takes most space: each character of it is escaped. */
static void add_longest(struct room *room, const char *type)
{
    char text[MESSAGE_SIZE];
    memset(text, '\x01', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    add(room, type, text);
}

static void publish(struct room *room)
{
    struct err err = {0};
    assert_ok(state_commit(room->state, &err), &err);
    event_stream_publish(room->stream);
}

/* A reader of the events after `last`; NULL: of new events only, with its greeting read. */
static int listen_after(struct room *room, const char *last)
{
    char request[128];
    snprintf(request, sizeof(request), "GET / HTTP/1.1%s%s", last ? "\r\nLast-Event-ID: " : "",
             last ? last : "");
    int fd = desk_send(room->desk, request);
    if (!last) {
        assert_holds(desk_read(room->desk, fd, ": events\n\n"), "Content-Type: text/event-stream");
    }
    return fd;
}

static bool take_id(void *arg, const struct state_row *row)
{
    struct room *room = arg;
    assert_true(room->id_count < sizeof(room->id) / sizeof(room->id[0]));
    snprintf(room->id[room->id_count++], ID_SIZE, "%s", row->id);
    return true;
}

/* In the order of ids. */
static void ids_of(struct room *room)
{
    struct err err = {0};
    room->id_count = 0;
    assert_ok(state_list(room->state, STATE_EVENTS, NULL, "", SIZE_MAX, false, take_id, room, &err),
              &err);
}

static void readers_get_events_from_their_start_on(void **state)
{
    static struct room room;
    open_room(&room, *state, 1);
    add(&room, "before", "no reader yet");
    publish(&room);
    int fd = listen_after(&room, NULL);
    assert_int_equal(event_stream_readers(room.stream), 1);
    add(&room, "first", "one");
    add(&room, "second", "two");
    assert_true(desk_is_silent(room.desk, fd)); /* not committed yet */
    publish(&room);
    const char *text = desk_read(room.desk, fd, "two\"");
    assert_null(strstr(text, "before"));
    assert_holds(text, "event: first\n");
    assert_holds(text, "\"type\":\"first\"");
    assert_holds(text, "\"subject\":\"job_1\"");
    assert_true(strstr(text, "event: first") < strstr(text, "event: second"));
    close(fd);
    close_room(&room);
}

/* Beside 2,000 events of another job: more than a read of the store skips, and than the ring
 * holds. */
static void a_reader_of_one_job_gets_its_events_and_those_of_its_parts(void **state)
{
    static struct room room;
    open_room(&room, *state, 1);
    add_of(&room, "start", "job_1", "");
    for (int i = 0; i < 2000; i++) {
        add_of(&room, "noise", "job_2", "");
    }
    add_of(&room, "whole", "job_1", "");
    add_of(&room, "noise", "job_3", "job_2");
    add_of(&room, "part", "job_4", "job_1");
    publish(&room);
    ids_of(&room);
    for (int life = 0; life < 2; life++) {
        char request[128];
        snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nJob: job_1\r\nLast-Event-ID: %s",
                 room.id[0]);
        int fd = desk_send(room.desk, request);
        const char *text = desk_read(room.desk, fd, "event: part\n");
        assert_true(strstr(text, "event: whole") < strstr(text, "event: part"));
        assert_holds(text, "event: whole");
        assert_null(strstr(text, "event: noise"));
        add_of(&room, "noise", "job_2", "");
        add_of(&room, "later", "job_4", "job_1");
        publish(&room);
        assert_null(strstr(desk_read(room.desk, fd, "event: later\n"), "event: noise"));
        close(fd);
        close_room(&room);
        open_room(&room, *state, 2);
    }
    close_room(&room);
}

static void a_reader_resumes_after_any_event_across_restarts(void **state)
{
    static struct room room;
    char word[16];
    open_room(&room, *state, 1);
    for (int i = 0; i < 10; i++) {
        snprintf(word, sizeof(word), "event%d", i);
        add(&room, word, word);
    }
    publish(&room);
    for (int life = 0; life < 2; life++) {
        ids_of(&room);
        for (int i = 0; i < 9; i++) {
            int fd = listen_after(&room, room.id[i]);
            const char *text = desk_read(room.desk, fd, "event: event9\n");
            snprintf(word, sizeof(word), "event: event%d\n", i);
            assert_null(strstr(text, word));
            snprintf(word, sizeof(word), "event: event%d\n", i + 1);
            assert_holds(text, word);
            close(fd);
        }
        int fd = listen_after(&room, room.id[9]);
        assert_null(strstr(desk_read(room.desk, fd, ": events\n\n"), "event: "));
        assert_true(desk_is_silent(room.desk, fd));
        close(fd);
        close_room(&room);
        open_room(&room, *state, 2);
    }
    close_room(&room);
}

static void an_event_that_is_not_committed_is_not_replayed_either(void **state)
{
    static struct room room;
    open_room(&room, *state, 1);
    add(&room, "old", "");
    publish(&room);
    ids_of(&room);
    close_room(&room);
    open_room(&room, *state, 2);
    add(&room, "new", "");
    int fd =
        desk_send(room.desk, "GET / HTTP/1.1\r\nLast-Event-ID: evt_00000000000000000000000000");
    assert_null(strstr(desk_read(room.desk, fd, ": events\n\n"), "event: "));
    assert_true(desk_is_silent(room.desk, fd));
    publish(&room);
    const char *text = desk_read(room.desk, fd, "event: new\n");
    assert_holds(text, "event: old\n");
    assert_true(desk_is_silent(room.desk, fd)); /* and not a second time */
    close(fd);
    close_room(&room);
}

static void more_events_than_are_kept_in_memory_are_replayed_in_their_order(void **state)
{
    static struct room room;
    open_room(&room, *state, 1);
    for (int i = 0; i < 3000; i++) {
        char word[16];
        snprintf(word, sizeof(word), "n%04d", i);
        add(&room, word, "");
    }
    publish(&room);
    ids_of(&room);
    int fd = listen_after(&room, room.id[0]);
    const char *text = desk_read(room.desk, fd, "event: n2999\n");
    for (int i = 1; i < 3000; i++) {
        char word[32];
        snprintf(word, sizeof(word), "event: n%04d\n", i);
        text = strstr(text, word);
        assert_non_null(text);
    }
    close(fd);
    close_room(&room);
}

static void ids_rise_even_if_the_clock_goes_back(void **state)
{
    static struct room room;
    struct err err = {0};
    int64_t later_ms = clock_wall_ms() + 3600000;
    char future[ID_SIZE];
    id_make(future, "evt_", later_ms,
            (struct rng_block){{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}});
    open_room(&room, *state, 1);
    struct state_row row = {future, "", 1, later_ms, "{}", 2};
    assert_ok(state_begin(room.state, &err), &err);
    assert_ok(state_put(room.state, STATE_EVENTS, &row, &err), &err);
    assert_ok(state_commit(room.state, &err), &err);
    close_room(&room);
    open_room(&room, *state, 2);
    for (int i = 0; i < 50; i++) {
        add(&room, "later", "");
    }
    publish(&room);
    int fd = listen_after(&room, future);
    char last[ID_SIZE];
    memcpy(last, future, sizeof(last));
    ids_of(&room);
    assert_int_equal(room.id_count, 51);
    const char *text = desk_read(room.desk, fd, room.id[50]);
    for (int i = 0; i < 50; i++) {
        text = strstr(text, "id: evt_");
        assert_non_null(text);
        text += 4;
        assert_true(strncmp(last, text, 30) < 0);
        snprintf(last, sizeof(last), "%.30s", text);
    }
    close(fd);
    close_room(&room);
}

static void the_longest_message_fits_whatever_its_characters(void **state)
{
    static struct room room;
    open_room(&room, *state, 1);
    int fd = listen_after(&room, NULL);
    add_longest(&room, "a_type_that_is_as_long_as_one_can_possibly_be___");
    publish(&room);
    assert_holds(desk_read(room.desk, fd, "}\n\n"), "\\u0001\"");
    close(fd);
    close_room(&room);
}

static void readers_that_hear_nothing_get_a_ping(void **state)
{
    static struct room room;
    open_room(&room, *state, 1);
    assert_int_equal(event_stream_ping(room.stream, 0), INT64_MAX);
    int64_t now_ms = clock_now_ms();
    int fd = listen_after(&room, NULL);
    int64_t next_ms = event_stream_ping(room.stream, now_ms);
    assert_true(next_ms > now_ms && next_ms <= now_ms + 20000);
    assert_true(desk_is_silent(room.desk, fd));
    assert_true(event_stream_ping(room.stream, next_ms + 1000) > next_ms);
    assert_holds(desk_read(room.desk, fd, "ping\n\n"), ": ping");
    close(fd);
    close_room(&room);
}

static void streams_end_with_the_program(void **state)
{
    static struct room room;
    open_room(&room, *state, 1);
    int fd = listen_after(&room, NULL);
    add(&room, "last", "");
    publish(&room);
    event_stream_end(room.stream);
    assert_holds(desk_read(room.desk, fd, "\r\n0\r\n\r\n"),
                 "event: last\n"); /* the last chunk: the end is no break */
    assert_int_equal(event_stream_readers(room.stream), 0);
    close(fd);
    close_room(&room);
}

static void a_reader_that_is_too_slow_is_broken_off_and_forgotten(void **state)
{
    static struct room room;
    open_room(&room, *state, 1);
    int fd = listen_after(&room, NULL);
    for (int round = 0; round < 20 && event_stream_readers(room.stream) > 0; round++) {
        for (int i = 0; i < 1000; i++) {
            add_longest(&room, "flood");
        }
        publish(&room);
        desk_run(room.desk);
    }
    /* It notices that after it has read the bytes in flight. */
    char drop[65536];
    for (int i = 0; i < 1000 && event_stream_readers(room.stream) > 0; i++) {
        while (recv(fd, drop, sizeof(drop), 0) > 0) {
        }
        desk_run(room.desk);
        struct pollfd polled[] = {{.fd = fd, .events = POLLIN},
                                  {.fd = http_server_fd(room.desk->server), .events = POLLIN}};
        assert_true(poll(polled, 2, 100) >= 0);
    }
    assert_int_equal(event_stream_readers(room.stream), 0);
    close(fd);
    close_room(&room);
}

static void a_stalled_reader_is_not_polled_continuously(void **state)
{
    static struct room room;
    open_room(&room, *state, 1);
    int fd = listen_after(&room, NULL);
    for (int i = 0; i < 8000; i++) {
        add_longest(&room, "flood");
        if (i % 500 == 499) {
            publish(&room);
            desk_run(room.desk);
        }
    }
    assert_int_equal(event_stream_readers(room.stream), 1);
    int64_t later_ms = clock_now_ms() + 60000;
    assert_true(event_stream_ping(room.stream, later_ms) > later_ms);
    close(fd);
    close_room(&room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(readers_get_events_from_their_start_on),
        test_with_directory(a_reader_resumes_after_any_event_across_restarts),
        test_with_directory(a_reader_of_one_job_gets_its_events_and_those_of_its_parts),
        test_with_directory(an_event_that_is_not_committed_is_not_replayed_either),
        test_with_directory(more_events_than_are_kept_in_memory_are_replayed_in_their_order),
        test_with_directory(ids_rise_even_if_the_clock_goes_back),
        test_with_directory(the_longest_message_fits_whatever_its_characters),
        test_with_directory(readers_that_hear_nothing_get_a_ping),
        test_with_directory(a_stalled_reader_is_not_polled_continuously),
        test_with_directory(streams_end_with_the_program),
        test_with_directory(a_reader_that_is_too_slow_is_broken_off_and_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
