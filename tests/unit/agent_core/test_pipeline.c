#include "agent/core/pipeline.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/support/test.h"

static struct pipeline *make(const struct pipeline_config *config)
{
    struct pipeline *pipeline = NULL;
    struct err err = {0};
    assert_ok(pipeline_new(config, &pipeline, &err), &err);
    return pipeline;
}

/* A middle stage of three, ready to take tensors of step 1. */
static const struct pipeline_config middle = {
    .index = 1, .count = 3, .micro_batches = 4, .in_flight = 2, .previous_in_flight = 3, .total_steps = 10};

static enum pipeline_verdict offer(struct pipeline *pipeline, enum transfer_kind kind, int64_t step, size_t micro_batch,
                                   struct pipeline_claim *claim)
{
    struct transfer transfer = {kind, step, micro_batch};
    struct pipeline_claim ignored;
    return pipeline_offer(pipeline, &transfer, claim ? claim : &ignored);
}

static void deliver(struct pipeline *pipeline, enum transfer_kind kind, int64_t step, size_t micro_batch)
{
    struct transfer transfer = {kind, step, micro_batch};
    struct pipeline_claim claim;
    assert_int_equal(pipeline_offer(pipeline, &transfer, &claim), PIPELINE_TAKE);
    assert_true(pipeline_received(pipeline, &transfer, &claim));
}

static void do_work(struct pipeline *pipeline, enum pipeline_work work, size_t micro_batch)
{
    struct pipeline_task task;
    assert_int_equal(pipeline_next(pipeline, &task), work);
    assert_int_equal(task.micro_batch, micro_batch);
    pipeline_done(pipeline, &task);
}

static void expect_wait(struct pipeline *pipeline)
{
    struct pipeline_task task;
    assert_int_equal(pipeline_next(pipeline, &task), PIPELINE_WAIT);
}

static void one_stage_does_its_steps_alone_and_stops(void **state)
{
    (void)state;
    const struct pipeline_config config = {
        .count = 1, .micro_batches = 2, .in_flight = 1, .total_steps = 2, .evaluate_every = 2, .evaluation_batches = 3};
    struct pipeline *pipeline AUTO(pipeline_free) = make(&config);
    expect_wait(pipeline);
    pipeline_run(pipeline);
    for (int step = 0; step < 2; step++) {
        for (size_t i = 0; i < 2; i++) {
            do_work(pipeline, PIPELINE_FORWARD, i);
            do_work(pipeline, PIPELINE_BACKWARD, i);
        }
        do_work(pipeline, PIPELINE_UPDATE, 0);
    }
    for (size_t i = 0; i < 3; i++) {
        do_work(pipeline, PIPELINE_EVALUATE, i);
    }
    struct pipeline_task task;
    assert_int_equal(pipeline_next(pipeline, &task), PIPELINE_STOP);
    assert_int_equal(task.step, 2);
    assert_false(task.announce);
    assert_false(pipeline_stopped(pipeline));
    pipeline_done(pipeline, &task);
    assert_true(pipeline_stopped(pipeline));
    expect_wait(pipeline);
}

static void early_tensors_wait_for_the_run(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&middle);
    deliver(pipeline, TRANSFER_ACTIVATION, 1, 0);
    expect_wait(pipeline);
    pipeline_run(pipeline);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    expect_wait(pipeline);
}

static void backward_goes_before_forward(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&middle);
    pipeline_run(pipeline);
    deliver(pipeline, TRANSFER_ACTIVATION, 1, 0);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    deliver(pipeline, TRANSFER_ACTIVATION, 1, 1);
    deliver(pipeline, TRANSFER_GRADIENT, 1, 0);
    do_work(pipeline, PIPELINE_BACKWARD, 0);
    do_work(pipeline, PIPELINE_FORWARD, 1);
}

