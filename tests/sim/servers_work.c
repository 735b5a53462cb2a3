/* The compute thread of a run of the strategy parameter_server: tasks of the exchange core on
 * digests. */
#include "tests/sim/servers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/evaluations.h"
#include "base/assert.h"
#include "schema/job_check.h"
#include "tests/sim/check.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/speeds.h"
#include "tests/sim/trace.h"

#define UNIT_US 400 /* of a forward pass on a usual device */

static bool is_lead(const struct run *run)
{
    return run->desired->stage_index == 0;
}

/* ---- segments ---- */

enum manner { WHOLE, EACH_LAYER, ANY, STREAM, MANNERS };

/* None spans two servers. */
static size_t draw_segments(struct world *world, const struct servers_run *work, enum manner manner,
                            size_t *end)
{
    size_t count = 0;
    for (size_t l = 1; l <= work->layers.count; l++) {
        bool ends =
            manner == EACH_LAYER || (manner == ANY && world_chance(world, DRAW_DEVICE, 500000));
        for (size_t s = 0; s < work->servers; s++) {
            ends = ends || work->layer_end[s] == l;
        }
        if (ends) {
            end[count++] = l;
        }
    }
    return count;
}

/* As few as possible, as many, any or streams: whatever a worker may choose. */
static void choose_segments(struct world *world, struct run *run)
{
    struct servers_run *work = servers_of(run);
    struct err err = {0};
    size_t pull[DIGEST_LAYERS_MAX], push[DIGEST_LAYERS_MAX];
    const enum manner manner = (enum manner)world_draw(world, DRAW_DEVICE, 0, MANNERS - 1);
    const struct exchange_requests pulls = {pull, draw_segments(world, work, manner, pull)};
    const struct exchange_requests pushes = {push, draw_segments(world, work, manner, push)};
    struct exchange_segments segments = {
        .pull = pulls,
        .window = (size_t)world_draw(world, DRAW_DEVICE, 1, 4),
        .streams = manner == STREAM,
    };
    for (size_t b = 0; b < REDUCE_BLOCKS_MAX; b++) {
        segments.push[b] = pushes;
    }
    const int rc = exchange_begin(work->exchange, &segments, &err);
    ASSERT(rc == 0);
}

/* ---- a worker ---- */

static void forward(struct world *world, struct run *run, const struct exchange_task *task)
{
    struct servers_run *work = servers_of(run);
    const int64_t seed = digest_samples_seed(&run->desired->job_spec);
    check_arena(world, run, task->step - 1, task->end, false);
    servers_forward(&work->layers, &work->arena,
                    digest_samples(seed, task->step, task->micro_batch), task->first, task->end,
                    &work->pass[task->micro_batch]);
}

/* Down to this layer; of the last micro-batch of a block the sums are final then. */
static void backward(struct world *world, struct run *run, const struct exchange_task *task,
                     size_t layer)
{
    struct servers_run *work = servers_of(run);
    check_arena(world, run, task->step - 1, work->layers.count, false);
    servers_backward(&work->layers, &work->arena, &work->pass[task->micro_batch]);
    for (size_t l = work->layers.count; task->block_ends && l-- > layer;) {
        work->sum[task->block][l] = servers_tree(work->pass, l, work->block[task->block].range);
    }
}

static void half_back(struct world *world, void *arg, int64_t number)
{
    struct run *run = run_find(arg, number);
    if (!run || !run->computing || run->cancelled || world->now_us < servers_of(run)->half_us) {
        return; /* of an earlier task, before the device froze */
    }
    struct servers_run *work = servers_of(run);
    work->half_us = INT64_MAX;
    const size_t layer = (size_t)world_draw(world, DRAW_DEVICE, 0, (int64_t)work->layers.count - 1);
    backward(world, run, &work->task, layer);
    exchange_summed(work->exchange, layer);
    servers_send(world, run);
}

static void evaluate(struct world *world, struct run *run, const struct exchange_task *task)
{
    struct servers_run *work = servers_of(run);
    const int64_t seed = digest_samples_seed(&run->desired->job_spec);
    check_arena(world, run, task->step, work->layers.count, true);
    work->result[task->buffer] =
        servers_evaluate(&work->layers, &work->arena, digest_test_samples(seed, task->micro_batch));
}

/* ---- a server ---- */

