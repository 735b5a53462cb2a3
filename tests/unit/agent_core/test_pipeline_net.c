/* Stages joined by a network that loses bodies and answers, and repeats both. */
#include <string.h>

#include "agent/core/pipeline.h"
#include "base/rng.h"
#include "tests/support/test.h"

enum { STAGES_OF_NET = 5, MICRO_OF_NET = 6, QUEUE_OF_NET = 64 };

struct packet {
    struct transfer transfer;
    size_t output;
    uint64_t payload;
    struct round_mark round;
    bool mark;
};

/* One direction of one border: a sender that repeats the head of its queue until it hears a yes. */
struct wire {
    struct packet queue[QUEUE_OF_NET];
    size_t head, count;
    struct packet stale; /* an earlier packet that the network may deliver once more */
    bool has_stale;
};

struct stage_of_net {
    struct pipeline *pipeline;
    struct pipeline_config config;
    uint64_t slot[TRANSFER_LANES][MICRO_OF_NET], kept[MICRO_OF_NET];
    uint64_t total;
    uint64_t state;        /* a digest of everything that formed it */
    uint64_t gathered;     /* gradients of the step */
    uint64_t tested;       /* digest of the evaluations */
    unsigned snapshot[24]; /* of each version: for which rounds it was taken */
    struct wire forward, backward;
    struct pipeline_task task; /* begun, ends at a later turn */
    bool busy, stopped;
};

struct net {
    struct stage_of_net stage[STAGES_OF_NET];
    size_t count;
    struct rng_stream random;
    uint64_t draws;
};

static uint64_t draw(struct net *net, uint64_t bound)
{
    return rng_below(&net->random, net->draws++, bound);
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ull)) * 0xbf58476d1ce4e5b9ull;
    return x ^ (x >> 29);
}

static void enqueue(struct wire *wire, const struct packet *packet)
{
    assert_true(wire->count < QUEUE_OF_NET);
    wire->queue[(wire->head + wire->count++) % QUEUE_OF_NET] = *packet;
}

/* What the far side does with a packet: true when it says yes. */
static bool receive(struct net *net, struct stage_of_net *stage, const struct packet *packet)
{
    struct slot_claim claim;
    switch (pipeline_offer(stage->pipeline, &packet->transfer, &claim)) {
    case PIPELINE_REFUSE: assert_true(false); break;
    case PIPELINE_FULL: return false;
    case PIPELINE_DUPLICATE: return true;
    case PIPELINE_MARK:
        assert_true(packet->mark);
        pipeline_mark(stage->pipeline, packet->transfer.step);
        return true;
    case PIPELINE_TAKE: break;
    }
    if (draw(net, 8) == 0) {
        if (draw(net, 2) == 0) {
            pipeline_abandon(stage->pipeline, &packet->transfer, &claim);
        }
        return false; /* the body was lost half way, noticed or not */
    }
    stage->slot[transfer_info(&packet->transfer)->lane][claim.slot] = packet->payload;
    claim.mark = packet->round;
    assert_true(pipeline_received(stage->pipeline, &packet->transfer, &claim));
    return true;
}

static void move_wire(struct net *net, struct stage_of_net *from, struct wire *wire,
                      struct stage_of_net *to)
{
    if (wire->has_stale && draw(net, 6) == 0) {
        /* A late repeat of something long answered: the far side must say yes or have no room, and
         * not be disturbed. */
        struct slot_claim claim;
        enum pipeline_verdict verdict = pipeline_offer(to->pipeline, &wire->stale.transfer, &claim);
        if (wire->stale.mark) {
            assert_int_equal(verdict, PIPELINE_MARK);
        } else {
            assert_int_equal(verdict, PIPELINE_DUPLICATE);
        }
    }
    if (wire->count == 0 || draw(net, 3) == 0) {
        return;
    }
    struct packet *packet = &wire->queue[wire->head];
    if (!receive(net, to, packet) || draw(net, 8) == 0) {
        return; /* no, or the answer was lost: it is repeated */
    }
    if (!packet->mark) {
        pipeline_sent(from->pipeline, packet->transfer.kind, packet->output);
    }
    wire->stale = *packet;
    wire->has_stale = true;
    wire->head = (wire->head + 1) % QUEUE_OF_NET;
    wire->count--;
}

