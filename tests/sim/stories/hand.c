#include "tests/sim/stories/hand.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "schema/job_check.h"
#include "tests/sim/coordinator.h"

#define LOOK_US (5 * MS)
#define PATIENCE_US (4000 * SECOND)
#define STOP_US (60 * SECOND)

uint64_t hand_draw(struct hand *hand, uint64_t bound)
{
    return rng_below(&hand->random, hand->draws++, bound);
}

/* ---- the world ---- */

static void draw_job(struct hand *hand)
{
    static const int64_t micro_batches[] = {1, 2, 4, 5, 10, 20};
    struct user_job *job = hand->job;
    struct job_spec *spec = &job->spec;
    spec->strategy = STRATEGY_PARAMETER_SERVER;
    spec->micro_batches = micro_batches[hand_draw(hand, 6)];
    spec->optimizer.clip_norm = hand_draw(hand, 2) == 0 ? 1 : 0;
    spec->neighbor_every = (int64_t)hand_draw(hand, 4);
    spec->center_every = (int64_t)hand_draw(hand, 4);
    spec->evaluate_every_epochs = (int64_t)hand_draw(hand, 2);
    spec->has_stop = spec->evaluate_every_epochs > 0 && hand_draw(hand, 2) == 0;
    spec->stop.metric = JUDGED_TEST_LOSS;
    spec->stop.patience = 2;
    job->data.train_samples = spec->batch * (1 + (int64_t)hand_draw(hand, 6));
    job->data.test_samples = 1 + (int64_t)hand_draw(hand, 60);
    job->data.tune = false;
}

static void draw_network(struct hand *hand)
{
    struct net_rates *rates = &hand->world.net->rates;
    const bool bad = hand_draw(hand, 4) > 0;
    *rates = (struct net_rates){.delay_us = 50 + (int64_t)hand_draw(hand, 2000),
                                .jitter_us = 10 + (int64_t)hand_draw(hand, 5000)};
    if (bad) {
        rates->lose_request = (int64_t)hand_draw(hand, 20000);
        rates->lose_answer = (int64_t)hand_draw(hand, 20000);
        rates->break_request = (int64_t)hand_draw(hand, 50000);
        rates->break_answer = (int64_t)hand_draw(hand, 50000);
        rates->doubled = (int64_t)hand_draw(hand, 100000);
        rates->slow = (int64_t)hand_draw(hand, 50000);
        rates->slow_us = 1 + (int64_t)hand_draw(hand, (uint64_t)(3 * SECOND));
    }
}

static void start_devices(struct hand *hand)
{
    for (size_t i = 0; i < hand->world.agent_count; i++) {
        struct agent *agent = hand->world.agent[i];
        agent->slowness = agent->usual_slowness = 100 + (int64_t)hand_draw(hand, 2000);
        agent->keeps = true;
        agent->timer_us = INT64_MAX;
        agent->data_count = 2;
        (void)snprintf(agent->data[0], SHA256_SIZE, "train");
        (void)snprintf(agent->data[1], SHA256_SIZE, "test");
        (void)snprintf(agent->id.text, ID_SIZE, "dev_%zu", i + 1);
        world_start(&hand->world, agent->actor);
    }
}

struct hand *hand_new(uint64_t seed, struct trace *trace)
{
    struct err err = {0};
    struct hand *hand = calloc(1, sizeof(*hand));
    assert_non_null(hand);
    hand->random = rng_stream(seed, RNG_SIMULATION, DRAW_COUNT + 1, 0);
    hand->lost = HAND_NONE;
    assert_ok(sim_models_new(&hand->models, &err), &err);
    for (size_t i = 0; i < hand->models.count; i++) { /* some are not trained, never all */
        const size_t still = (size_t)hand_draw(hand, hand->models.item[i]->unit_count);
        for (size_t n = 0; n < still && hand_draw(hand, 2) == 0; n++) {
            hand->models.item[i]->unit[n + hand_draw(hand, 2)].frozen = true;
        }
    }
    assert_ok(sim_open(&hand->world, seed, &hand->models, 1 + hand_draw(hand, HAND_DEVICES_MAX),
                       trace, &err),
              &err);
    hand->job =
        users_add(&hand->world, (size_t)hand_draw(hand, 3), 1 + (int64_t)hand_draw(hand, 15));
    draw_job(hand);
    draw_network(hand);
    start_devices(hand);
    struct user_job *job = hand->job;
    assert_ok(job_spec_check(&job->spec, NULL, &err), &err);
    assert_ok(
        users_reference(job->model, &job->spec, &job->data, &job->reference, &job->course, &err),
        &err);
    (void)snprintf(hand->id.text, ID_SIZE, "job_hand");
    hand->world.check->known[0].id = hand->id;
    hand->world.check->known[0].job = 0;
    hand->world.check->known_count = 1;
    return hand;
}

