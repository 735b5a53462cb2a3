/* A worker whose calls go to a server of the test: a stop, or the end of the generation, in the
 * middle of a sum that is sent while it is computed. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/parameter_server/caller.h"
#include "agent/parameter_server/member_loop.h"
#include "agent/peer/answers.h"
#include "agent/peer/ways.h"
#include "agent/runtime/trouble.h"
#include "base/log.h"
#include "libtrain/description/description.h"
#include "tests/support/test.h"
#include "tests/unit/agent/tiny.h"
#include "tests/unit/agent_parameter_server/party.h"

/* The pass goes back through the last layer at once, and takes a while for the first ones. */
static const char slow_model[] =
    "{\"name\":\"slow\",\"input\":{\"shape\":[8,8,1],\"dtype\":\"uint8\"},\"units\":["
    "{\"name\":\"first\",\"ops\":[{\"type\":\"conv2d\",\"filters\":256,\"kernel\":3,\"padding\":1},"
    "{\"type\":\"relu\"}]},"
    "{\"name\":\"second\",\"ops\":[{\"type\":\"conv2d\",\"filters\":256,\"kernel\":3,\"padding\":1}"
    "]},"
    "{\"name\":\"third\",\"ops\":[{\"type\":\"conv2d\",\"filters\":256,\"kernel\":3,\"padding\":1}]"
    "}"
    ",{\"name\":\"pool\",\"ops\":[{\"type\":\"global_avg_pool\"}]},"
    "{\"name\":\"flat\",\"ops\":[{\"type\":\"flatten\"}]},"
    "{\"name\":\"head\",\"ops\":[{\"type\":\"linear\",\"units\":4}]}],"
    "\"loss\":{\"type\":\"softmax_cross_entropy\"}}";

static struct model *make_model(void)
{
    json_t *value = NULL;
    struct model *model = NULL;
    struct err err = {0};
    assert_ok(json_parse(slow_model, sizeof(slow_model) - 1, &value, &err), &err);
    assert_ok(description_parse(value, NULL, &model, NULL, &err), &err);
    json_decref(value);
    assert_int_equal(model->unit_count, TINY_UNITS);
    return model;
}

/* ---- stage 0 ---- */

struct lead {
    struct access *access;
    struct peer_server *server;
    struct peer_routes routes;
    struct member *worker;
    atomic_int begun, ended; /* bodies of sums */
    int64_t stated;          /* the version of the parameters, as it says */
    char *zeros;
};

/* Any parameters of version 0: zeros; `stated` may be another one. */
static void give(void *context, struct http_exchange *exchange)
{
    struct lead *lead = context;
    struct exchange_message pull = {.kind = EXCHANGE_PARAMETERS, .from = 1};
    int64_t version, first, end;
    assert_true(answers_number(exchange, "version", &version));
    assert_true(answers_number(exchange, "first", &first) && answers_number(exchange, "end", &end));
    if (version > 0) {
        answers_problem(exchange, 503, "not_yet", "there is no other");
        return;
    }
    pull.first = (size_t)first;
    pull.end = (size_t)end;
    const struct body body = member_view(lead->worker, &pull, false).body;
    const struct body_note note = {.version = lead->stated};
    const size_t size = body_write_header(&body, &note, lead->zeros);
    http_reply(exchange, 200, "application/octet-stream", lead->zeros, size + body_bytes(&body));
}

/* Of one body at a time. */
struct sum {
    struct lead *lead;
    struct http_exchange *exchange;
};

static bool open_sum(void *context, struct http_exchange *exchange, void **state)
{
    static struct sum sum;
    sum = (struct sum){context, exchange};
    (void)atomic_fetch_add(&sum.lead->begun, 1);
    *state = &sum;
    return true;
}

static size_t take_sum(void *state, const void *data, size_t size)
{
    (void)state;
    (void)data;
    return size;
}

static void finish_sum(void *state)
{
    struct sum *sum = state;
    (void)atomic_fetch_add(&sum->lead->ended, 1);
    http_reply(sum->exchange, 204, NULL, NULL, 0);
}

static void abort_sum(void *state)
{
    (void)state;
}

static const struct http_sink sink = {
    .open = open_sum, .write = take_sum, .finish = finish_sum, .abort = abort_sum};

static const struct http_route routes[] = {
    {.method = "GET",
     .pattern = "/peer/v1/{job}/{generation}/parameters/{version}/{first}/{end}",
     .handle = give},
    {.method = "PUT",
     .pattern = "/peer/v1/{job}/{generation}/exchange/{kind}/{step}/{index}/{first}/{end}",
     .sink = &sink},
};

