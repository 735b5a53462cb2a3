/* The law of a parameter server: the state of lenet5 is that of one process, byte for byte, with
 * every split of 8 micro-batches over 1 to 4 workers and every choice of 1 to 3 servers. Members
 * with their cores, loops and arithmetic are in one process; the test carries their messages.
 *
 *   test_agent_parameter_server_law [EVERY]     takes each EVERY-th plan; default: 23 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/parameter_server/member_loop.h"
#include "agent/parameter_server/message_kind.h"
#include "agent/runtime/keeper.h"
#include "agent/runtime/samples.h"
#include "base/clock.h"
#include "base/rng.h"
#include "libtrain/description/zoo.h"
#include "tests/support/test.h"

enum {
    MICRO_BATCHES = 8,
    BATCH = 16,
    STEPS = 2,
    SAMPLES = 40, /* an epoch ends within the steps */
    SAMPLE_BYTES = 28 * 28,
    WORKERS = 4,
    SERVERS = 3,
    DEVICES = WORKERS + SERVERS,
    PASSING = 64, /* messages on their way */
};

static size_t every = 23;
static unsigned char inputs[SAMPLES * SAMPLE_BYTES], labels[SAMPLES * sizeof(int32_t)];

/* ---- the job ---- */

static struct model *make_model(void)
{
    const char *text = zoo_text("lenet5");
    json_t *value = NULL;
    struct model *model = NULL;
    struct err err = {0};
    assert_ok(json_parse(text, strlen(text), &value, &err), &err);
    assert_ok(description_parse(value, zoo_fit("lenet5"), &model, NULL, &err), &err);
    json_decref(value);
    return model;
}

static struct job_spec make_spec(void)
{
    struct job_spec spec = job_spec_default;
    spec.strategy = STRATEGY_PARAMETER_SERVER;
    spec.batch = BATCH;
    spec.micro_batches = MICRO_BATCHES;
    spec.epochs = spec.steps = STEPS;
    spec.evaluate_every_epochs = 0;
    spec.seed = 7;
    spec.optimizer.momentum = 0.9;
    spec.optimizer.clip_norm = 0.1; /* of all servers together */
    spec.learning_rate.value = 0.05;
    spec.parameter_server.transfers = SEGMENTS_OPTIMAL;
    return spec;
}

static void make_data(void)
{
    const struct rng_stream random = rng_stream(5, RNG_SIMULATION, 0, 0);
    for (size_t i = 0; i < sizeof(inputs); i++) {
        inputs[i] = (unsigned char)rng_below(&random, i, 256);
    }
    for (size_t i = 0; i < SAMPLES; i++) {
        const int32_t label = (int32_t)(i % 10);
        memcpy(labels + i * sizeof(label), &label, sizeof(label));
    }
}

static const struct work_data data = {.train_inputs = inputs, .train_labels = labels};

/* ---- one process ---- */

static struct train_stage *make_stage(const struct model *model, const struct job_spec *spec,
                                      struct train_pool *pool, size_t in_flight)
{
    const struct train_stage_config config = {.model = model,
                                              .end = model->unit_count,
                                              .micro_batch = BATCH / MICRO_BATCHES,
                                              .micro_batches = MICRO_BATCHES,
                                              .in_flight = in_flight,
                                              .optimizer = spec->optimizer,
                                              .reduction = REDUCTION_TREE,
                                              .share = {0, in_flight ? MICRO_BATCHES : 0},
                                              .seed = (uint64_t)spec->seed,
                                              .pool = pool};
    struct train_stage *stage = NULL;
    struct err err = {0};
    assert_ok(train_stage_new(&config, &stage, &err), &err);
    for (size_t unit = 0; unit < model->unit_count; unit++) {
        train_unit_initialise(stage, unit);
    }
    return stage;
}

/* The sum of the gradients of a step, with the parameters of the state. */
static void sum_gradients(struct train_stage *pass, struct train_stage *state,
                          struct samples *samples, int64_t step)
{
    const size_t count = BATCH / MICRO_BATCHES;
    unsigned char input[BATCH * SAMPLE_BYTES];
    int32_t label[BATCH];
    size_t layers;
    const struct train_layer *layer = train_layers(state, &layers);
    const size_t floats = layer[layers - 1].first + layer[layers - 1].count;
    struct err err = {0};
    memcpy(train_parameters(pass), train_parameters(state), floats * sizeof(float));
    train_parameters_changed(pass);
    for (size_t m = 0; m < MICRO_BATCHES; m++) {
        double loss;
        const struct train_position position = {.step = step, .micro_batch = m};
        samples_inputs(samples, step, m * count, count, input);
        samples_labels(samples, step, m * count, count, label);
        assert_ok(train_forward(pass, 0, position, input, NULL, label, &loss, &err), &err);
        train_backward(pass, 0, NULL, NULL);
    }
    const struct reduce_range all = {0, MICRO_BATCHES};
    memcpy(train_gradient(state), train_block(pass, all), floats * sizeof(float));
    train_block_release(pass, all);
}