void hand_free(struct hand *hand)
{
    sim_close(&hand->world);
    sim_models_free(&hand->models);
    free(hand);
}

/* ---- orders ---- */

static struct run *run_of(const struct hand *hand, size_t stage)
{
    struct run *run = hand->world.agent[hand->device[stage]]->run;
    return hand_is_up(hand, hand->device[stage]) ? run : NULL;
}

static void order(struct hand *hand, size_t stage, enum session_action_type type)
{
    const struct session_action action = {.type = type};
    struct run *run = run_of(hand, stage);
    if (run && !run->cancelled) {
        run_tell(&hand->world, run, &action);
    }
}

static int64_t last_step(const struct hand *hand)
{
    const struct job row = {.id = hand->id, .spec = hand->job->spec, .data = hand->job->data};
    return check_last_step(&hand->world, &row);
}

/* What the device has reported since the last look. */
static void take_reports(struct hand *hand, size_t device)
{
    struct agent *agent = hand->world.agent[device];
    const struct reference *reference = hand->job->reference;
    for (size_t i = 0; i < agent->event_count; i++) {
        const struct session_event *event = &agent->event[i];
        hand->prepared[device] |= event->type == SESSION_PREPARED;
        hand->stopped[device] |= event->type == SESSION_STOPPED;
        if (event->type == SESSION_FAILED && !hand->prepared[device]) {
            hand->failed = true; /* the network: it could not take its units */
        } else if (event->type == SESSION_FAILED) {
            fail_msg("%s fails: %s", agent->name, event->error.message);
        }
    }
    for (size_t i = 0; i < agent->metric_count; i++) {
        const struct metric *metric = &agent->metric[i].metric;
        if (metric->name == METRIC_LOSS) {
            assert_true(metric->step <= last_step(hand));
            assert_true(metric->value == reference->loss[metric->step]);
        } else if (metric->name == METRIC_TEST_ACCURACY) {
            assert_true(metric->value == reference->evaluation[metric->step]);
        }
    }
    agent->event_count = agent->metric_count = 0;
}

/* What the coordinator answers to the lead's heartbeats. */
static void answer_rounds(struct hand *hand)
{
    struct run *run = run_of(hand, 0);
    if (!run || !run->published || hand_draw(hand, 20) > 0) {
        return;
    }
    struct heartbeat *beat = calloc(1, sizeof(*beat));
    assert_non_null(beat);
    run->row->measure(run, beat);
    hand->judged = beat->has_early_stop ? beat->early_stop : hand->judged;
    struct session_action action = {
        .type = SESSION_DO_ROUNDS,
        .round = {{.version = beat->round_neighbor}, {.version = beat->round_center}}};
    for (size_t kind = 0; kind < REPLICA_KINDS; kind++) {
        action.round[kind].state = hand_draw(hand, 2) == 0 ? ROUND_COMMITTED : ROUND_ABANDONED;
    }
    free(beat);
    run_tell(&hand->world, run, &action);
}

static void draw_orders(struct hand *hand, bool *held)
{
    const size_t stage = (size_t)hand_draw(hand, hand->count);
    switch (hand_draw(hand, 400)) {
    case 0:
        order(hand, stage, *held ? SESSION_DO_RELEASE : SESSION_DO_HOLD);
        *held = !*held;
        break;
    case 1: order(hand, 0, SESSION_DO_AWAY); break;
    case 2: order(hand, 0, SESSION_DO_BACK); break;
    default: break;
    }
    for (size_t s = 0; *held && s < hand->count && hand_draw(hand, 10) == 0; s++) {
        order(hand, s, SESSION_DO_RELEASE);
        *held = s + 1 < hand->count;
    }
}

static bool have(const struct hand *hand, const bool *reported)
{
    for (size_t s = 0; s < hand->count; s++) {
        if (hand->device[s] != hand->lost && !reported[hand->device[s]]) {
            return false;
        }
    }
    return true;
}

/* Time passes, and reports are taken. */
static void look(struct hand *hand)
{
    sim_pass(&hand->world, LOOK_US);
    if (hand->world.check->failure[0] != '\0') {
        fail_msg("%s", hand->world.check->failure);
    }
    for (size_t i = 0; i < hand->world.agent_count; i++) {
        take_reports(hand, i);
    }
}

/* ---- ends ---- */

static void end_runs(struct hand *hand)
{
    for (size_t i = 0; i < hand->world.agent_count; i++) {
        struct agent *agent = hand->world.agent[i];
        if (agent->run) {
            run_cancel(&hand->world, agent->run);
        }
    }
    for (size_t i = 0; i < hand->world.agent_count; i++) {
        while (hand->world.agent[i]->run && !run_ended(hand->world.agent[i]->run)) {
            look(hand);
        }
        run_free(&hand->world, &hand->world.agent[i]->run);
    }
}

