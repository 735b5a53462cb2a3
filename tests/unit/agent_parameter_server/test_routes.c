/* The routes of a server over loopback: what it takes and gives in a step, and what it refuses of
 * clients that do not keep to the protocol. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "libtrain/formats/safetensors.h"
#include "tests/support/test.h"
#include "tests/unit/agent_parameter_server/party.h"

#define AT "/peer/v1/" PARTY_JOB "/4"
#define PULL(rest) AT "/parameters/" rest
#define PUSH(rest) AT "/exchange/" rest
#define PATIENT_MS 20000
#define SHORT_MS 400 /* pulls are parked for half of it */

static int put_nothing(struct party *party, size_t from, const char *path)
{
    return party_call(party, from, "PUT", path, NULL, 0, party_zeros, 64);
}

/* Both workers send all sums of the step. */
static void send_step(struct party *party, int64_t step, const void *data)
{
    for (size_t w = 1; w < PARTY_STAGES; w++) {
        const struct exchange_message upper = party_sum(w, step, 2, PARTY_LAYERS);
        const struct exchange_message rest = party_sum(w, step, 0, 2);
        assert_int_equal(party_put(party, &upper, data), 204);
        assert_int_equal(party_put(party, &rest, data), 204);
    }
}

/* The first of the pulled parameters. */
static float pulled(const struct party *party, struct body_note *note)
{
    const struct exchange_message pull = {
        .kind = EXCHANGE_PARAMETERS, .from = 1, .end = PARTY_LAYERS};
    const struct body body = member_view(party->member, &pull, true).body;
    uint64_t header = 0;
    struct err err = {0};
    assert_ok(safetensors_header_bytes((const uint8_t *)party->reply.data, &header, &err), &err);
    assert_ok(body_read_header(party->reply.data, (size_t)header, &body, note, &err), &err);
    assert_int_equal(party->reply.size, header + body_bytes(&body));
    float first;
    memcpy(&first, party->reply.data + header, sizeof(first));
    return first;
}

static void a_step_and_its_repeats_are_taken(void **state)
{
    (void)state;
    struct party party;
    struct body_note note;
    party_open(&party, PATIENT_MS);
    party_compute(&party);
    assert_int_equal(party_get(&party, 1, PULL("0/0/4")), 200);
    assert_true(isfinite(pulled(&party, &note)));
    assert_false(note.last);
    assert_int_equal(note.version, 0);
    assert_int_equal(party_get(&party, 2, PULL("0/1/3")), 200);
    send_step(&party, 1, party_zeros);
    /* It waits for the update, or comes after it. */
    assert_int_equal(party_get(&party, 1, PULL("1/0/4")), 200);
    assert_true(isfinite(pulled(&party, &note)));
    assert_true(note.parked_seconds >= 0);
    assert_int_equal(note.version, 1);
    const struct exchange_message again = party_sum(1, 1, 2, PARTY_LAYERS);
    assert_int_equal(party_put(&party, &again, party_zeros), 204);
    assert_int_equal(party_get(&party, 1, PULL("0/0/4")), 410);
    assert_holds(party.reply.data, "outdated");
    send_step(&party, 2, party_zeros);
    assert_int_equal(party_get(&party, 2, PULL("2/0/4")), 200);
    party_close(&party);
}

static void callers_are_who_their_ticket_says(void **state)
{
    (void)state;
    struct party party;
    party_open(&party, SHORT_MS);
    struct exchange_message others = party_sum(1, 1, 2, PARTY_LAYERS);
    others.from = 2; /* the block of stage 1 with the ticket of stage 2 */
    assert_int_equal(party_put(&party, &others, party_zeros), 422);
    assert_holds(party.reply.data, "unexpected");
    assert_int_equal(put_nothing(&party, 1, PUSH("commit/1/0/0/0")), 422);
    assert_int_equal(put_nothing(&party, 2, PUSH("norm/1/0/0/0")), 422);
    assert_int_equal(party_get(&party, PARTY_STRANGER, PULL("0/0/4")), 422);
    assert_int_equal(put_nothing(&party, PARTY_STRANGER, PUSH("contribution/1/0/2/4")), 422);
    /* The server has no ticket to itself. */
    assert_int_equal(party_get(&party, 0, PULL("0/0/4")), 403);
    assert_holds(party.reply.data, "ticket_wrong");
    assert_int_equal(put_nothing(&party, 0, PUSH("contribution/1/0/2/4")), 403);
    assert_holds(party.reply.data, "ticket_wrong");
    party_close(&party);
}