static void a_repeat_is_a_duplicate_before_and_after_its_use(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&middle);
    pipeline_run(pipeline);
    deliver(pipeline, TRANSFER_ACTIVATION, 1, 0);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 1, 0, NULL), PIPELINE_DUPLICATE);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 1, 0, NULL), PIPELINE_DUPLICATE);
    deliver(pipeline, TRANSFER_GRADIENT, 1, 0);
    assert_int_equal(offer(pipeline, TRANSFER_GRADIENT, 1, 0, NULL), PIPELINE_DUPLICATE);
    do_work(pipeline, PIPELINE_BACKWARD, 0);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 1, 0, NULL), PIPELINE_DUPLICATE);
    assert_int_equal(offer(pipeline, TRANSFER_GRADIENT, 1, 0, NULL), PIPELINE_DUPLICATE);
}

static void a_slot_in_use_is_full_until_its_backward(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&middle);
    pipeline_run(pipeline);
    for (size_t i = 0; i < 3; i++) {
        deliver(pipeline, TRANSFER_ACTIVATION, 1, i);
    }
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 1, 3, NULL), PIPELINE_FULL);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 1, 3, NULL), PIPELINE_FULL);
    deliver(pipeline, TRANSFER_GRADIENT, 1, 0);
    do_work(pipeline, PIPELINE_BACKWARD, 0);
    deliver(pipeline, TRANSFER_ACTIVATION, 1, 3);
}

static void the_newest_connection_wins_a_slot(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&middle);
    struct pipeline_claim first, second;
    const struct transfer transfer = {TRANSFER_ACTIVATION, 1, 0};
    assert_int_equal(pipeline_offer(pipeline, &transfer, &first), PIPELINE_TAKE);
    assert_int_equal(pipeline_offer(pipeline, &transfer, &second), PIPELINE_TAKE);
    assert_false(pipeline_holds(pipeline, &transfer, &first));
    assert_true(pipeline_holds(pipeline, &transfer, &second));
    pipeline_abandon(pipeline, &transfer, &first);
    assert_false(pipeline_received(pipeline, &transfer, &first));
    assert_true(pipeline_received(pipeline, &transfer, &second));
    assert_int_equal(pipeline_offer(pipeline, &transfer, &first), PIPELINE_DUPLICATE);
}

static void a_broken_off_body_frees_its_slot(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&middle);
    struct pipeline_claim claim;
    const struct transfer transfer = {TRANSFER_ACTIVATION, 1, 0};
    assert_int_equal(pipeline_offer(pipeline, &transfer, &claim), PIPELINE_TAKE);
    pipeline_abandon(pipeline, &transfer, &claim);
    assert_false(pipeline_received(pipeline, &transfer, &claim));
    deliver(pipeline, TRANSFER_ACTIVATION, 1, 3);
}

static void tensors_that_cannot_exist_are_refused(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&middle);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 3, 0, NULL), PIPELINE_REFUSE);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 11, 0, NULL), PIPELINE_REFUSE);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 1, 5, NULL), PIPELINE_REFUSE);
    assert_int_equal(offer(pipeline, TRANSFER_GRADIENT, 1, 0, NULL), PIPELINE_REFUSE);
    assert_int_equal(offer(pipeline, TRANSFER_GRADIENT, 2, 0, NULL), PIPELINE_REFUSE);
    assert_int_equal(offer(pipeline, TRANSFER_EVALUATION, 1, 0, NULL), PIPELINE_REFUSE);
    struct pipeline_config config = middle;
    config.index = 0;
    config.previous_in_flight = 0;
    struct pipeline *first AUTO(pipeline_free) = make(&config);
    assert_int_equal(offer(first, TRANSFER_ACTIVATION, 1, 0, NULL), PIPELINE_REFUSE);
    assert_int_equal(offer(first, TRANSFER_EVALUATION, 0, 0, NULL), PIPELINE_REFUSE);
}

static void a_send_buffer_is_not_overwritten_before_it_was_sent(void **state)
{
    (void)state;
    struct pipeline_config config = middle;
    config.index = 0;
    config.previous_in_flight = 0;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&config);
    pipeline_run(pipeline);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    do_work(pipeline, PIPELINE_FORWARD, 1);
    deliver(pipeline, TRANSFER_GRADIENT, 1, 0);
    do_work(pipeline, PIPELINE_BACKWARD, 0);
    expect_wait(pipeline);
    pipeline_sent(pipeline, TRANSFER_ACTIVATION, 0);
    do_work(pipeline, PIPELINE_FORWARD, 2);
}