/* The units' states, one after the other; to be freed. */
static unsigned char *train_alone(size_t *size)
{
    struct model *model = make_model();
    const struct job_spec spec = make_spec();
    const struct samples_config config = {.model = model,
                                          .spec = &spec,
                                          .counts = {.train_samples = SAMPLES},
                                          .data = data,
                                          .micro_batch = BATCH / MICRO_BATCHES,
                                          .last = true};
    struct samples *samples = NULL;
    struct train_pool *pool = NULL;
    struct err err = {0};
    assert_ok(samples_new(&config, &samples, &err), &err);
    assert_ok(train_pool_new(1, &pool, &err), &err);
    struct train_stage *pass = make_stage(model, &spec, pool, 1);
    struct train_stage *state = make_stage(model, &spec, pool, 0);
    for (int64_t step = 1; step <= STEPS; step++) {
        double squares;
        sum_gradients(pass, state, samples, step);
        assert_ok(train_sum_squares(state, 0, &squares, &err), &err);
        assert_true(squares > spec.optimizer.clip_norm * spec.optimizer.clip_norm);
        assert_ok(train_clip(state, squares, &err), &err);
        const double rate = learning_rate_at(&spec.learning_rate, step, STEPS);
        assert_ok(train_update(state, step, rate, &err), &err);
    }
    *size = 0;
    for (size_t unit = 0; unit < model->unit_count; unit++) {
        *size += train_unit_bytes(state, unit);
    }
    unsigned char *out = malloc(*size);
    assert_non_null(out);
    for (size_t unit = 0, at = 0; unit < model->unit_count; unit++) {
        train_unit_save(state, unit, out + at);
        at += train_unit_bytes(state, unit);
    }
    train_stage_free(&pass);
    train_stage_free(&state);
    train_pool_free(&pool);
    samples_free(&samples);
    model_free(&model);
    return out;
}

/* ---- devices ---- */

struct runner {
    struct assignment_run *run;
    struct member *member;
    pthread_t thread;
    atomic_bool ended;
    int64_t version;
    int rc;
    struct err err;
};

/* A message on its way. */
struct passing {
    bool used, parked;
    size_t from;
    struct exchange_message message;
};

struct fleet {
    struct runner device[DEVICES];
    struct passing passing[PASSING]; /* its index is the handle of a parked pull */
    size_t count;
};
_Static_assert(PASSING <= MEMBER_PULLS_MAX, "indices are handles");

static void ignore_metric(void *arg, const struct metric *metric)
{
    (void)arg;
    (void)metric;
}

static void *compute(void *arg)
{
    struct runner *device = arg;
    const struct work_listener listener = {.metric = ignore_metric};
    device->rc = member_loop(device->member, &listener, &device->version, &device->err);
    atomic_store(&device->ended, true);
    return NULL;
}

static void start(struct runner *device, const struct assigned_stage *stage, size_t count, size_t s)
{
    struct assignment_run *run = calloc(1, sizeof(*run));
    struct model *model = make_model();
    struct err err = {0};
    assert_non_null(run);
    (void)snprintf(run->job.text, ID_SIZE, "job_00000000000000000000000001");
    run->generation = 1;
    run->stage_index = (int64_t)s;
    run->stage_count = (int64_t)count;
    run->stages_listed = count;
    memcpy(run->stage, stage, count * sizeof(*stage));
    run->first = stage[s].first;
    run->end = stage[s].end;
    run->in_flight = 1;
    run->step_ms = run->peer_ms = 20000;
    run->total_steps = STEPS;
    run->job_spec = make_spec();
    run->data = (struct job_data){.train_samples = SAMPLES};
    const struct work_config config = {
        .run = run, .data = data, .threads = 1, .slowdown = 1, .room_fd = -1};
    device->run = run;
    assert_ok(member_new(&config, &model, &device->member, &err), &err);
    struct keeper *keeper = member_work(device->member)->keeper;
    for (size_t unit = (size_t)run->first; unit < (size_t)run->end; unit++) {
        assert_ok(keeper_load_unit(keeper, unit, NULL, 0, &err), &err);
    }
    member_follow(device->member, &(struct orders){.run = true});
    assert_int_equal(pthread_create(&device->thread, NULL, compute, device), 0);
}