static void requests_outside_the_plan_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int status;
        const char *code;
    } cases[] = {
        {PULL("0/0/5"), 422, "unexpected"},
        {PULL("0/2/2"), 422, "unexpected"},
        {PULL("0/3/1"), 422, "unexpected"},
        {PULL("2/0/4"), 422, "unexpected"},
        {PULL("25/0/4"), 422, "unexpected"},
        {PULL("0/0/4?statistics=1"), 422, "unexpected"}, /* no evaluation is due */
        {PULL("0/0/18446744073709551615"), 400, "invalid_parameter"},
        {PULL("0/-1/4"), 400, "invalid_parameter"},
        {PULL("zero/0/4"), 400, "invalid_parameter"},
        {"/peer/v1/" PARTY_JOB "/3/parameters/0/0/4", 409, "stale_generation"},
        {"/peer/v1/" PARTY_JOB "/5/parameters/0/0/4", 503, "early"},
        {"/peer/v1/job_x/4/parameters/0/0/4", 503, "early"},
    };
    static const struct {
        const char *path;
        int status;
        const char *code;
    } pushes[] = {
        {PUSH("contribution/2/0/2/4"), 422, "unexpected"}, /* a step ahead */
        {PUSH("contribution/0/0/2/4"), 410, "outdated"},   /* before the first */
        {PUSH("contribution/1/0/2/5"), 422, "unexpected"}, /* layers */
        {PUSH("contribution/1/0/4/2"), 422, "unexpected"},
        {PUSH("contribution/1/2/2/4"), 422, "unexpected"}, /* block */
        {PUSH("contribution/1/9223372036854775807/2/4"), 422, "unexpected"},
        {PUSH("contribution/1/0/0/2"), 422, "unexpected"}, /* that is `done` */
        {PUSH("done/1/0/2/4"), 422, "unexpected"},
        {PUSH("result/0/0/0/0"), 422, "unexpected"}, /* no evaluation */
        {PUSH("result/8/9223372036854775807/0/0"), 422, "unexpected"},
        {PUSH("result/8/0/0/0"), 422, "unexpected"}, /* not committed */
        {PUSH("rumour/1/0/0/4"), 400, "invalid_parameter"},
        {PUSH("contribution/1/x/2/4"), 400, "invalid_parameter"},
        {PUSH("contribution/1/0/2/99999999999999999999"), 400, "invalid_parameter"},
        {"/peer/v1/" PARTY_JOB "/3/exchange/contribution/1/0/2/4", 409, "stale_generation"},
        {"/peer/v1/" PARTY_JOB "/5/exchange/contribution/1/0/2/4", 503, "early"},
        {"/peer/v1/job_x/4/exchange/contribution/1/0/2/4", 503, "early"},
    };
    struct party party;
    party_open(&party, SHORT_MS);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        print_message("GET %s\n", cases[i].path);
        assert_int_equal(party_get(&party, 1, cases[i].path), cases[i].status);
        assert_holds(party.reply.data, cases[i].code);
    }
    for (size_t i = 0; i < sizeof(pushes) / sizeof(pushes[0]); i++) {
        print_message("PUT %s\n", pushes[i].path);
        assert_int_equal(put_nothing(&party, 1, pushes[i].path), pushes[i].status);
        assert_holds(party.reply.data, pushes[i].code);
    }
    party_close(&party);
}

/* PUT layers [2, 4) of block 0 with a body of one's own. */
static int put_body(struct party *party, const void *header, size_t header_size, size_t data_size)
{
    return party_call(party, 1, "PUT", PUSH("contribution/1/0/2/4"), header, header_size,
                      party_zeros, data_size);
}