static void stage_0_stops_behind_the_step_it_began(void **state)
{
    (void)state;
    struct pipeline_config config = middle;
    config.index = 0;
    config.previous_in_flight = 0;
    config.micro_batches = 1;
    config.in_flight = 1;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&config);
    pipeline_run(pipeline);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    pipeline_stop(pipeline);
    expect_wait(pipeline);
    pipeline_sent(pipeline, TRANSFER_ACTIVATION, 0);
    deliver(pipeline, TRANSFER_GRADIENT, 1, 0);
    do_work(pipeline, PIPELINE_BACKWARD, 0);
    do_work(pipeline, PIPELINE_UPDATE, 0);
    struct pipeline_task task;
    assert_int_equal(pipeline_next(pipeline, &task), PIPELINE_STOP);
    assert_int_equal(task.step, 1);
    assert_true(task.announce);
}

static void a_mark_stops_the_stage_behind_that_step(void **state)
{
    (void)state;
    struct pipeline_config config = middle;
    config.index = 2;
    config.micro_batches = 1;
    config.in_flight = 1;
    config.previous_in_flight = 1;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&config);
    pipeline_run(pipeline);
    deliver(pipeline, TRANSFER_ACTIVATION, 1, 0);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 1, 1, NULL), PIPELINE_MARK);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 2, 1, NULL), PIPELINE_REFUSE);
    pipeline_mark(pipeline, 1);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    do_work(pipeline, PIPELINE_BACKWARD, 0);
    do_work(pipeline, PIPELINE_UPDATE, 0);
    do_work(pipeline, PIPELINE_STOP, 0);
    assert_int_equal(pipeline_version(pipeline), 1);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 1, 1, NULL), PIPELINE_MARK);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 2, 0, NULL), PIPELINE_DUPLICATE);
}

static void a_stop_gives_an_evaluation_up_and_the_resumed_generation_makes_up_for_it(void **state)
{
    (void)state;
    struct pipeline_config config = {
        .count = 1, .micro_batches = 1, .in_flight = 1, .total_steps = 4, .evaluate_every = 2, .evaluation_batches = 2};
    config.resume_version = 2;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&config);
    pipeline_run(pipeline);
    do_work(pipeline, PIPELINE_EVALUATE, 0);
    pipeline_stop(pipeline);
    do_work(pipeline, PIPELINE_STOP, 0);
    assert_int_equal(pipeline_version(pipeline), 2);

    config.resume_version = 4;
    struct pipeline *end AUTO(pipeline_free) = make(&config);
    pipeline_run(end);
    pipeline_stop(end);
    do_work(end, PIPELINE_EVALUATE, 0);
    do_work(end, PIPELINE_EVALUATE, 1);
    do_work(end, PIPELINE_STOP, 0);
}

static void evaluation_tensors_of_a_given_up_evaluation_leave_no_slot_behind(void **state)
{
    (void)state;
    struct pipeline_config config = middle;
    config.index = 2;
    config.evaluate_every = 1;
    config.evaluation_batches = 5;
    config.resume_version = 1;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&config);
    pipeline_run(pipeline);
    deliver(pipeline, TRANSFER_EVALUATION, 1, 0);
    const struct transfer late = {TRANSFER_EVALUATION, 1, 1};
    struct pipeline_claim claim;
    assert_int_equal(pipeline_offer(pipeline, &late, &claim), PIPELINE_TAKE);
    pipeline_mark(pipeline, 1);
    do_work(pipeline, PIPELINE_STOP, 0);
    assert_true(pipeline_received(pipeline, &late, &claim));
    assert_int_equal(offer(pipeline, TRANSFER_EVALUATION, 1, 2, NULL), PIPELINE_DUPLICATE);
}

static void while_held_no_step_begins(void **state)
{
    (void)state;
    const struct pipeline_config config = {.count = 1, .micro_batches = 2, .in_flight = 1, .total_steps = 2};
    struct pipeline *pipeline AUTO(pipeline_free) = make(&config);
    pipeline_run(pipeline);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    pipeline_hold(pipeline, true);
    do_work(pipeline, PIPELINE_BACKWARD, 0);
    do_work(pipeline, PIPELINE_FORWARD, 1);
    do_work(pipeline, PIPELINE_BACKWARD, 1);
    do_work(pipeline, PIPELINE_UPDATE, 0);
    expect_wait(pipeline);
    pipeline_hold(pipeline, false);
    do_work(pipeline, PIPELINE_FORWARD, 0);
}

