/* Whole jobs of members that call each other over loopback: what ThreadSanitizer looks at. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/parameter_server/caller.h"
#include "agent/parameter_server/member_loop.h"
#include "agent/peer/ways.h"
#include "agent/runtime/trouble.h"
#include "base/log.h"
#include "libtrain/model/layers.h"
#include "tests/support/test.h"
#include "tests/unit/agent/tiny.h"
#include "tests/unit/agent_parameter_server/party.h"

struct fellow {
    struct assignment_run *run;
    struct access *access;
    struct peer_routes routes;
    struct peer_server *server;
    struct ways *ways;
    struct troubles *troubles;
    struct member *member;
    struct callers *callers;
    pthread_t thread;
    int rc;
    struct err err;
    int64_t version;
    struct tiny_result result; /* of the lead */
};

struct company {
    struct fellow fellow[PARTY_STAGES];
    size_t count;
};

static const struct assigned_stage one[] = {{.end = TINY_UNITS, .share_end = 4}};
/* A server that works, one that does not, and a worker without units; blocks of 3 and 1. */
static const struct assigned_stage three[] = {
    {.end = 2, .share_end = 1},
    {.first = 2, .end = TINY_UNITS},
    {.first = TINY_UNITS, .end = TINY_UNITS, .share_first = 1, .share_end = 4},
};
/* A server that only serves, and one that works. */
static const struct assigned_stage two[] = {
    {.end = 3},
    {.first = 3, .end = TINY_UNITS, .share_end = 4},
};

/* The lead keeps no layers if its unit is frozen. */
static const struct assigned_stage bare[] = {
    {.end = 1},
    {.first = 1, .end = 4, .share_end = 2},
    {.first = 4, .end = TINY_UNITS, .share_first = 2, .share_end = 4},
};

static void ignore_change(void *arg)
{
    (void)arg;
}

static void note_failure(void *arg, const struct err *why)
{
    (void)arg;
    print_error("%s\n", why->text);
}

static void take_metric(void *arg, const struct metric *metric)
{
    struct fellow *fellow = arg;
    tiny_result_add(&fellow->result, metric);
}

static void listen_as(struct company *company, size_t s)
{
    struct fellow *fellow = &company->fellow[s];
    struct peer_server_config peers = {0};
    struct err err = {0};
    struct assignment *assignment = calloc(1, sizeof(*assignment));
    assert_non_null(assignment);
    assert_ok(address_parse("127.0.0.1:0", &peers.listen, &err), &err);
    assert_ok(access_new(&fellow->access, &err), &err);
    assert_ok(exchange_routes_open(fellow->access, &fellow->routes, &err), &err);
    peers.access = fellow->access;
    peers.more = &fellow->routes;
    peers.more_count = 1;
    assert_ok(peer_server_open(&peers, &fellow->server, &err), &err);
    assignment->has_run = true;
    (void)snprintf(assignment->run.job.text, ID_SIZE, PARTY_JOB);
    assignment->run.generation = PARTY_GENERATION;
    for (size_t i = 0; i < company->count; i++) {
        struct caller *caller = &assignment->caller[assignment->caller_count];
        assignment->caller_count += i != s;
        caller->generation = PARTY_GENERATION;
        (void)snprintf(caller->job.text, ID_SIZE, PARTY_JOB);
        (void)snprintf(caller->device.text, ID_SIZE, "dev_%zu", i);
        (void)snprintf(caller->ticket, TICKET_SIZE, "%s", party_ticket[i]);
    }
    access_set_callers(fellow->access, assignment);
    free(assignment);
}

static void *compute(void *arg)
{
    struct fellow *fellow = arg;
    const struct work_listener listener = {.metric = take_metric, .arg = fellow};
    fellow->rc = member_loop(fellow->member, &listener, &fellow->version, &fellow->err);
    return NULL;
}

static void join_in(struct company *company, size_t s, const struct assigned_stage *stage,
                    int transfers, size_t frozen, bool evaluates)
{
    struct fellow *fellow = &company->fellow[s];
    struct assignment_run *run = party_run(s, 20000);
    struct err err = {0};
    fellow->run = run;
    run->stage_count = (int64_t)company->count;
    run->stages_listed = company->count;
    run->first = stage[s].first;
    run->end = stage[s].end;
    run->job_spec.optimizer.clip_norm = 0.5;
    run->job_spec.parameter_server.transfers = transfers;
    run->job_spec.freeze_count = frozen;
    run->job_spec.evaluate_every_epochs *= evaluates;
    for (size_t i = 0; i < company->count; i++) {
        const struct peer peer = run->stage[i].peer;
        run->stage[i] = stage[i];
        run->stage[i].peer = peer;
        if (i != s) {
            (void)snprintf(run->stage[i].peer.url, URL_SIZE, "http://%s",
                           peer_server_address(company->fellow[i].server)->text);
        }
    }
    assert_ok(ways_new("http://127.0.0.1:7410", &fellow->ways, &err), &err);
    assert_ok(troubles_new(ignore_change, NULL, &fellow->troubles, &err), &err);
    tiny_result_init(&fellow->result);
    fellow->member = party_member(run, peer_server_room_fd(fellow->server));
    const struct work_config config = {.run = run,
                                       .ways = fellow->ways,
                                       .troubles = fellow->troubles,
                                       .failed = note_failure,
                                       .arg = fellow};
    assert_ok(callers_start(fellow->member, &config, &fellow->callers, &err), &err);
    access_set_work(fellow->access, member_work(fellow->member));
    assert_int_equal(pthread_create(&fellow->thread, NULL, compute, fellow), 0);
}