static void add(struct world *world, struct run *run, const struct exchange_task *task)
{
    struct servers_run *work = servers_of(run);
    check_sums(world, run, task->block, task->step);
    check_sums(world, run, task->right, task->step);
    for (size_t l = work->first; l < work->end; l++) {
        work->received[task->block][l] =
            digest_mix(work->received[task->block][l], work->received[task->right][l]);
    }
}

static void gather(struct run *run)
{
    struct servers_run *work = servers_of(run);
    memcpy(work->whole.sum, work->received[0], sizeof(work->whole.sum));
    servers_gather(&work->layers, &work->whole, work->micro_batches, &run->stage);
}

static void sum(struct run *run)
{
    struct servers_run *work = servers_of(run);
    const bool last = (size_t)run->desired->stage_index + 1 == work->servers;
    gather(run);
    work->norm_out = digest_sum(&run->stage, last ? 0 : work->norm_in);
    if (is_lead(run)) {
        work->total_in = work->total_out = work->norm_out;
    }
}

/* Whoever reads the state while it changes sees nonsense. */
static void begin_update(struct run *run)
{
    struct servers_run *work = servers_of(run);
    memcpy(work->state_before, run->stage.state, sizeof(work->state_before));
    for (size_t u = run->stage.first; u < run->stage.end; u++) {
        run->stage.state[u] = 0;
    }
}

static void report(struct world *world, const struct run *run, int64_t step, enum metric_name name,
                   double value)
{
    const struct metric metric = {.step = step, .name = name, .value = value};
    agent_metric(world, run->agent, run->serial, &metric);
}

static void report_step(struct world *world, struct run *run, int64_t step)
{
    struct servers_run *work = servers_of(run);
    uint64_t loss = 0;
    for (size_t m = 0; m < work->micro_batches; m++) {
        loss = digest_mix(loss, work->loss[m]);
    }
    report(world, run, step, METRIC_LOSS, digest_number(loss));
    report(world, run, step, METRIC_STEP_SECONDS,
           (double)(world->now_us - work->step_began_us + 1) / 1e6);
    work->step_began_us = world->now_us;
}

static void update(struct world *world, struct run *run, const struct exchange_task *task)
{
    struct servers_run *work = servers_of(run);
    memcpy(run->stage.state, work->state_before, sizeof(work->state_before));
    check_blocks(world, run, task->step);
    gather(run);
    digest_update(&run->stage, task->step, work->total_in);
    memset(work->received_step, 0, sizeof(work->received_step));
    if (is_lead(run)) {
        report_step(world, run, task->step);
    }
    run->step = task->step;
    check_step(world, run);
    outbox_take(world, run, task->step, &task->mark);
}

static void judge(struct world *world, struct run *run, struct exchange_task *task)
{
    struct servers_run *work = servers_of(run);
    const struct job_spec *spec = &run->desired->job_spec;
    const size_t batches =
        evaluations_batches(spec, &run->desired->data, (size_t)(spec->batch / spec->micro_batches));
    uint64_t tested = 0;
    for (size_t m = 0; m < batches; m++) {
        tested = digest_mix(tested, work->tested[m]);
    }
    task->value = digest_number(tested);
    report(world, run, task->step, METRIC_TEST_LOSS, task->value);
    report(world, run, task->step, METRIC_TEST_ACCURACY, task->value);
    work->step_began_us = world->now_us;
}

/* ---- tasks ---- */

static int64_t units_us(const struct world *world, const struct run *run, size_t first, size_t end)
{
    const struct model *model = coordinator_model(world, &run->desired->job_spec);
    int64_t us = 0;
    for (size_t u = first; u < end; u++) {
        us += speeds_unit_us(world, run->agent, model, u, UNIT_US);
    }
    return us;
}

static int64_t usual_us(const struct world *world, const struct run *run,
                        const struct exchange_task *task)
{
    const struct servers_run *work = servers_of(run);
    const size_t units = work->layers.units;
    switch (task->work) {
    case EXCHANGE_WAIT:
    case EXCHANGE_BEGIN:
    case EXCHANGE_TOTAL:
    case EXCHANGE_JUDGE:
    case EXCHANGE_STOP: return 0;
    case EXCHANGE_FORWARD:
        return units_us(world, run, 0, units) * (int64_t)(task->end - task->first) /
               (int64_t)work->layers.count;
    case EXCHANGE_BACKWARD: return 2 * units_us(world, run, 0, units);
    case EXCHANGE_EVALUATE: return units_us(world, run, 0, units);
    case EXCHANGE_ADD:
    case EXCHANGE_SUM:
    case EXCHANGE_UPDATE: return units_us(world, run, run->stage.first, run->stage.end) / 4;
    }
    return 0;
}