static void numbers_that_do_not_fit_together_are_refused(void **state)
{
    (void)state;
    const struct pipeline_config wrong[] = {
        {.index = 1, .count = 1, .micro_batches = 1, .in_flight = 1, .previous_in_flight = 1, .total_steps = 1},
        {.count = 1, .micro_batches = 0, .in_flight = 1, .total_steps = 1},
        {.count = 1, .micro_batches = 1, .in_flight = 2, .total_steps = 1},
        {.count = 1, .micro_batches = 1, .in_flight = 0, .total_steps = 1},
        {.index = 1, .count = 2, .micro_batches = 1, .in_flight = 1, .total_steps = 1},
        {.count = 2, .micro_batches = 1, .in_flight = 1, .previous_in_flight = 1, .total_steps = 1},
        {.count = 1, .micro_batches = 1, .in_flight = 1, .total_steps = 1, .resume_version = 2},
        {.count = 1, .micro_batches = 1, .in_flight = 1, .total_steps = 1, .evaluate_every = -1},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct pipeline *pipeline = NULL;
        struct err err = {0};
        assert_int_equal(pipeline_new(&wrong[i], &pipeline, &err), ERR_INVALID);
        assert_null(pipeline);
    }
}

/* ---- stages joined by a network that loses bodies and answers, and repeats both ---- */

enum { STAGES_OF_NET = 5, MICRO_OF_NET = 6, QUEUE_OF_NET = 64 };

struct packet {
    struct transfer transfer;
    size_t output;
    uint64_t payload;
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
    uint64_t input[MICRO_OF_NET], gradient[MICRO_OF_NET], kept[MICRO_OF_NET];
    uint64_t state;    /* a digest of everything that formed it */
    uint64_t gathered; /* gradients of the step */
    uint64_t tested;   /* digest of the evaluations */
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
    struct pipeline_claim claim;
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
    uint64_t *slots = packet->transfer.kind == TRANSFER_GRADIENT ? stage->gradient : stage->input;
    slots[claim.slot] = packet->payload;
    assert_true(pipeline_received(stage->pipeline, &packet->transfer, &claim));
    return true;
}