static void begin(struct company *company, const struct assigned_stage *stage, size_t count,
                  int transfers, size_t frozen, bool evaluates)
{
    memset(company, 0, sizeof(*company));
    company->count = count;
    for (size_t s = 0; s < count; s++) {
        listen_as(company, s);
    }
    for (size_t s = 0; s < count; s++) {
        join_in(company, s, stage, transfers, frozen, evaluates);
    }
}

/* Until all have stopped. Returns the version. */
static int64_t wait_for_all(struct company *company)
{
    for (size_t s = 0; s < company->count; s++) {
        struct fellow *fellow = &company->fellow[s];
        assert_int_equal(pthread_join(fellow->thread, NULL), 0);
        assert_ok(fellow->rc, &fellow->err);
        assert_int_equal(fellow->version, company->fellow[0].version);
    }
    return company->fellow[0].version;
}

static void disband(struct company *company)
{
    for (size_t s = 0; s < company->count; s++) {
        member_cancel(company->fellow[s].member);
    }
    for (size_t s = 0; s < company->count; s++) {
        struct fellow *fellow = &company->fellow[s];
        struct work *work = member_work(fellow->member);
        callers_free(&fellow->callers);
        access_set_work(fellow->access, NULL);
        work_release(&work);
        peer_server_close(&fellow->server);
        fellow->routes.free(fellow->routes.context);
        access_free(&fellow->access);
        ways_free(&fellow->ways);
        troubles_free(&fellow->troubles);
        free(fellow->run);
    }
}

static void hash_units(const struct company *company, char out[TINY_UNITS][HASH_TEXT_SIZE])
{
    for (size_t s = 0; s < company->count; s++) {
        const struct fellow *fellow = &company->fellow[s];
        const struct keeper *keeper = member_work(fellow->member)->keeper;
        for (size_t unit = (size_t)fellow->run->first; unit < (size_t)fellow->run->end; unit++) {
            const size_t size = keeper_unit_bytes(keeper, unit);
            void *blob = malloc(size);
            assert_non_null(blob);
            keeper_save_unit(keeper, unit, blob);
            sha256_text(blob, size, out[unit]);
            free(blob);
        }
    }
}

static void plans_and_transfers_change_no_bits(void **state)
{
    (void)state;
    static const struct {
        const struct assigned_stage *stage;
        size_t count;
        int transfers;
        size_t frozen;
    } cases[] = {
        {one, 1, TRANSFERS_AUTO, 0},    {two, 2, SEGMENTS_STREAM, 0},
        {three, 3, TRANSFERS_AUTO, 0},  {three, 3, SEGMENTS_LAYER_WINDOW, 0},
        {three, 3, SEGMENTS_STREAM, 0}, {one, 1, TRANSFERS_AUTO, 1},
        {bare, 3, TRANSFERS_AUTO, 1},   {bare, 3, SEGMENTS_LAYER_WINDOW, 1},
        {bare, 3, SEGMENTS_STREAM, 1},
    };
    static struct company company;
    static struct tiny_result expected;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        print_message("%zu devices, transfers %s, %zu frozen\n", cases[i].count,
                      transfers_names[cases[i].transfers], cases[i].frozen);
        begin(&company, cases[i].stage, cases[i].count, cases[i].transfers, cases[i].frozen, true);
        assert_int_equal(wait_for_all(&company), TINY_STEPS);
        struct tiny_result *result = &company.fellow[0].result;
        hash_units(&company, result->unit_sha256);
        if (cases[i].count == 1) {
            expected = *result;
            assert_true(isfinite(expected.loss[TINY_STEPS]));
            assert_true(expected.loss[TINY_STEPS] < expected.loss[1]);
            assert_true(isfinite(expected.test_loss[8]) &&
                        isfinite(expected.test_loss[TINY_STEPS]));
        }
        assert_memory_equal(result->unit_sha256, expected.unit_sha256,
                            sizeof(expected.unit_sha256));
        for (size_t step = 1; step <= TINY_STEPS; step++) {
            assert_true(result->loss[step] == expected.loss[step]);
            assert_true(result->test_loss[step] == expected.test_loss[step] ||
                        isnan(expected.test_loss[step]));
        }
        disband(&company);
    }
}