static enum timing_work timed_as(const struct run *run, const struct exchange_task *task)
{
    static const enum timing_work timed[] = {
        [EXCHANGE_WAIT] = TIMING_OTHER,        [EXCHANGE_BEGIN] = TIMING_OTHER,
        [EXCHANGE_FORWARD] = TIMING_FORWARD,   [EXCHANGE_BACKWARD] = TIMING_BACKWARD,
        [EXCHANGE_EVALUATE] = TIMING_EVALUATE, [EXCHANGE_ADD] = TIMING_OTHER,
        [EXCHANGE_SUM] = TIMING_SUM,           [EXCHANGE_TOTAL] = TIMING_OTHER,
        [EXCHANGE_UPDATE] = TIMING_UPDATE,     [EXCHANGE_JUDGE] = TIMING_OTHER,
        [EXCHANGE_STOP] = TIMING_OTHER,
    };
    const bool begins_step = task->work == EXCHANGE_BEGIN && !servers_is_server(run);
    return begins_step ? TIMING_NEXT : timed[task->work];
}

/* A forward pass counts when it is whole, however many tasks it took. */
static void take_time(const struct world *world, struct run *run, const struct exchange_task *task)
{
    struct servers_run *work = servers_of(run);
    double unit_seconds[UNITS_MAX];
    const int64_t total_us = units_us(world, run, 0, work->layers.units);
    struct timing_task timed = {.work = timed_as(run, task),
                                .began_seconds = (double)run->task_began_us / 1e6,
                                .ended_seconds = (double)world->now_us / 1e6,
                                .seconds = (double)work->task_running_us / 1e6,
                                .unit_seconds = unit_seconds,
                                .scale = 1};
    timed.stopped_seconds = timed.ended_seconds - timed.began_seconds - timed.seconds;
    if (task->work == EXCHANGE_FORWARD) {
        timed.seconds += task->first > 0 ? work->pass_seconds : 0;
        timed.stopped_seconds += task->first > 0 ? work->pass_stopped_seconds : 0;
        work->pass_seconds = timed.seconds;
        work->pass_stopped_seconds = timed.stopped_seconds;
        if (task->end < work->layers.count) {
            return;
        }
    }
    for (size_t u = 0; u < work->layers.units; u++) {
        unit_seconds[u] = timed.seconds * (double)units_us(world, run, u, u + 1) /
                          (double)(total_us > 0 ? total_us : 1);
    }
    timing_add(&work->timing, &timed);
}

static void take_wait(const struct world *world, struct run *run)
{
    static const enum timing_share shares[] = {
        [EXCHANGE_WAITS_FOR_ORDERS] = TIMING_SHARES, [EXCHANGE_WAITS_FOR_PARAMETERS] = TIMING_INPUT,
        [EXCHANGE_WAITS_FOR_ROOM] = TIMING_ROOM,     [EXCHANGE_WAITS_FOR_BLOCKS] = TIMING_GRADIENT,
        [EXCHANGE_WAITS_FOR_NORM] = TIMING_GRADIENT,
    };
    struct servers_run *work = servers_of(run);
    timing_wait(&work->timing, shares[exchange_waits(work->exchange)],
                (double)(world->now_us - work->idle_since_us) / 1e6);
    work->idle_since_us = world->now_us;
}

static void finish(struct world *world, void *arg, int64_t number)
{
    struct run *run = run_find(arg, number);
    if (!run) {
        return;
    }
    struct servers_run *work = servers_of(run);
    struct exchange_task task = work->task;
    run->computing = false;
    work->idle_since_us = world->now_us;
    switch (task.work) {
    case EXCHANGE_WAIT:
    case EXCHANGE_STOP: break;
    case EXCHANGE_BEGIN: choose_segments(world, run); break;
    case EXCHANGE_FORWARD: forward(world, run, &task); break;
    case EXCHANGE_BACKWARD: backward(world, run, &task, 0); break;
    case EXCHANGE_EVALUATE: evaluate(world, run, &task); break;
    case EXCHANGE_ADD: add(world, run, &task); break;
    case EXCHANGE_SUM: sum(run); break;
    case EXCHANGE_TOTAL: work->total_out = work->total_in; break;
    case EXCHANGE_UPDATE: update(world, run, &task); break;
    case EXCHANGE_JUDGE: judge(world, run, &task); break;
    }
    exchange_done(work->exchange, &task);
    take_time(world, run, &task);
    if (task.work == EXCHANGE_UPDATE) {
        check_servers(world, run);
    }
    if (run->cancelled) {
        run_release(world, run);
    } else if (task.work == EXCHANGE_STOP) {
        check_stopped(world, run, task.step);
        run_stop(world, run, task.step);
        servers_go_on(world, run);
    } else {
        servers_go_on(world, run);
    }
}