/* ---- their messages ---- */

static struct member *sender_of(const struct fleet *fleet, const struct passing *passing)
{
    return fleet->device[passing->from].member;
}

static struct member *receiver_of(const struct fleet *fleet, const struct passing *passing)
{
    return fleet->device[passing->message.to].member;
}

/* The server changes nothing before this worker is done with the step. */
static void take_answer(const struct fleet *fleet, struct passing *passing,
                        enum exchange_verdict verdict)
{
    struct member *worker = sender_of(fleet, passing), *server = receiver_of(fleet, passing);
    const struct exchange_message *pull = &passing->message;
    struct err err = {0};
    passing->used = verdict == EXCHANGE_NOT_YET;
    passing->parked = verdict == EXCHANGE_PARK;
    if (passing->parked) {
        passing->used = true;
    } else if (verdict == EXCHANGE_LAST) {
        assert_ok(member_ended(worker, pull, member_last(server), &err), &err);
    } else if (verdict == EXCHANGE_SERVE) {
        const struct member_view from = member_view(server, pull, true);
        const struct member_view to = member_view(worker, pull, false);
        member_copy(&from, &to);
        member_pulled(worker, pull, pull->end);
    } else {
        assert_int_equal(verdict, EXCHANGE_NOT_YET);
    }
}

static void deliver_pull(struct fleet *fleet, struct passing *passing)
{
    const size_t handle = (size_t)(passing - fleet->passing);
    struct member *server = receiver_of(fleet, passing);
    enum exchange_verdict verdict = EXCHANGE_PARK;
    if (!passing->parked) {
        verdict = member_pull(server, &passing->message, handle);
    } else {
        (void)member_answered(server, handle, &verdict);
    }
    take_answer(fleet, passing, verdict);
}

static void deliver_other(const struct fleet *fleet, struct passing *passing)
{
    struct member *from = sender_of(fleet, passing), *to = receiver_of(fleet, passing);
    const struct exchange_message *message = &passing->message;
    struct exchange_claim claim;
    enum exchange_verdict verdict = message->kind == EXCHANGE_COMMIT
                                        ? member_commit(to, message)
                                        : member_offer(to, message, &claim);
    if (verdict == EXCHANGE_TAKE) {
        const struct member_view source = member_view(from, message, true);
        const struct member_view target = member_view(to, message, false);
        member_copy(&source, &target);
        verdict = member_received(to, message, &claim);
    }
    passing->used = verdict == EXCHANGE_NOT_YET;
    if (!passing->used) {
        assert_int_equal(verdict, EXCHANGE_STORED);
        member_sent(from, message);
    }
}

static void deliver(struct fleet *fleet)
{
    for (size_t i = 0; i < PASSING; i++) {
        struct passing *passing = &fleet->passing[i];
        if (passing->used && !member_wants(sender_of(fleet, passing), &passing->message)) {
            passing->used = false;
            member_forget(receiver_of(fleet, passing), i);
        }
        if (passing->used && passing->message.kind == EXCHANGE_PARAMETERS) {
            deliver_pull(fleet, passing);
        } else if (passing->used) {
            deliver_other(fleet, passing);
        }
    }
}

/* Asking an empty lane takes a while: those that are never filled are left out. */
static bool is_used(const struct assignment_run *run, size_t lane)
{
    const struct assigned_stage *own = &run->stage[run->stage_index];
    return lane < MEMBER_NOTICES ? own->share_first < own->share_end
                                 : message_kind_notifies(run, lane - MEMBER_NOTICES);
}

static void collect_from(struct fleet *fleet, size_t s)
{
    const struct runner *runner = &fleet->device[s];
    struct exchange_message message;
    for (size_t lane = 0; lane < MEMBER_NOTICES + fleet->count; lane++) {
        while (is_used(runner->run, lane) &&
               member_next_message(runner->member, lane, 0, &message)) {
            size_t i = 0;
            while (fleet->passing[i].used) {
                i++;
                assert_true(i < PASSING);
            }
            fleet->passing[i] = (struct passing){.used = true, .from = s, .message = message};
        }
    }
}