static void lose_worker(struct hand *hand)
{
    if (hand->count > hand->servers) {
        const size_t index = hand->servers + (size_t)hand_draw(hand, hand->count - hand->servers);
        hand->lost = hand->device[index];
        agent_crash(&hand->world, hand->world.agent[hand->lost]);
        hand->world.agent[hand->lost]->id = hand->stage[index].peer.device;
    }
}

/* The newest version of which all units are held. */
static int64_t newest_version(const struct hand *hand)
{
    int64_t version = hand->job->reference->steps;
    while (version > hand->version) {
        int64_t unit = 0;
        for (bool held = true; held && unit < (int64_t)hand->job->model->unit_count; unit += held) {
            held = false;
            for (size_t i = 0; i < hand->world.agent_count; i++) {
                held = held || agent_snapshot(hand->world.agent[i], hand->id.text, version, unit);
            }
        }
        if (unit == (int64_t)hand->job->model->unit_count) {
            break;
        }
        version--;
    }
    return version;
}

/* The version at which the servers have stopped; no device knows another one. */
static int64_t stopped_version(const struct hand *hand)
{
    const struct run *lead = run_of(hand, 0);
    int64_t applied = 0;
    for (size_t s = 0; s < hand->count; s++) {
        const struct run *run = run_of(hand, s);
        if (hand->device[s] != hand->lost) {
            assert_int_equal(run->stopped_version, lead->stopped_version);
        }
    }
    for (size_t s = 0; s < hand->servers; s++) {
        applied = run_of(hand, s)->step > applied ? run_of(hand, s)->step : applied;
    }
    assert_int_equal(lead->stopped_version, applied); /* no step that a server applied is lost */
    return lead->stopped_version;
}

static void stop_all(struct hand *hand)
{
    for (size_t s = 0; s < hand->count; s++) {
        order(hand, s, SESSION_DO_RELEASE);
        order(hand, s, SESSION_DO_STOP);
    }
}

/* The evaluation at the end of the job waits for a worker that is lost: the coordinator gives the
 * generation up. */
static bool waits_for_lost(const struct hand *hand)
{
    const struct run *lead = run_of(hand, 0);
    return hand->lost != HAND_NONE && lead->step == last_step(hand) &&
           !hand->stopped[hand->device[0]];
}

bool hand_play(struct hand *hand, enum hand_ending ending)
{
    const int64_t until_us = hand->world.now_us + PATIENCE_US;
    bool held = false, stopping = false;
    hand_draw_plan(hand);
    hand_assign(hand);
    while (!have(hand, hand->prepared) && !hand->failed) {
        look(hand);
        assert_true(hand->world.now_us < until_us);
    }
    if (hand->failed) {
        end_runs(hand);
        return true;
    }
    const int64_t end_us = ending == HAND_END
                               ? INT64_MAX / 2
                               : hand->world.now_us + (int64_t)hand_draw(hand, 6 * SECOND);
    for (size_t s = 0; s < hand->count; s++) {
        order(hand, s, SESSION_DO_RUN);
        sim_pass(&hand->world, (int64_t)hand_draw(hand, 100 * MS));
    }
    while (!have(hand, hand->stopped)) {
        if ((hand->world.now_us >= end_us && ending == HAND_CRASH) ||
            (hand->world.now_us >= end_us + STOP_US && waits_for_lost(hand))) {
            break;
        }
        if (hand->world.now_us >= end_us && !stopping) {
            stopping = true;
            held = false;
            if (ending == HAND_LOSS) {
                lose_worker(hand);
            }
            stop_all(hand);
        }
        if (!stopping) {
            draw_orders(hand, &held);
        }
        answer_rounds(hand);
        look(hand);
        assert_true(hand->world.now_us < until_us);
    }
    const bool ended = have(hand, hand->stopped);
    const int64_t stopped = ended ? stopped_version(hand) : 0;
    if (ended) {
        struct heartbeat *beat = calloc(1, sizeof(*beat));
        assert_non_null(beat);
        run_of(hand, 0)->row->measure(run_of(hand, 0), beat);
        hand->judged = beat->has_early_stop ? beat->early_stop : hand->judged;
        free(beat);
    }
    end_runs(hand);
    const int64_t newest = newest_version(hand);
    assert_true(newest >= hand->version);
    assert_true(!ended || newest == stopped);
    hand->version = newest;
    if (hand->lost != HAND_NONE) {
        world_start(&hand->world, hand->world.agent[hand->lost]->actor);
    }
    const bool judged = !hand->job->spec.has_stop || hand->job->reference->steps == hand->version ||
                        hand->judged.met;
    return !(ended && judged && hand->version == last_step(hand));
}
