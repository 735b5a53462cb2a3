#include "tests/unit/agent_gossip/groups.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pipeline/pipeline_work.h"
#include "agent/runtime/thread.h"
#include "base/clock.h"
#include "base/rng.h"
#include "libtrain/optim/mix.h"
#include "tests/support/test.h"
#include "tests/unit/agent/tiny.h"

#define FILE_MAX_BYTES (1 << 20)
#define RATE_STEPS 1000

static const char boot[] = "boot_of_a_test";

/* ---- the coordinator ---- */

static void add_query(void *arg, const char *name, const char *value)
{
    struct groups *groups = arg;
    const size_t at = strlen(groups->query);
    (void)snprintf(groups->query + at, sizeof(groups->query) - at, "%s=%s;", name, value);
}

static void take_average(void *context, struct http_exchange *exchange)
{
    struct groups *groups = context;
    struct err err = {0};
    size_t size = 0;
    const char *body = http_body(exchange, &size);
    (void)pthread_mutex_lock(&groups->lock);
    buf_clear(&groups->file);
    assert_ok(buf_append(&groups->file, body, size, &err), &err);
    (void)snprintf(groups->sha256, sizeof(groups->sha256), "%s", http_param(exchange, "sha256"));
    groups->query[0] = '\0';
    http_each_query(exchange, add_query, groups);
    groups->averages++;
    const int status = groups->status;
    (void)pthread_cond_broadcast(&groups->changed);
    (void)pthread_mutex_unlock(&groups->lock);
    http_reply(exchange, status, NULL, NULL, 0);
}

static const struct http_route coordinator_routes[] = {
    {.method = "PUT",
     .pattern = "/v1/agent/averages/{sha256}",
     .handle = take_average,
     .body_max = FILE_MAX_BYTES},
};

/* ---- groups ---- */

static void news(void *arg, bool awaited)
{
    (void)awaited;
    struct groups *groups = ((struct group *)arg)->groups;
    (void)pthread_mutex_lock(&groups->lock);
    (void)pthread_cond_broadcast(&groups->changed);
    (void)pthread_mutex_unlock(&groups->lock);
}

static void ignore(void *arg)
{
    (void)arg;
}

static void name_job(size_t group, char out[ID_SIZE])
{
    (void)snprintf(out, ID_SIZE, "job_%026zu", group);
}

static struct assignment_run *new_run(size_t group, size_t count)
{
    struct assignment_run *run = calloc(1, sizeof(*run));
    assert_non_null(run);
    name_job(group, run->job.text);
    run->generation = GROUPS_JOB_GENERATION;
    run->stage_count = 1;
    run->end = TINY_UNITS;
    run->in_flight = 1;
    run->peer_ms = 2000;
    run->total_steps = TINY_STEPS;
    run->job_spec = tiny_spec();
    run->data = (struct job_data){.train_samples = TINY_SAMPLES, .test_samples = TINY_TESTS};
    run->has_mix = true;
    run->mix = (struct mix_duty){.group = (int64_t)group,
                                 .generation = GROUPS_GENERATION,
                                 .groups = (int64_t)count,
                                 .every = 10,
                                 .rate_step = 3,
                                 .steps = 1000};
    return run;
}

static void let_in(struct group *group)
{
    struct assignment *assignment = calloc(1, sizeof(*assignment));
    assert_non_null(assignment);
    assignment->has_run = true;
    assignment->run.job = group->run->job;
    assignment->run.generation = GROUPS_JOB_GENERATION;
    struct caller *caller = &assignment->caller[assignment->caller_count++];
    caller->generation = GROUPS_JOB_GENERATION;
    caller->job = group->run->job;
    (void)snprintf(caller->device.text, ID_SIZE, "dev_any");
    (void)snprintf(caller->ticket, TICKET_SIZE, GROUPS_TICKET);
    access_set_callers(group->access, assignment);
    free(assignment);
}

static void open_server(struct group *group)
{
    struct peer_server_config peers = {
        .access = group->access, .more = &group->routes, .more_count = 1};
    struct err err = {0};
    assert_ok(address_parse("127.0.0.1:0", &peers.listen, &err), &err);
    assert_ok(peer_server_open(&peers, &group->server, &err), &err);
    (void)snprintf(group->url, sizeof(group->url), "http://%s",
                   peer_server_address(group->server)->text);
}