/* ---- stage 1 ---- */

struct scene {
    struct lead lead;
    struct assignment_run *run;
    struct work_config config;
    struct ways *ways;
    struct troubles *troubles;
    struct callers *callers;
    pthread_t thread;
    int64_t version;
    int rc;
    struct err err;
    atomic_int failures;
    int failure_code;
    char failure[ERR_TEXT_MAX];
};

static void ignore_change(void *arg)
{
    (void)arg;
}

static void note_failure(void *arg, const struct err *why)
{
    struct scene *scene = arg;
    (void)snprintf(scene->failure, sizeof(scene->failure), "%s", why->text);
    scene->failure_code = why->code;
    (void)atomic_fetch_add(&scene->failures, 1);
}

static void ignore_metric(void *arg, const struct metric *metric)
{
    (void)arg;
    (void)metric;
}

static void *compute(void *arg)
{
    struct scene *scene = arg;
    const struct work_listener listener = {.metric = ignore_metric};
    scene->rc = member_loop(scene->lead.worker, &listener, &scene->version, &scene->err);
    return NULL;
}

/* The worker computes the micro-batches [0, share). stated: as of a lead. */
static void open_scene(struct scene *scene, int64_t share, int64_t stated)
{
    struct err err = {0};
    memset(scene, 0, sizeof(*scene));
    struct lead *lead = &scene->lead;
    lead->stated = stated;
    struct peer_server_config peers = {0};
    assert_ok(address_parse("127.0.0.1:0", &peers.listen, &err), &err);
    assert_ok(access_new(&lead->access, &err), &err);
    peers.access = lead->access;
    lead->routes = (struct peer_routes){
        .route = routes, .count = sizeof(routes) / sizeof(routes[0]), .context = lead};
    peers.more = &lead->routes;
    peers.more_count = 1;
    assert_ok(peer_server_open(&peers, &lead->server, &err), &err);
    assert_ok(ways_new("http://127.0.0.1:7410", &scene->ways, &err), &err);
    assert_ok(troubles_new(ignore_change, NULL, &scene->troubles, &err), &err);
    scene->run = party_run(1, 20000);
    if (share == 4) { /* the only worker */
        scene->run->stage[1].share_end = 4;
        scene->run->stage_count--;
        scene->run->stages_listed--;
    }
    scene->run->job_spec.parameter_server.transfers = SEGMENTS_STREAM;
    (void)snprintf(scene->run->stage[0].peer.url, URL_SIZE, "http://%s",
                   peer_server_address(lead->server)->text);
    const struct tiny_data *train = &tiny_job()->train;
    const struct tiny_data *test = &tiny_job()->test;
    scene->config =
        (struct work_config){.run = scene->run,
                             .data = {train->inputs, test->inputs, train->labels, test->labels},
                             .threads = 1,
                             .slowdown = 1,
                             .room_fd = -1,
                             .ways = scene->ways,
                             .troubles = scene->troubles,
                             .failed = note_failure,
                             .arg = scene};
    struct model *model = make_model();
    assert_ok(member_new(&scene->config, &model, &lead->worker, &err), &err);
    for (size_t unit = 0; unit < TINY_UNITS; unit++) {
        assert_ok(keeper_load_unit(member_work(lead->worker)->keeper, unit, NULL, 0, &err), &err);
    }
    lead->zeros = calloc(1, (size_t)16 << 20);
    assert_non_null(lead->zeros);
    assert_ok(callers_start(lead->worker, &scene->config, &scene->callers, &err), &err);
    member_follow(lead->worker, &(struct orders){.run = true});
    assert_int_equal(pthread_create(&scene->thread, NULL, compute, scene), 0);
}

/* Until the first sum is there. */
static void wait_for(const atomic_int *sums)
{
    struct cancel pause;
    struct err err = {0};
    assert_ok(cancel_init(&pause, &err), &err);
    for (int i = 0; i < 120000 && atomic_load(sums) == 0; i++) {
        (void)cancel_wait(&pause, 500000);
    }
    cancel_done(&pause);
    assert_int_equal(atomic_load(sums), 1);
}