static void finish_task(struct stage_of_net *stage)
{
    const struct pipeline_task *task = &stage->task;
    const bool first = stage->config.index == 0;
    const bool last = stage->config.index + 1 == stage->config.count;
    const uint64_t key = mix((uint64_t)task->step, task->micro_batch);
    struct packet packet = {.output = task->output, .round = task->mark};
    switch (task->work) {
    case PIPELINE_WAIT: break;
    case PIPELINE_FORWARD:
        stage->kept[task->slot] =
            mix(stage->state, first ? key : stage->slot[LANE_ACTIVATION][task->input]);
        packet.transfer = (struct transfer){TRANSFER_ACTIVATION, task->step, task->micro_batch};
        packet.payload = stage->kept[task->slot];
        break;
    case PIPELINE_BACKWARD:
        packet.payload =
            mix(stage->kept[task->slot], last ? key : stage->slot[LANE_GRADIENT][task->gradient]);
        packet.transfer = (struct transfer){TRANSFER_GRADIENT, task->step, task->micro_batch};
        stage->gathered = mix(stage->gathered, packet.payload);
        break;
    case PIPELINE_SUM:
        packet.transfer =
            (struct transfer){first ? TRANSFER_NORM_TOTAL : TRANSFER_NORM, task->step, 0};
        packet.payload = mix(last ? 0 : stage->slot[LANE_NORM][0], stage->gathered);
        stage->total = packet.payload;
        break;
    case PIPELINE_TOTAL:
        packet.transfer = (struct transfer){TRANSFER_NORM_TOTAL, task->step, 0};
        packet.payload = stage->slot[LANE_TOTAL][0];
        break;
    case PIPELINE_UPDATE:
        stage->state = mix(stage->state, stage->gathered);
        if (stage->config.clips_norm) {
            stage->state = mix(stage->state, first ? stage->total : stage->slot[LANE_TOTAL][0]);
        }
        stage->gathered = 0;
        stage->snapshot[task->step] = task->mark.kinds;
        break;
    case PIPELINE_EVALUATE:
        packet.transfer = (struct transfer){TRANSFER_EVALUATION, task->step, task->micro_batch};
        packet.payload = mix(stage->state, first ? key : stage->slot[LANE_ACTIVATION][task->input]);
        stage->tested = mix(stage->tested, packet.payload);
        break;
    case PIPELINE_LAST:
    case PIPELINE_STOP:
        stage->stopped = task->work == PIPELINE_STOP;
        packet.transfer =
            (struct transfer){TRANSFER_ACTIVATION, task->step, stage->config.micro_batches};
        packet.mark = true;
        break;
    }
    pipeline_done(stage->pipeline, task);
    const bool nothing = task->work == PIPELINE_UPDATE || (packet.mark && !task->announce);
    const bool back = transfer_info(&packet.transfer)->back;
    if (!nothing && back && !first) {
        enqueue(&stage->backward, &packet);
    } else if (!nothing && !back && !last) {
        enqueue(&stage->forward, &packet);
    }
    stage->busy = false;
}

static void move_stage(struct net *net, struct stage_of_net *stage)
{
    if (stage->busy) {
        if (draw(net, 3) != 0) {
            finish_task(stage);
        }
    } else {
        stage->busy = pipeline_next(stage->pipeline, &stage->task) != PIPELINE_WAIT;
    }
}

/* strict: bit i: the order of work of stage i. */
static void start(struct net *net, const struct pipeline_config *config, const size_t *in_flight,
                  unsigned strict, const uint64_t *states)
{
    for (size_t i = 0; i < net->count; i++) {
        struct stage_of_net *stage = &net->stage[i];
        stage->config = *config;
        stage->config.index = i;
        stage->config.count = net->count;
        stage->config.strict = strict >> i & 1;
        stage->config.in_flight = in_flight[i];
        stage->config.previous_in_flight = i > 0 ? in_flight[i - 1] : 0;
        if (i == 0) {
            stage->config.round_every[REPLICA_NEIGHBOR] = 2;
            stage->config.round_every[REPLICA_CENTER] = 3;
        }
        struct err err = {0};
        assert_ok(pipeline_new(&stage->config, &stage->pipeline, &err), &err);
        stage->state = states[i];
    }
}

/* Limits that never rise along the pipeline and are 1 at its end. */
static void draw_limits(struct net *net, size_t *in_flight)
{
    in_flight[net->count - 1] = 1;
    for (size_t i = net->count - 1; i > 0; i--) {
        const size_t more = in_flight[i] + (size_t)draw(net, 3);
        in_flight[i - 1] = more < MICRO_OF_NET ? more : MICRO_OF_NET;
    }
}