static void open_group(struct groups *groups, size_t index,
                       void (*adjust)(struct assignment_run *run))
{
    struct group *group = &groups->item[index];
    const struct tiny_data *train = &tiny_job()->train;
    const struct tiny_data *test = &tiny_job()->test;
    struct err err = {0};
    group->groups = groups;
    group->run = new_run(index, groups->count);
    if (adjust) {
        adjust(group->run);
    }
    (void)snprintf(group->device.text, ID_SIZE, "dev_%zu", index);
    assert_ok(access_new(&group->access, &err), &err);
    assert_ok(mix_routes_open(group->access, &group->routes, &err), &err);
    open_server(group);
    let_in(group);
    assert_ok(ways_new(groups->coordinator.url, &group->ways, &err), &err);
    assert_ok(troubles_new(ignore, NULL, &group->troubles, &err), &err);
    const struct work_config config = {
        .run = group->run,
        .data = {train->inputs, test->inputs, train->labels, test->labels},
        .threads = 1,
        .slowdown = 1,
        .room_fd = peer_server_room_fd(group->server),
        .ways = group->ways,
        .troubles = group->troubles,
        .coordinator = groups->coordinator.url,
        .device = &group->device,
        .boot = boot,
        .mix_changed = news,
        .arg = group,
    };
    struct model *model = tiny_model();
    assert_ok(pipeline_work.make(&config, &model, &group->work, &err), &err);
    group->mixer = group->work->mixer;
    for (size_t unit = 0; unit < TINY_UNITS; unit++) {
        assert_ok(keeper_load_unit(group->work->keeper, unit, NULL, 0, &err), &err);
    }
    group->state = train_state(keeper_train(group->work->keeper));
    group_draw(group, index);
    access_set_work(group->access, group->work);
    assert_ok(pipeline_work.start(group->work, &config, &err), &err);
}

void groups_open(struct groups *groups, size_t count)
{
    groups_open_with(groups, count, NULL);
}

void groups_open_with(struct groups *groups, size_t count,
                      void (*adjust)(struct assignment_run *run))
{
    struct err err = {0};
    const struct http_server_config config = serve_config(coordinator_routes, 1, groups);
    memset(groups, 0, sizeof(*groups));
    assert_int_equal(pthread_mutex_init(&groups->lock, NULL), 0);
    assert_ok(thread_condition_init(&groups->changed, &err), &err);
    buf_init(&groups->file, FILE_MAX_BYTES);
    groups->status = 204;
    groups->count = count;
    serve_start(&groups->coordinator, &config);
    for (size_t i = 0; i < count; i++) {
        open_group(groups, i, adjust);
    }
}

void group_cancel(struct group *group)
{
    pipeline_work.cancel(group->work);
    pipeline_work.release(group->work);
}

void groups_close(struct groups *groups)
{
    for (size_t i = 0; i < groups->count; i++) {
        struct group *group = &groups->item[i];
        group_cancel(group);
        access_set_work(group->access, NULL);
        peer_server_close(&group->server);
        work_release(&group->work);
        group->routes.free(group->routes.context);
        access_free(&group->access);
        troubles_free(&group->troubles);
        ways_free(&group->ways);
        free(group->run);
    }
    serve_stop(&groups->coordinator);
    buf_done(&groups->file);
    (void)pthread_cond_destroy(&groups->changed);
    (void)pthread_mutex_destroy(&groups->lock);
}

/* ---- orders ---- */

struct mix_order groups_order(int kind, int64_t counter, double alpha)
{
    return (struct mix_order){.xid = {1, counter},
                              .kind = kind,
                              .alpha = alpha,
                              .statistics_alpha = alpha,
                              .rate_step = 100 + counter,
                              .left_ms = GROUPS_STEP_LEFT_MS};
}

void group_take(struct group *group, const struct mix_order *order)
{
    struct mix_duty *duty = &group->run->mix;
    size_t at = 0; /* a pair and an average stand side by side */
    while (at < duty->order_count &&
           (duty->order[at].kind == MIX_PAIR) != (order->kind == MIX_PAIR)) {
        at++;
    }
    duty->order_count += at == duty->order_count;
    duty->order[at] = *order;
    pipeline_work.mix(group->work, duty);
}

void group_forget_orders(struct group *group)
{
    group->run->mix.order_count = 0;
    pipeline_work.mix(group->work, &group->run->mix);
}

void group_order(struct group *group, struct mix_order order, const size_t *sources, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct group *from = &group->groups->item[sources[i]];
        struct mix_source *source = &order.source[order.source_count++];
        source->group = (int64_t)sources[i];
        source->generation = GROUPS_GENERATION;
        source->job = from->run->job;
        source->job_generation = GROUPS_JOB_GENERATION;
        source->peer.device = from->device;
        (void)snprintf(source->peer.url, sizeof(source->peer.url), "%s", from->url);
        (void)snprintf(source->peer.ticket, sizeof(source->peer.ticket), GROUPS_TICKET);
    }
    group_take(group, &order);
}

