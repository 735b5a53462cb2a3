/* A group whose peer does not keep to the protocol: nothing of what it sends is mixed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/gossip/mix_body.h"
#include "tests/support/test.h"
#include "tests/unit/agent_gossip/groups.h"

/* What the peer answers with. */
enum fault {
    NONE,
    NOT_FINITE,
    TOO_LARGE,
    OTHER_GROUP,
    OTHER_GENERATION,
    MORE_PARAMETERS,
    LESS_STATISTICS,
    NO_NOTE,
    NO_HEADER,
    LONG_HEADER,
    TOO_SHORT,
    ENDLESS,
    GONE,
    STALE,
    UNKNOWN_ROUTE,
    TOO_MANY_RECORDS,
    FAULTS,
};

static const char *const names[FAULTS] = {
    "none",
    "not finite",
    "huge",
    "other group",
    "other generation",
    "more parameters",
    "less",
    "no note",
    "no header",
    "long header",
    "too short",
    "endless",
    "gone",
    "stale",
    "unknown route",
    "too many records",
};

static struct groups groups;

static struct stranger {
    pthread_mutex_t lock; /* an answer may still be read while the next one is made */
    enum fault fault;
    size_t parameters, statistics;
    struct buf header;
    float *data;
} peer = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct mix_note *new_note(enum fault fault)
{
    struct mix_note *note = calloc(1, sizeof(*note));
    assert_non_null(note);
    note->copy =
        (struct mix_member){.group = fault == OTHER_GROUP ? 0 : 1,
                            .generation = GROUPS_GENERATION + (fault == OTHER_GENERATION ? 1 : 0),
                            .version = 12};
    note->record_count = fault == TOO_MANY_RECORDS ? MIXING_RECORDS_MAX : 2;
    for (size_t i = 0; i < note->record_count; i++) {
        note->record[i].xid = (struct mix_xid){1, 1 + (int64_t)i};
        note->record[i].kind = MIX_START;
    }
    return note;
}

static void make_header(enum fault fault)
{
    const struct mix_body body = {peer.parameters + (fault == MORE_PARAMETERS),
                                  peer.statistics - (fault == LESS_STATISTICS)};
    struct mix_note *note = new_note(fault);
    struct err err = {0};
    buf_clear(&peer.header);
    BUF_AUTO struct buf scratch;
    buf_init(&scratch, MIX_BODY_HEADER_MAX);
    assert_ok(mix_body_write_header(&body, note, &scratch, &peer.header, &err), &err);
    free(note);
    unsigned char *text = (unsigned char *)peer.header.data;
    if (fault == NO_NOTE) {
        char *key = strstr((char *)text + 8, "\"mix\"");
        assert_non_null(key);
        key[1] = 'n';
    }
    if (fault == LONG_HEADER || fault == NO_HEADER) {
        memset(text, fault == NO_HEADER ? 0 : 0xff, 3);
        text[3] = fault == NO_HEADER ? 0 : 1;
    }
}

static ssize_t read_some(uint64_t offset, void *out, size_t size)
{
    const size_t bytes = (peer.parameters + peer.statistics) * sizeof(float);
    if (offset < peer.header.size) {
        const size_t left = peer.header.size - (size_t)offset;
        const size_t count = size < left ? size : left;
        memcpy(out, peer.header.data + offset, count);
        return (ssize_t)count;
    }
    const size_t at = (size_t)offset - peer.header.size;
    const size_t left = at < bytes ? bytes - at : size; /* ENDLESS */
    const size_t count = size < left ? size : left;
    memset(out, 0, count);
    if (at < bytes) {
        memcpy(out, (const char *)peer.data + at, count);
    }
    return (ssize_t)count;
}

static ssize_t read_answer(void *arg, uint64_t offset, void *out, size_t size)
{
    (void)arg;
    (void)pthread_mutex_lock(&peer.lock);
    const ssize_t got = read_some(offset, out, size);
    (void)pthread_mutex_unlock(&peer.lock);
    return got;
}

static void done(void *arg)
{
    (void)arg;
}