static void move_wire(struct net *net, struct stage_of_net *from, struct wire *wire, struct stage_of_net *to)
{
    if (wire->has_stale && draw(net, 6) == 0) {
        /* A late repeat of something long answered: the far side must say yes or have no room, and not be disturbed. */
        struct pipeline_claim claim;
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
    struct packet packet = {.output = task->output};
    switch (task->work) {
    case PIPELINE_WAIT: break;
    case PIPELINE_FORWARD:
        stage->kept[task->slot] = mix(stage->state, first ? key : stage->input[task->input]);
        packet.transfer = (struct transfer){TRANSFER_ACTIVATION, task->step, task->micro_batch};
        packet.payload = stage->kept[task->slot];
        break;
    case PIPELINE_BACKWARD:
        packet.payload = mix(stage->kept[task->slot], last ? key : stage->gradient[task->gradient]);
        packet.transfer = (struct transfer){TRANSFER_GRADIENT, task->step, task->micro_batch};
        stage->gathered = mix(stage->gathered, packet.payload);
        break;
    case PIPELINE_UPDATE:
        stage->state = mix(stage->state, stage->gathered);
        stage->gathered = 0;
        break;
    case PIPELINE_EVALUATE:
        packet.transfer = (struct transfer){TRANSFER_EVALUATION, task->step, task->micro_batch};
        packet.payload = mix(stage->state, first ? key : stage->input[task->input]);
        stage->tested = mix(stage->tested, packet.payload);
        break;
    case PIPELINE_STOP:
        stage->stopped = true;
        packet.transfer = (struct transfer){TRANSFER_ACTIVATION, task->step, stage->config.micro_batches};
        packet.mark = true;
        break;
    }
    pipeline_done(stage->pipeline, task);
    const bool forward = task->work == PIPELINE_FORWARD || task->work == PIPELINE_EVALUATE;
    if ((forward && !last) || (task->work == PIPELINE_STOP && task->announce)) {
        enqueue(&stage->forward, &packet);
    } else if (task->work == PIPELINE_BACKWARD && !first) {
        enqueue(&stage->backward, &packet);
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

static void set_up(struct net *net, size_t count, uint64_t seed, const uint64_t *states, int64_t resume_version)
{
    memset(net, 0, sizeof(*net));
    net->count = count;
    net->random = rng_stream(seed, RNG_SIMULATION, 0, 0);
    size_t previous = 0;
    for (size_t i = 0; i < count; i++) {
        struct stage_of_net *stage = &net->stage[i];
        /* More in flight than N - i, and less, must both work. */
        size_t in_flight = 1 + (size_t)draw(net, MICRO_OF_NET);
        stage->config = (struct pipeline_config){.index = i,
                                                 .count = count,
                                                 .micro_batches = MICRO_OF_NET,
                                                 .in_flight = in_flight,
                                                 .previous_in_flight = previous,
                                                 .resume_version = resume_version,
                                                 .total_steps = 9,
                                                 .evaluate_every = 3,
                                                 .evaluation_batches = 7};
        stage->pipeline = make(&stage->config);
        stage->state = states[i];
        previous = in_flight;
    }
}

/* Plays until every stage stopped; a stop is asked at turn `stop_turn`. Returns the version, the same for all. */
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

static void joined_stages_always_finish_with_the_same_state(void **state)
{
    (void)state;
    for (size_t count = 1; count <= STAGES_OF_NET; count++) {
        uint64_t expected[STAGES_OF_NET] = {0};
        uint64_t expected_test = 0;
        for (uint64_t seed = 0; seed < 40; seed++) {
            struct net net;
            uint64_t states[STAGES_OF_NET] = {1, 2, 3, 4, 5};
            set_up(&net, count, seed, states, 0);
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

static void joined_stages_stop_at_one_version_and_go_on_from_it(void **state)
{
    (void)state;
    for (size_t count = 1; count <= STAGES_OF_NET; count++) {
        uint64_t expected[STAGES_OF_NET] = {1, 2, 3, 4, 5};
        struct net net;
        set_up(&net, count, 0, expected, 0);
        (void)play(&net, UINT64_MAX);
        tear_down(&net, expected);
        for (uint64_t seed = 0; seed < 60; seed++) {
            uint64_t states[STAGES_OF_NET] = {1, 2, 3, 4, 5};
            int64_t version = 0;
            for (int generation = 0; generation < 8 && version < 9; generation++) {
                set_up(&net, count, seed * 8 + (uint64_t)generation, states, version);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stage_does_its_steps_alone_and_stops),
        cmocka_unit_test(early_tensors_wait_for_the_run),
        cmocka_unit_test(backward_goes_before_forward),
        cmocka_unit_test(a_repeat_is_a_duplicate_before_and_after_its_use),
        cmocka_unit_test(a_slot_in_use_is_full_until_its_backward),
        cmocka_unit_test(the_newest_connection_wins_a_slot),
        cmocka_unit_test(a_broken_off_body_frees_its_slot),
        cmocka_unit_test(tensors_that_cannot_exist_are_refused),
        cmocka_unit_test(a_send_buffer_is_not_overwritten_before_it_was_sent),
        cmocka_unit_test(stage_0_stops_behind_the_step_it_began),
        cmocka_unit_test(a_mark_stops_the_stage_behind_that_step),
        cmocka_unit_test(a_stop_gives_an_evaluation_up_and_the_resumed_generation_makes_up_for_it),
        cmocka_unit_test(evaluation_tensors_of_a_given_up_evaluation_leave_no_slot_behind),
        cmocka_unit_test(while_held_no_step_begins),
        cmocka_unit_test(numbers_that_do_not_fit_together_are_refused),
        cmocka_unit_test(joined_stages_always_finish_with_the_same_state),
        cmocka_unit_test(joined_stages_stop_at_one_version_and_go_on_from_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