static void bodies_that_are_not_of_the_path_leave_its_place_free(void **state)
{
    (void)state;
    struct party party;
    char header[BODY_HEADER_MAX];
    party_open(&party, SHORT_MS);
    const struct exchange_message message = party_sum(1, 1, 2, PARTY_LAYERS);
    const struct body body = member_view(party.member, &message, false).body;
    const size_t bytes = body_bytes(&body);
    struct body other = body;
    const struct body_note none = {0}, last = {.last = true};
    size_t size = body_write_header(&body, &none, header);
    assert_int_equal(put_body(&party, header, size, bytes - 1), 422);
    assert_int_equal(put_body(&party, header, size, bytes + 1), 422);
    assert_int_equal(put_body(&party, header, size, 0), 422);
    assert_int_equal(put_body(&party, NULL, 0, bytes), 422);
    header[12] = '?';
    assert_int_equal(put_body(&party, header, size, bytes), 422);
    memset(header, 0xff, 8);
    assert_int_equal(put_body(&party, header, size, bytes), 422);
    memset(header, 0, 8);
    assert_int_equal(put_body(&party, header, size, bytes), 422);
    other.count[BODY_DATA]--;
    size = body_write_header(&other, &none, header);
    assert_int_equal(put_body(&party, header, size, bytes), 422);
    other = body;
    other.count[BODY_NUMBERS] = 1;
    size = body_write_header(&other, &none, header);
    assert_int_equal(put_body(&party, header, size, bytes), 422);
    /* A header that states no tensors, and data. */
    size = body_write_header(&(struct body){{0}}, &last, header);
    assert_int_equal(put_body(&party, header, size, bytes), 422);
    assert_holds(party.reply.data, "invalid_blob");
    assert_int_equal(party_put(&party, &message, party_zeros), 204);
    party_close(&party);
}

static void done_before_its_other_sums_is_refused(void **state)
{
    (void)state;
    struct party party;
    party_open(&party, SHORT_MS);
    const struct exchange_message done = party_sum(1, 1, 0, 2);
    const struct exchange_message upper = party_sum(1, 1, 2, PARTY_LAYERS);
    const struct exchange_message crossing = party_sum(1, 1, 1, 3);
    assert_int_equal(party_put(&party, &done, party_zeros), 422);
    assert_int_equal(party_put(&party, &upper, party_zeros), 204);
    assert_int_equal(party_put(&party, &crossing, party_zeros), 422); /* half of it is here */
    assert_int_equal(party_put(&party, &done, party_zeros), 204);
    assert_int_equal(party_put(&party, &done, party_zeros), 204);
    party_close(&party);
}

static void sums_that_are_not_finite_end_the_job_as_on_one_device(void **state)
{
    (void)state;
    static float poison[sizeof(party_zeros) / sizeof(party_zeros[0])];
    struct party party;
    for (size_t i = 0; i < sizeof(poison) / sizeof(poison[0]); i++) {
        poison[i] = NAN;
    }
    party_open(&party, SHORT_MS);
    party_compute(&party);
    const struct exchange_message bad = party_sum(1, 1, 2, PARTY_LAYERS);
    assert_int_equal(party_put(&party, &bad, poison), 204);
    send_step(&party, 1, party_zeros);
    party_wait(&party);
    assert_int_equal(party.rc, ERR_DIVERGED);
    party_close(&party);
}