static void close_scene(struct scene *scene)
{
    member_cancel(scene->lead.worker);
    callers_free(&scene->callers);
    struct work *work = member_work(scene->lead.worker);
    work_release(&work);
    peer_server_close(&scene->lead.server);
    access_free(&scene->lead.access);
    ways_free(&scene->ways);
    troubles_free(&scene->troubles);
    free(scene->lead.zeros);
    free(scene->run);
}

static void a_stop_breaks_off_a_stream(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, 2, 0);
    wait_for(&scene.lead.begun);
    const struct exchange_message last = {
        .kind = EXCHANGE_COMMIT, .to = 1, .step = 0, .last = true};
    assert_int_equal(member_commit(scene.lead.worker, &last), EXCHANGE_STORED);
    assert_int_equal(pthread_join(scene.thread, NULL), 0);
    assert_ok(scene.rc, &scene.err);
    assert_int_equal(scene.version, 0);
    close_scene(&scene);
    assert_string_equal(scene.failure, "");
    assert_int_equal(atomic_load(&scene.failures), 0);
}

static void the_end_of_a_generation_breaks_off_a_stream(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, 2, 0);
    wait_for(&scene.lead.begun);
    member_cancel(scene.lead.worker);
    assert_int_equal(pthread_join(scene.thread, NULL), 0);
    assert_int_equal(scene.rc, ERR_CANCELLED);
    close_scene(&scene);
    assert_string_equal(scene.failure, "");
    assert_int_equal(atomic_load(&scene.failures), 0);
}

/* Callers may still send them. */
static void the_sums_of_a_step_stay_as_they_are_at_the_end(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, 4, 0);
    wait_for(&scene.lead.ended);
    member_cancel(scene.lead.worker);
    assert_int_equal(pthread_join(scene.thread, NULL), 0);
    const struct exchange_message sum = party_sum(1, 1, 0, PARTY_LAYERS);
    const struct member_view view = member_view(scene.lead.worker, &sum, true);
    size_t others = 0;
    for (size_t i = 0; i < view.body.count[BODY_DATA]; i++) {
        others += view.data[i] != 0;
    }
    assert_true(others > 0);
    close_scene(&scene);
}

/* The pass makes the body slow, not the link. */
static void a_stream_says_nothing_of_its_link(void **state)
{
    (void)state;
    static struct heartbeat heartbeat; /* too large for a stack */
    struct scene scene;
    struct cancel pause;
    struct err err = {0};
    open_scene(&scene, 4, 0);
    wait_for(&scene.lead.ended);
    assert_ok(cancel_init(&pause, &err), &err);
    (void)cancel_wait(&pause, 100000000); /* the answer arrives */
    cancel_done(&pause);
    member_measure(scene.lead.worker, &heartbeat);
    const struct exchange_message sum = party_sum(1, 1, 0, PARTY_LAYERS);
    const struct member_view view = member_view(scene.lead.worker, &sum, true);
    const double bytes = (double)body_bytes(&view.body);
    assert_int_equal(heartbeat.link_count, 1);
    assert_true(heartbeat.link[0].bytes_sum > 0.9 * bytes); /* the pull */
    assert_true(heartbeat.link[0].bytes_sum < 1.5 * bytes);
    member_cancel(scene.lead.worker);
    assert_int_equal(pthread_join(scene.thread, NULL), 0);
    close_scene(&scene);
}

/* Its sums would be those of another step. */
static void parameters_of_another_version_are_refused(void **state)
{
    (void)state;
    static const int64_t stated[] = {1, BODY_NO_VERSION};
    static const char *const why[] = {"stage 0 answers with version 1 to a request for version 0",
                                      "stage 0 does not state the version of its parameters"};
    for (size_t i = 0; i < 2; i++) {
        struct scene scene;
        open_scene(&scene, 2, stated[i]);
        assert_int_equal(pthread_join(scene.thread, NULL), 0);
        assert_int_equal(scene.rc, ERR_CANCELLED);
        close_scene(&scene);
        assert_int_equal(atomic_load(&scene.failures), 1);
        assert_int_equal(scene.failure_code, ERR_PROTOCOL);
        assert_string_equal(scene.failure, why[i]);
        assert_int_equal(atomic_load(&scene.lead.begun), 0); /* nothing was computed */
    }
}

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_breaks_off_a_stream),
        cmocka_unit_test(the_end_of_a_generation_breaks_off_a_stream),
        cmocka_unit_test(the_sums_of_a_step_stay_as_they_are_at_the_end),
        cmocka_unit_test(a_stream_says_nothing_of_its_link),
        cmocka_unit_test(parameters_of_another_version_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