static void give(void *context, struct http_exchange *exchange)
{
    (void)context;
    (void)pthread_mutex_lock(&peer.lock);
    const enum fault fault = peer.fault;
    const uint64_t bytes = peer.header.size + (peer.parameters + peer.statistics) * sizeof(float);
    (void)pthread_mutex_unlock(&peer.lock);
    const struct http_source source = {.read = read_answer, .done = done};
    const int status = fault == GONE            ? 410
                       : fault == STALE         ? 409
                       : fault == UNKNOWN_ROUTE ? 404
                                                : 200;
    if (status != 200) {
        http_reply(exchange, status, NULL, NULL, 0);
        return;
    }
    http_reply_stream(exchange, 200, "application/octet-stream",
                      fault == ENDLESS     ? HTTP_SIZE_UNKNOWN
                      : fault == TOO_SHORT ? bytes - 4
                                           : bytes,
                      &source);
}

static const struct http_route routes[] = {
    {.method = "GET",
     .pattern = "/peer/v1/{job}/{generation}/mixes/{xid}/{first}/{end}",
     .handle = give},
};

/* How a match with such a peer ends. */
static int end_of(enum fault fault)
{
    return fault == NONE                                               ? MIX_FETCHED
           : fault == GONE || fault == STALE || fault == UNKNOWN_ROUTE ? MIX_EXPIRED
                                                                       : MIX_REJECTED;
}

/* Of a match with the peer; AVERAGE: its copy is the only one beside the own. */
static struct mix_order order_with(const struct serve *serve, const struct group *group, int kind,
                                   int64_t counter)
{
    struct mix_order order = groups_order(kind, counter, 0.5);
    if (kind == MIX_AVERAGE) {
        order.averages = true;
        order.source[0] =
            (struct mix_source){.group = 0, .generation = GROUPS_GENERATION, .job_generation = 4};
        order.source[0].job = group->run->job;
        order.source[0].peer.device = group->device;
        order.source_count = 1;
    }
    struct mix_source *source = &order.source[order.source_count++];
    *source = (struct mix_source){.group = 1, .generation = GROUPS_GENERATION, .job_generation = 4};
    (void)snprintf(source->job.text, ID_SIZE, "job_x");
    (void)snprintf(source->peer.device.text, ID_SIZE, "dev_x");
    (void)snprintf(source->peer.url, URL_SIZE, "%s", serve->url);
    return order;
}

/* Nothing of it shows. */
static void expect_untouched(struct group *group, const float *own, int kind)
{
    float *now = group_copy(group);
    assert_memory_equal(now, own, group_floats(group) * sizeof(float));
    struct heartbeat *report = group_report(group);
    assert_int_equal(report->mix.mixes, 0);
    assert_int_equal(report->mix.record_count, 0);
    assert_int_equal(report->mix.has_lacks, kind == MIX_AVERAGE);
    assert_int_equal(report->mix.lacks, kind == MIX_AVERAGE ? 1 : 0);
    free(report);
    free(now);
}

static void check_kind(int kind)
{
    const enum mixing_place place = kind == MIX_PAIR ? MIXING_PAIRS : MIXING_AVERAGES;
    struct serve serve;
    const struct http_server_config config = serve_config(routes, 1, NULL);
    serve_start(&serve, &config);
    groups_open(&groups, kind == MIX_PAIR ? 1 : 2);
    struct group *group = &groups.item[0];
    peer.parameters = group->state.parameters;
    peer.statistics = group->state.statistics;
    peer.data = calloc(group_floats(group), sizeof(float));
    assert_non_null(peer.data);
    buf_init(&peer.header, 4 * MIX_BODY_HEADER_MAX);
    float *own = group_copy(group);
    for (int fault = FAULTS - 1; fault >= 0; fault--) {
        print_message("%s\n", names[fault]);
        (void)pthread_mutex_lock(&peer.lock);
        peer.fault = (enum fault)fault;
        peer.data[group_floats(group) - 1] = fault == NOT_FINITE  ? NAN
                                             : fault == TOO_LARGE ? 2e30F
                                                                  : 1;
        make_header((enum fault)fault);
        (void)pthread_mutex_unlock(&peer.lock);
        const struct mix_order order = order_with(&serve, group, kind, 1 + FAULTS - fault);
        group_take(group, &order);
        group_boundary(group, 2);
        group_wait(group, place, end_of((enum fault)fault));
        if (fault != NONE) {
            group_boundary(group, 3);
            expect_untouched(group, own, kind);
        }
    }
    group_boundary(group, 4);
    group_wait(group, place, MIX_APPLIED);
    struct heartbeat *report = group_report(group);
    /* Two that travelled along; of the average, and of its adoption. */
    assert_int_equal(report->mix.record_count, kind == MIX_PAIR ? 3 : 4);
    free(report);
    groups_close(&groups);
    serve_stop(&serve);
    free(own);
    free(peer.data);
    buf_done(&peer.header);
}