/* They would reach metrics and running statistics: no update looks at them. */
static void numbers_and_statistics_that_are_not_finite_are_refused(void **state)
{
    (void)state;
    static char poison[sizeof(party_zeros)];
    static const double number = INFINITY;
    static const float statistic = NAN;
    struct party party;
    party_open(&party, SHORT_MS);
    const struct exchange_message upper = party_sum(1, 1, 2, PARTY_LAYERS);
    const struct exchange_message done = party_sum(1, 1, 0, 2);
    const struct body body = member_view(party.member, &done, false).body;
    assert_true(body.count[BODY_NUMBERS] > 0 && body.count[BODY_STATISTICS] > 0);
    assert_int_equal(party_put(&party, &upper, party_zeros), 204);
    for (size_t i = 0; i < body.count[BODY_NUMBERS]; i++) {
        memcpy(poison + i * sizeof(number), &number, sizeof(number));
        assert_int_equal(party_put(&party, &done, poison), 422);
        assert_holds(party.reply.data, "invalid_blob");
        memset(poison, 0, sizeof(poison));
    }
    for (size_t i = 1; i <= body.count[BODY_STATISTICS]; i++) {
        memcpy(poison + body_bytes(&body) - i * sizeof(statistic), &statistic, sizeof(statistic));
        assert_int_equal(party_put(&party, &done, poison), 422);
        assert_holds(party.reply.data, "invalid_blob");
        memset(poison, 0, sizeof(poison));
    }
    assert_int_equal(party_put(&party, &done, party_zeros), 204);
    party_close(&party);
}

/* The head of a PUT of layers [2, 4) of block 0, and `size` bytes of its body. */
static int begin_sum(const struct party *party, size_t size)
{
    char head[BODY_HEADER_MAX];
    const struct exchange_message message = party_sum(1, 1, 2, PARTY_LAYERS);
    const struct body body = member_view(party->member, &message, false).body;
    const size_t head_size = body_write_header(&body, &(struct body_note){0}, head);
    const int fd =
        party_send(party, 1, "PUT", PUSH("contribution/1/0/2/4"), head_size + body_bytes(&body));
    assert_true(size > head_size && size < head_size + body_bytes(&body));
    assert_int_equal(write(fd, head, head_size), head_size);
    assert_int_equal(write(fd, party_zeros, size - head_size), size - head_size);
    return fd;
}

/* The rest of the body, as if it had been `size` bytes so far; returns the answer's status. */
static int end_sum(const struct party *party, int fd, size_t size)
{
    char text[BODY_HEADER_MAX] = "";
    const struct exchange_message message = party_sum(1, 1, 2, PARTY_LAYERS);
    const struct body body = member_view(party->member, &message, false).body;
    const size_t all = body_write_header(&body, &(struct body_note){0}, text) + body_bytes(&body);
    assert_int_equal(write(fd, party_zeros, all - size), all - size);
    memset(text, 0, sizeof(text));
    assert_true(read(fd, text, sizeof(text) - 1) > 9);
    (void)close(fd);
    return (int)strtol(text + 9, NULL, 10); /* after "HTTP/1.1 " */
}

static void truncated_sums_leave_no_place_taken(void **state)
{
    (void)state;
    struct party party;
    party_open(&party, PATIENT_MS);
    const struct exchange_message upper = party_sum(1, 1, 2, PARTY_LAYERS);
    for (size_t i = 0; i < 3 * MEMBER_PULLS_MAX; i++) {
        (void)close(begin_sum(&party, 500 + i));
        assert_int_equal(party_get(&party, 2, PULL("0/3/4")), 200);
    }
    assert_int_equal(party_put(&party, &upper, party_zeros), 204);
    party_close(&party);
}

static void of_two_connections_with_one_sum_the_newer_one_counts(void **state)
{
    (void)state;
    struct party party;
    party_open(&party, PATIENT_MS);
    const int older = begin_sum(&party, 700);
    assert_int_equal(party_get(&party, 2, PULL("0/3/4")), 200); /* it has begun by now */
    const int newer = begin_sum(&party, 600);
    assert_int_equal(party_get(&party, 2, PULL("0/3/4")), 200);
    assert_int_equal(end_sum(&party, older, 700), 503);
    assert_int_equal(end_sum(&party, newer, 600), 204);
    party_close(&party);
}

#define UNREAD 2000 /* answers: more bytes than sockets hold */