static bool all_have_ended(const struct fleet *fleet)
{
    size_t ended = 0;
    for (size_t s = 0; s < fleet->count; s++) {
        ended += atomic_load(&fleet->device[s].ended);
    }
    return ended == fleet->count;
}

/* ---- plans ---- */

struct stages {
    struct assigned_stage stage[DEVICES];
    size_t count;
};

static void check_plan(const struct stages *plan, const unsigned char *expected)
{
    static struct fleet fleet;
    const double began = clock_now_seconds();
    memset(&fleet, 0, sizeof(fleet));
    fleet.count = plan->count;
    for (size_t s = 0; s < plan->count; s++) {
        start(&fleet.device[s], plan->stage, plan->count, s);
    }
    while (!all_have_ended(&fleet)) {
        assert_true(clock_now_seconds() - began < 60);
        for (size_t s = 0; s < fleet.count; s++) {
            collect_from(&fleet, s);
        }
        deliver(&fleet);
    }
    for (size_t s = 0; s < plan->count; s++) {
        struct runner *device = &fleet.device[s];
        assert_int_equal(pthread_join(device->thread, NULL), 0);
        assert_ok(device->rc, &device->err);
        assert_int_equal(device->version, STEPS);
        struct work *work = member_work(device->member);
        for (size_t unit = (size_t)device->run->first; unit < (size_t)device->run->end; unit++) {
            const size_t size = keeper_unit_bytes(work->keeper, unit);
            unsigned char *blob = malloc(size);
            assert_non_null(blob);
            keeper_save_unit(work->keeper, unit, blob);
            assert_memory_equal(blob, expected, size);
            free(blob);
            expected += size; /* stages keep the units in order */
        }
        work_release(&work);
        free(device->run);
    }
}

/* Splits the micro-batches: bit m of `cuts` is set where a share ends before micro-batch m + 1.
 * Returns how many there are. */
static size_t split(unsigned cuts, struct reduce_range share[MICRO_BATCHES])
{
    size_t count = 0;
    share[0].first = 0;
    for (size_t m = 1; m < MICRO_BATCHES; m++) {
        if (cuts >> (m - 1) & 1) {
            share[count].end = m;
            share[++count].first = m;
        }
    }
    share[count].end = MICRO_BATCHES;
    return count + 1;
}

/* The first `both` workers are on the last of the servers: the lead works only if all do.
 * Boundaries of the servers' units follow from `turn`. */
static void make_plan(const struct reduce_range *share, size_t workers, size_t servers, size_t both,
                      size_t units, size_t turn, struct stages *out)
{
    *out = (struct stages){.count = servers + workers - both};
    size_t end = 0;
    for (size_t s = 0; s < servers; s++) {
        const size_t most = units - end - (servers - s - 1);
        out->stage[s].first = (int64_t)end;
        end = s + 1 == servers ? units : end + 1 + turn % most;
        out->stage[s].end = (int64_t)end;
        turn /= most;
    }
    for (size_t s = 0; s < out->count; s++) {
        struct assigned_stage *stage = &out->stage[s];
        (void)snprintf(stage->peer.device.text, ID_SIZE, "dev_%zu", s);
        if (s >= servers) {
            stage->first = stage->end = (int64_t)units;
        }
        if (s + both >= servers) {
            stage->share_first = (int64_t)share[s + both - servers].first;
            stage->share_end = (int64_t)share[s + both - servers].end;
        }
    }
}

static void every_plan_gives_the_state_of_one_process(void **state)
{
    (void)state;
    size_t size, plans = 0, checked = 0;
    struct model *model = make_model();
    make_data();
    unsigned char *expected = train_alone(&size);
    for (unsigned cuts = 0; cuts < 1U << (MICRO_BATCHES - 1); cuts++) {
        struct reduce_range share[MICRO_BATCHES];
        const size_t workers = split(cuts, share);
        for (size_t servers = 1; workers <= WORKERS && servers <= SERVERS; servers++) {
            for (size_t both = 0; both <= servers && both <= workers; both++) {
                struct stages plan;
                if (plans++ % every == 0) {
                    make_plan(share, workers, servers, both, model->unit_count, plans, &plan);
                    check_plan(&plan, expected);
                    checked++;
                }
            }
        }
    }
    print_message("%zu of %zu plans\n", checked, plans);
    free(expected);
    model_free(&model);
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        every = strtoull(argv[1], NULL, 10);
        assert_true(every > 0);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_plan_gives_the_state_of_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