static void nothing_but_a_copy_is_mixed(void **state)
{
    (void)state;
    check_kind(MIX_PAIR);
}

static void nothing_but_a_copy_is_averaged(void **state)
{
    (void)state;
    check_kind(MIX_AVERAGE);
}

/* ---- requests ---- */

static int get(const struct group *group, const char *path, const char *ticket)
{
    struct http_client *client = NULL;
    struct http_result result;
    struct err err = {0};
    char url[512];
    BUF_AUTO struct buf reply;
    buf_init(&reply, 1 << 20);
    (void)snprintf(url, sizeof(url), "%s%s", group->url, path);
    assert_ok(http_client_new(&client, &err), &err);
    const struct http_call call = {
        .method = "GET", .url = url, .bearer = ticket, .reply = &reply, .stall_ms = 20000};
    assert_ok(http_client_call(client, &call, &result, &err), &err);
    http_client_free(&client);
    return result.status;
}

#define JOB "/peer/v1/job_00000000000000000000000000/"

static void requests_that_are_not_of_the_protocol_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int status;
    } cases[] = {
        {JOB "4/mixes/1-7/0/6", 200},    {JOB "4/mixes/1-6/0/6", 410},
        {JOB "4/averages/1-7/0/6", 410}, {JOB "4/mixes/1-7/0/5", 422},
        {JOB "4/mixes/1-7/1/6", 422},    {JOB "4/mixes/1-7/0/-1", 400},
        {JOB "4/mixes/17/0/6", 400},     {JOB "4/mixes/-7/0/6", 400},
        {JOB "4/mixes/1-0/0/6", 400},    {JOB "4/mixes/1-7-7/0/6", 400},
        {JOB "4/mixes/x-7/0/6", 400},    {JOB "4/mixes/1-7/a/6", 400},
        {JOB "3/mixes/1-7/0/6", 409},    {JOB "5/mixes/1-7/0/6", 503},
        {JOB "4/mixes/1-9/0/6", 503}, /* it may not have been heard of; it waits first */
    };
    static const size_t none[] = {0};
    groups_open(&groups, 1);
    struct group *group = &groups.item[0];
    groups.item[0].work->park_ms = 100;
    struct mix_order order = groups_order(MIX_PAIR, 7, 0.5);
    order.left_ms = 50;
    group_order(group, order, none, 0);
    group_boundary(group, 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        print_message("GET %s\n", cases[i].path);
        assert_int_equal(get(group, cases[i].path, GROUPS_TICKET), cases[i].status);
    }
    assert_int_equal(get(group, cases[0].path, "another"), 403);
    assert_int_equal(get(group, cases[0].path, NULL), 401);
    groups_close(&groups);
}

static void a_parked_request_ends_with_its_group(void **state)
{
    (void)state;
    static const size_t second[] = {1};
    groups_open(&groups, 2);
    groups.item[1].work->park_ms = 60000;
    group_order(&groups.item[0], groups_order(MIX_PAIR, 7, 0.5), second, 1);
    group_boundary(&groups.item[0], 5);
    group_cancel(&groups.item[1]); /* its request there is answered, and tried again */
    group_wait(&groups.item[0], MIXING_PAIRS, MIX_COPIED);
    groups_close(&groups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_but_a_copy_is_mixed),
        cmocka_unit_test(nothing_but_a_copy_is_averaged),
        cmocka_unit_test(requests_that_are_not_of_the_protocol_are_refused),
        cmocka_unit_test(a_parked_request_ends_with_its_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