static void a_client_that_never_reads_its_pulls_holds_up_no_step(void **state)
{
    (void)state;
    struct party party;
    party_open(&party, PATIENT_MS);
    assert_int_equal(party_get(&party, 1, PULL("0/0/4")), 200);
    assert_true(UNREAD * party.reply.size > 12 << 20);
    const int fd = party_ask(&party, 1, PULL("0/0/4"));
    for (size_t i = 1; i < UNREAD; i++) {
        party_ask_again(fd, 1, PULL("0/0/4"));
    }
    party_compute(&party);
    send_step(&party, 1, party_zeros);
    assert_int_equal(party_get(&party, 2, PULL("1/0/4")), 200);
    assert_int_equal(party_get(&party, 1, PULL("1/0/4")), 200);
    const double began = clock_now_seconds();
    party_close(&party);
    assert_true(clock_now_seconds() - began < 5);
    (void)close(fd);
}

static void a_pull_waits_only_so_long(void **state)
{
    (void)state;
    struct party party;
    party_open(&party, SHORT_MS);
    assert_int_equal(party_get(&party, 1, PULL("1/0/4")), 503);
    assert_holds(party.reply.data, "not_yet");
    party_close(&party);
}

static void the_end_of_a_generation_ends_its_parked_pulls(void **state)
{
    (void)state;
    struct party party;
    char answer[512] = "";
    party_open(&party, PATIENT_MS);
    const int fd = party_ask(&party, 1, PULL("1/0/4"));
    assert_int_equal(party_get(&party, 2, PULL("0/0/4")), 200); /* it is parked by now */
    const double began = clock_now_seconds();
    member_cancel(party.member);
    assert_true(read(fd, answer, sizeof(answer) - 1) > 0);
    assert_true(clock_now_seconds() - began < 1);
    assert_holds(answer, "503");
    (void)close(fd);
    party_close(&party);
}

static void clients_that_leave_while_parked_leave_nothing(void **state)
{
    (void)state;
    struct party party;
    party_open(&party, PATIENT_MS);
    /* More than there are places, for a worker and in all. */
    for (size_t i = 0; i < 3 * MEMBER_PULLS_MAX; i++) {
        (void)close(party_ask(&party, 1 + i % 2, PULL("1/0/4")));
        assert_int_equal(party_get(&party, 2, PULL("0/3/4")), 200);
    }
    party_compute(&party);
    send_step(&party, 1, party_zeros);
    assert_int_equal(party_get(&party, 1, PULL("1/0/4")), 200);
    party_close(&party);
}

static void repeats_take_the_place_of_parked_pulls(void **state)
{
    (void)state;
    struct party party;
    char answer[512] = "";
    party_open(&party, PATIENT_MS);
    const int first = party_ask(&party, 1, PULL("1/0/4"));
    assert_int_equal(party_get(&party, 2, PULL("0/3/4")), 200);
    const int second = party_ask(&party, 1, PULL("1/0/4"));
    assert_true(read(first, answer, sizeof(answer) - 1) > 0);
    assert_holds(answer, "410");
    (void)close(first);
    party_compute(&party);
    send_step(&party, 1, party_zeros);
    assert_true(read(second, answer, sizeof(answer) - 1) > 0);
    assert_holds(answer, "200");
    (void)close(second);
    party_close(&party);
}

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_and_its_repeats_are_taken),
        cmocka_unit_test(callers_are_who_their_ticket_says),
        cmocka_unit_test(requests_outside_the_plan_are_refused),
        cmocka_unit_test(bodies_that_are_not_of_the_path_leave_its_place_free),
        cmocka_unit_test(done_before_its_other_sums_is_refused),
        cmocka_unit_test(sums_that_are_not_finite_end_the_job_as_on_one_device),
        cmocka_unit_test(numbers_and_statistics_that_are_not_finite_are_refused),
        cmocka_unit_test(truncated_sums_leave_no_place_taken),
        cmocka_unit_test(of_two_connections_with_one_sum_the_newer_one_counts),
        cmocka_unit_test(a_client_that_never_reads_its_pulls_holds_up_no_step),
        cmocka_unit_test(a_pull_waits_only_so_long),
        cmocka_unit_test(the_end_of_a_generation_ends_its_parked_pulls),
        cmocka_unit_test(clients_that_leave_while_parked_leave_nothing),
        cmocka_unit_test(repeats_take_the_place_of_parked_pulls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