static void begin(struct world *world, struct run *run)
{
    struct servers_run *work = servers_of(run);
    const struct exchange_task *task = &work->task;
    work->half_us = INT64_MAX;
    switch (task->work) {
    case EXCHANGE_FORWARD: check_arena(world, run, task->step - 1, task->end, false); break;
    case EXCHANGE_BACKWARD:
        check_arena(world, run, task->step - 1, work->layers.count, false);
        if (task->block_ends) {
            work->half_us = world->now_us + work->task_running_us / 2;
            world_at(world, run->agent->actor, work->half_us, half_back, run->agent, run->serial);
        }
        break;
    case EXCHANGE_EVALUATE: check_arena(world, run, task->step, work->layers.count, true); break;
    case EXCHANGE_UPDATE:
        begin_update(run);
        if (task->opens_round) {
            agent_tell(world, run->agent, SESSION_ROUND_OPENED);
        }
        break;
    case EXCHANGE_WAIT:
    case EXCHANGE_BEGIN:
    case EXCHANGE_ADD:
    case EXCHANGE_SUM:
    case EXCHANGE_TOTAL:
    case EXCHANGE_JUDGE:
    case EXCHANGE_STOP: break;
    }
}

static void compute(struct world *world, struct run *run)
{
    struct servers_run *work = servers_of(run);
    if (run->state != RUN_TRAINS || run->computing) {
        return;
    }
    take_wait(world, run);
    if (exchange_next(work->exchange, &work->task) == EXCHANGE_WAIT) {
        return;
    }
    const int64_t us = usual_us(world, run, &work->task) * run->agent->slowness / 100 *
                       world_draw(world, DRAW_DEVICE, 80, 120) / 100;
    run->computing = true;
    run->task_began_us = world->now_us;
    work->task_running_us = speeds_running_us(world, run->agent, us) + 1;
    begin(world, run);
    world_at(world, run->agent->actor,
             world->now_us + speeds_elapsed_us(world, run->agent, work->task_running_us), finish,
             run->agent, run->serial);
}

void servers_go_on(struct world *world, struct run *run)
{
    if (!run->cancelled && run->published && run->work) {
        servers_answer(world, run);
        servers_send(world, run);
        compute(world, run);
    }
}

/* ---- the row ---- */

/* Parameters come from the servers; whatever no step changes is here already. */
static void start(struct world *world, struct run *run)
{
    struct servers_run *work = servers_of(run);
    memcpy(work->arena.still, run->stage.state, sizeof(work->arena.still));
    work->step_began_us = world->now_us;
    servers_start_lines(world, run);
}

static void follow(struct run *run, const struct orders *orders)
{
    exchange_follow(servers_of(run)->exchange, orders);
}

static void take_rounds(struct run *run, const struct round round[REPLICA_KINDS])
{
    exchange_take_rounds(servers_of(run)->exchange, round);
}

static void measure(struct run *run, struct heartbeat *out)
{
    exchange_report(servers_of(run)->exchange, out);
    timing_report(&servers_of(run)->timing, 0, out);
}

static void release(struct world *world, struct run *run)
{
    struct servers_run *work = servers_of(run);
    if (work) {
        servers_break(world, run);
        servers_end_calls(world, run);
        exchange_free(&work->exchange);
        free(work->tested);
        free(work);
        run->work = NULL;
    }
}

const struct run_row servers_row = {
    .needs = servers_needs,
    .peers = servers_peers,
    .make = servers_make,
    .start = start,
    .go_on = servers_go_on,
    .follow = follow,
    .take_rounds = take_rounds,
    .measure = measure,
    .release = release,
    .serve = servers_serve,
    .forget = servers_forget,
    .train_step = servers_train_step,
    .test = servers_test,
    .has_loss = is_lead,
};