static void set_up(struct net *net, size_t count, bool clips, uint64_t seed, const uint64_t *states,
                   int64_t resume_version)
{
    memset(net, 0, sizeof(*net));
    net->count = count;
    net->random = rng_stream(seed, RNG_SIMULATION, 0, 0);
    const struct pipeline_config config = {.micro_batches = MICRO_OF_NET,
                                           .resume_version = resume_version,
                                           .total_steps = 9,
                                           .evaluate_every = 3,
                                           .evaluation_batches = 7,
                                           .clips_norm = clips};
    size_t in_flight[STAGES_OF_NET];
    for (size_t i = 0; i < count; i++) {
        /* More in flight than N - i, and less, must both work. */
        in_flight[i] = 1 + (size_t)draw(net, MICRO_OF_NET);
    }
    /* Stages in the strict order must work beside stages in the greedy one. */
    const unsigned strict = (unsigned)draw(net, 2) * (unsigned)draw(net, 1 << STAGES_OF_NET);
    if (strict != 0) {
        draw_limits(net, in_flight);
    }
    start(net, &config, in_flight, strict, states);
}

/* Plays until every stage stopped; a stop is asked at turn `stop_turn`. Returns the version, the
 * same for all. */
static int64_t play(struct net *net, uint64_t stop_turn)
{
    for (size_t i = 0; i < net->count; i++) {
        pipeline_run(net->stage[i].pipeline);
    }
    for (uint64_t turn = 0;; turn++) {
        assert_true(turn < 200000);
        if (turn == stop_turn) {
            pipeline_stop(net->stage[0].pipeline);
        }
        bool all = true;
        for (int kind = 0; kind < REPLICA_KINDS; kind++) {
            if (draw(net, 20) == 0) {
                struct pipeline *first = net->stage[0].pipeline;
                struct round round[REPLICA_KINDS] = {{0}};
                round[kind].version = pipeline_round(first, (enum replica_kind)kind);
                round[kind].state = draw(net, 2) == 0 ? ROUND_COMMITTED : ROUND_ABANDONED;
                pipeline_take_rounds(first, round);
            }
        }
        for (size_t i = 0; i < net->count; i++) {
            struct stage_of_net *stage = &net->stage[i];
            move_stage(net, stage);
            if (i + 1 < net->count) {
                move_wire(net, stage, &stage->forward, &net->stage[i + 1]);
            }
            if (i > 0) {
                move_wire(net, stage, &stage->backward, &net->stage[i - 1]);
            }
            all = all && stage->stopped;
        }
        if (all) {
            break;
        }
    }
    const int64_t version = pipeline_version(net->stage[0].pipeline);
    for (size_t i = 0; i < net->count; i++) {
        assert_int_equal(pipeline_version(net->stage[i].pipeline), version);
        assert_memory_equal(net->stage[i].snapshot, net->stage[0].snapshot,
                            sizeof(net->stage[0].snapshot));
    }
    return version;
}

static void tear_down(struct net *net, uint64_t *states)
{
    for (size_t i = 0; i < net->count; i++) {
        states[i] = net->stage[i].state;
        pipeline_free(&net->stage[i].pipeline);
    }
}

static void check_same_state(bool clips)
{
    for (size_t count = 1; count <= STAGES_OF_NET; count++) {
        uint64_t expected[STAGES_OF_NET] = {0};
        uint64_t expected_test = 0;
        for (uint64_t seed = 0; seed < 40; seed++) {
            struct net net;
            uint64_t states[STAGES_OF_NET] = {1, 2, 3, 4, 5};
            set_up(&net, count, clips, seed, states, 0);
            assert_int_equal(play(&net, UINT64_MAX), 9);
            uint64_t tested = net.stage[count - 1].tested;
            tear_down(&net, states);
            if (seed == 0) {
                memcpy(expected, states, sizeof(expected));
                expected_test = tested;
            }
            assert_memory_equal(states, expected, sizeof(states));
            assert_int_equal(tested, expected_test);
        }
    }
}

static void joined_stages_always_finish_with_the_same_state(void **state)
{
    (void)state;
    check_same_state(false);
}

static void joined_stages_that_clip_always_finish_with_the_same_state(void **state)
{
    (void)state;
    check_same_state(true);
}

static void check_stops(bool clips)
{
    for (size_t count = 1; count <= STAGES_OF_NET; count++) {
        uint64_t expected[STAGES_OF_NET] = {1, 2, 3, 4, 5};
        struct net net;
        set_up(&net, count, clips, 0, expected, 0);
        (void)play(&net, UINT64_MAX);
        tear_down(&net, expected);
        for (uint64_t seed = 0; seed < 60; seed++) {
            uint64_t states[STAGES_OF_NET] = {1, 2, 3, 4, 5};
            int64_t version = 0;
            for (int generation = 0; generation < 8 && version < 9; generation++) {
                set_up(&net, count, clips, seed * 8 + (uint64_t)generation, states, version);
                int64_t reached = play(&net, generation < 7 ? draw(&net, 400) : UINT64_MAX);
                assert_true(reached >= version);
                version = reached;
                tear_down(&net, states);
            }
            assert_int_equal(version, 9);
            assert_memory_equal(states, expected, sizeof(states));
        }
    }
}