/* ---- states ---- */

size_t group_floats(const struct group *group)
{
    return group->state.parameters + group->state.statistics;
}

void group_draw(struct group *group, uint64_t seed)
{
    const struct rng_stream stream = rng_stream(seed, RNG_SIMULATION, 1, 0);
    for (size_t i = 0; i < group->state.parameters; i++) {
        group->state.parameter[i] = rng_uniform(&stream, i) - 0.5F;
    }
    for (size_t i = 0; i < group->state.statistics; i++) {
        group->state.statistic[i] = 1 + rng_uniform(&stream, 100000 + i);
    }
    train_state_changed(keeper_train(group->work->keeper));
}

float *group_copy(const struct group *group)
{
    float *copy = malloc(group_floats(group) * sizeof(*copy));
    assert_non_null(copy);
    memcpy(copy, group->state.parameter, group->state.parameters * sizeof(*copy));
    memcpy(copy + group->state.parameters, group->state.statistic,
           group->state.statistics * sizeof(*copy));
    return copy;
}

void group_boundary(struct group *group, int64_t version)
{
    if (mixer_is_due(group->mixer, version)) {
        mixer_boundary(group->mixer, version);
    }
}

/* ---- waits ---- */

struct heartbeat *group_report(struct group *group)
{
    struct heartbeat *heartbeat = calloc(1, sizeof(*heartbeat));
    assert_non_null(heartbeat);
    mixer_report(group->mixer, heartbeat);
    assert_true(heartbeat->has_mix);
    return heartbeat;
}

static int state_of(struct group *group, enum mixing_place place)
{
    struct heartbeat *heartbeat = group_report(group);
    const int state =
        place == MIXING_PAIRS ? heartbeat->mix.pair.state : heartbeat->mix.average.state;
    free(heartbeat);
    return state;
}

void group_wait(struct group *group, enum mixing_place place, int state)
{
    struct groups *groups = group->groups;
    const int64_t until_ms = clock_now_ms() + 20000;
    (void)pthread_mutex_lock(&groups->lock);
    for (;;) {
        /* Reports may tell of news, under the lock. */
        (void)pthread_mutex_unlock(&groups->lock);
        const int now = state_of(group, place);
        if (now == state) {
            return;
        }
        if (clock_now_ms() > until_ms) {
            fail_msg("the match of group %zu is %s", (size_t)(group - groups->item),
                     mix_progress_names[now]);
        }
        (void)pthread_mutex_lock(&groups->lock);
        (void)thread_condition_wait(&groups->changed, &groups->lock, 20000000);
    }
}

/* What the coordinator does with reports: an average is sent after its records are stored. */
static void store_records(struct groups *groups)
{
    for (size_t g = 0; g < groups->count; g++) {
        struct heartbeat *heartbeat = group_report(&groups->item[g]);
        mixer_stored(groups->item[g].mixer, &heartbeat->mix);
        free(heartbeat);
    }
}

void groups_wait_averages(struct groups *groups, size_t count)
{
    const int64_t until_ms = clock_now_ms() + 20000;
    (void)pthread_mutex_lock(&groups->lock);
    while (groups->averages < count && clock_now_ms() < until_ms) {
        (void)pthread_mutex_unlock(&groups->lock);
        store_records(groups);
        (void)pthread_mutex_lock(&groups->lock);
        if (groups->averages < count) {
            (void)thread_condition_wait(&groups->changed, &groups->lock, 100000000);
        }
    }
    assert_true(groups->averages >= count);
    (void)pthread_mutex_unlock(&groups->lock);
}

/* ---- what a mix does ---- */

void group_move(const struct group *group, double alpha, const float *copy, const float *peer,
                float *state)
{
    const size_t at = group->state.parameters;
    mix_parameters(at, alpha, copy, peer, state);
    mix_statistics(group->state.statistics, alpha, peer + at, state + at);
}

void group_expect(const struct group *group, const float *expected)
{
    float *state = group_copy(group);
    assert_memory_equal(state, expected, group_floats(group) * sizeof(float));
    free(state);
}

void groups_tell_step(struct assignment_run *run)
{
    run->job_spec.learning_rate = (struct learning_rate){
        .type = LEARNING_RATE_CONSTANT, .value = 1, .gamma = 0.1, .warmup_steps = RATE_STEPS};
}

int64_t groups_rate_step(const struct mixer *mixer)
{
    return lround(mixer_rate(mixer) * RATE_STEPS);
}