/* At any moment: everyone ends at one version, or everyone is cancelled. */
static void a_stop_or_an_end_comes_at_any_moment(void **state)
{
    (void)state;
    static struct company company;
    struct cancel pause;
    struct err err = {0};
    assert_ok(cancel_init(&pause, &err), &err);
    for (int64_t i = 0; i < 24; i++) {
        begin(&company, i % 2 ? bare : three, 3,
              i % 3 == 0 ? SEGMENTS_LAYER_WINDOW : SEGMENTS_STREAM, i % 2, true);
        (void)cancel_wait(&pause, i * 700000);
        if (i % 4 == 3) {
            for (size_t s = 0; s < 3; s++) {
                member_cancel(company.fellow[s].member);
                assert_int_equal(pthread_join(company.fellow[s].thread, NULL), 0);
            }
        } else {
            const struct orders stop = {.run = true, .stop = true};
            member_follow(company.fellow[0].member, &stop);
            assert_in_range(wait_for_all(&company), 0, TINY_STEPS);
        }
        disband(&company);
    }
    cancel_done(&pause);
}

/* ---- traffic ---- */

#define HEADER_MAX 512 /* of a body */

struct traffic {
    int64_t requests;
    double bytes;
};

/* What a worker has exchanged with each stage, once there were so many requests: the answer to its
 * last sum comes after the last step. */
static void count_traffic(struct company *company, size_t worker, int64_t requests,
                          struct traffic out[PARTY_STAGES])
{
    static struct heartbeat heartbeat;
    const struct fellow *fellow = &company->fellow[worker];
    struct cancel pause;
    struct err err = {0};
    assert_ok(cancel_init(&pause, &err), &err);
    for (int tries = 0; tries < 5000 && requests > 0; tries++) {
        memset(&heartbeat, 0, sizeof(heartbeat));
        member_measure(fellow->member, &heartbeat);
        for (size_t i = 0; i < heartbeat.link_count; i++) {
            const struct link_report *link = &heartbeat.link[i];
            const size_t stage = member_stage_of(fellow->member, link->device.text);
            assert_in_range(stage, 0, PARTY_STAGES - 1);
            out[stage].requests += link->count;
            out[stage].bytes += link->bytes_sum;
            requests -= link->count;
        }
        (void)cancel_wait(&pause, 1000000);
    }
    cancel_done(&pause);
}

/* Of the units that the stage keeps. */
static double trained_bytes(const struct assigned_stage *stage)
{
    struct model *model = tiny_model();
    struct model_layer layer[PARTY_LAYERS];
    const size_t count =
        layers_list(model, (size_t)stage->first, (size_t)stage->end, layer, PARTY_LAYERS);
    double bytes = 0;
    for (size_t l = 0; l < count; l++) {
        bytes += (double)(layer[l].floats * sizeof(float));
    }
    model_free(&model);
    return bytes;
}

/* Down: the trained parameters, once for each worker. Up: the same once for each block, with the
 * losses and the statistics of its micro-batches, which the first server keeps. */
static void a_worker_pulls_once_and_sends_each_block_once(void **state)
{
    (void)state;
    static const size_t worker = 2, servers = 2, blocks = 2, micro_batches = 3;
    static struct company company;
    begin(&company, three, 3, SEGMENTS_WHOLE, 0, false);
    assert_int_equal(wait_for_all(&company), TINY_STEPS);
    const double more =
        (double)micro_batches *
        ((double)party_statistics(company.fellow[0].member) * sizeof(float) + sizeof(double));
    const int64_t requests = TINY_STEPS * (int64_t)(1 + blocks);
    struct traffic found[PARTY_STAGES] = {{0}};
    count_traffic(&company, worker, (int64_t)servers * requests, found);
    for (size_t server = 0; server < servers; server++) {
        const double bodies = TINY_STEPS * ((double)(1 + blocks) * trained_bytes(&three[server]) +
                                            (server == 0 ? more : 0));
        const double header = (found[server].bytes - bodies) / (double)requests;
        assert_int_equal(found[server].requests, requests);
        assert_true(header > 0 && header < HEADER_MAX);
    }
    disband(&company);
}

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_and_transfers_change_no_bits),
        cmocka_unit_test(a_stop_or_an_end_comes_at_any_moment),
        cmocka_unit_test(a_worker_pulls_once_and_sends_each_block_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