static void joined_stages_stop_at_one_version_and_resume_from_it(void **state)
{
    (void)state;
    check_stops(false);
}

static void joined_stages_that_clip_stop_at_one_version_and_resume_from_it(void **state)
{
    (void)state;
    check_stops(true);
}

/* ---- steps that overlap ---- */

enum { ASYNC_STEPS = 23, ASYNC_EVALUATE_EVERY = 9 };

static void set_up_async(struct net *net, const size_t *in_flight, const uint64_t *states,
                         int64_t resume_version)
{
    const struct pipeline_config config = {.async = true,
                                           .micro_batches = 1,
                                           .resume_version = resume_version,
                                           .total_steps = ASYNC_STEPS,
                                           .evaluate_every = ASYNC_EVALUATE_EVERY,
                                           .evaluation_batches = 7};
    start(net, &config, in_flight, 0, states);
}

/* The states after steps (from, to] of a pipeline that is empty at both: forward of step t at a
 * stage uses its version max(from, t - in_flight). */
static void replay(size_t count, const size_t *in_flight, int64_t from, int64_t to,
                   uint64_t *states)
{
    uint64_t version[STAGES_OF_NET][ASYNC_STEPS + 1], kept[STAGES_OF_NET];
    for (size_t i = 0; i < count; i++) {
        version[i][from] = states[i];
    }
    for (int64_t step = from + 1; step <= to; step++) {
        const uint64_t key = mix((uint64_t)step, 0);
        for (size_t i = 0; i < count; i++) {
            const int64_t at = step - (int64_t)in_flight[i];
            kept[i] = mix(version[i][at > from ? at : from], i == 0 ? key : kept[i - 1]);
        }
        uint64_t gradient = key;
        for (size_t i = count; i-- > 0;) {
            gradient = mix(kept[i], gradient);
            version[i][step] = mix(version[i][step - 1], mix(0, gradient));
        }
    }
    for (size_t i = 0; i < count; i++) {
        states[i] = version[i][to];
    }
}

/* Play one generation until it stops, and replay it: evaluations empty the pipeline. */
static int64_t check_generation(struct net *net, const size_t *in_flight, int64_t from,
                                uint64_t stop_turn, uint64_t *states, uint64_t *expected)
{
    set_up_async(net, in_flight, states, from);
    const int64_t reached = play(net, stop_turn);
    tear_down(net, states);
    for (int64_t begin = from; begin < reached;) {
        int64_t end = (begin / ASYNC_EVALUATE_EVERY + 1) * ASYNC_EVALUATE_EVERY;
        end = end < reached ? end : reached;
        replay(net->count, in_flight, begin, end, expected);
        begin = end;
    }
    assert_memory_equal(states, expected, STAGES_OF_NET * sizeof(*states));
    return reached;
}

static void overlapping_steps_follow_from_limits_and_stops_alone(void **state)
{
    (void)state;
    for (size_t count = 1; count <= STAGES_OF_NET; count++) {
        for (uint64_t seed = 0; seed < 100; seed++) {
            struct net net = {.count = count, .random = rng_stream(seed, RNG_SIMULATION, 0, 0)};
            uint64_t states[STAGES_OF_NET] = {1, 2, 3, 4, 5}, expected[STAGES_OF_NET];
            memcpy(expected, states, sizeof(expected));
            int64_t version = 0;
            for (int generation = 0; version < ASYNC_STEPS; generation++) {
                size_t in_flight[STAGES_OF_NET] = {0};
                draw_limits(&net, in_flight);
                memset(net.stage, 0, sizeof(net.stage));
                const uint64_t stop_turn = generation < 7 ? draw(&net, 500) : UINT64_MAX;
                version = check_generation(&net, in_flight, version, stop_turn, states, expected);
            }
            assert_int_equal(version, ASYNC_STEPS);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlapping_steps_follow_from_limits_and_stops_alone),
        cmocka_unit_test(joined_stages_always_finish_with_the_same_state),
        cmocka_unit_test(joined_stages_that_clip_always_finish_with_the_same_state),
        cmocka_unit_test(joined_stages_stop_at_one_version_and_resume_from_it),
        cmocka_unit_test(joined_stages_that_clip_stop_at_one_version_and_resume_from_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
