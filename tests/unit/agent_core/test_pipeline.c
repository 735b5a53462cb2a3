#include "tests/unit/agent_core/pipeline_steps.h"

/* A middle stage of three, ready to take tensors of step 1. */
static const struct pipeline_config middle = {.index = 1,
                                              .count = 3,
                                              .micro_batches = 4,
                                              .in_flight = 2,
                                              .previous_in_flight = 3,
                                              .total_steps = 10};

/* The first of them. */
static const struct pipeline_config stage_0 = {
    .count = 3, .micro_batches = 4, .in_flight = 2, .total_steps = 10};

static void one_stage_does_its_steps_alone_and_stops(void **state)
{
    (void)state;
    const struct pipeline_config config = {.count = 1,
                                           .micro_batches = 2,
                                           .in_flight = 1,
                                           .total_steps = 2,
                                           .evaluate_every = 2,
                                           .evaluation_batches = 3};
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

static void backward_runs_before_forward(void **state)
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
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 1, 0, NULL), TRANSFER_DUPLICATE);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 1, 0, NULL), TRANSFER_DUPLICATE);
    deliver(pipeline, TRANSFER_GRADIENT, 1, 0);
    assert_int_equal(offer(pipeline, TRANSFER_GRADIENT, 1, 0, NULL), TRANSFER_DUPLICATE);
    do_work(pipeline, PIPELINE_BACKWARD, 0);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 1, 0, NULL), TRANSFER_DUPLICATE);
    assert_int_equal(offer(pipeline, TRANSFER_GRADIENT, 1, 0, NULL), TRANSFER_DUPLICATE);
}

static void a_slot_in_use_is_full_until_its_backward(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&middle);
    pipeline_run(pipeline);
    for (size_t i = 0; i < 3; i++) {
        deliver(pipeline, TRANSFER_ACTIVATION, 1, i);
    }
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 1, 3, NULL), TRANSFER_FULL);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 1, 3, NULL), TRANSFER_FULL);
    deliver(pipeline, TRANSFER_GRADIENT, 1, 0);
    do_work(pipeline, PIPELINE_BACKWARD, 0);
    deliver(pipeline, TRANSFER_ACTIVATION, 1, 3);
}

static void the_newest_connection_wins_a_slot(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&middle);
    struct slot_claim first, second;
    const struct transfer transfer = {TRANSFER_ACTIVATION, 1, 0};
    assert_int_equal(pipeline_offer(pipeline, &transfer, &first), TRANSFER_TAKE);
    assert_int_equal(pipeline_offer(pipeline, &transfer, &second), TRANSFER_TAKE);
    assert_false(pipeline_holds(pipeline, &transfer, &first));
    assert_true(pipeline_holds(pipeline, &transfer, &second));
    pipeline_abandon(pipeline, &transfer, &first);
    assert_false(pipeline_received(pipeline, &transfer, &first));
    assert_true(pipeline_received(pipeline, &transfer, &second));
    assert_int_equal(pipeline_offer(pipeline, &transfer, &first), TRANSFER_DUPLICATE);
}

static void a_broken_off_body_frees_its_slot(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&middle);
    struct slot_claim claim;
    const struct transfer transfer = {TRANSFER_ACTIVATION, 1, 0};
    assert_int_equal(pipeline_offer(pipeline, &transfer, &claim), TRANSFER_TAKE);
    pipeline_abandon(pipeline, &transfer, &claim);
    assert_false(pipeline_received(pipeline, &transfer, &claim));
    deliver(pipeline, TRANSFER_ACTIVATION, 1, 3);
}

static void impossible_tensors_are_rejected(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&middle);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 3, 0, NULL), TRANSFER_REFUSE);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 11, 0, NULL), TRANSFER_REFUSE);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 1, 5, NULL), TRANSFER_REFUSE);
    assert_int_equal(offer(pipeline, TRANSFER_GRADIENT, 1, 0, NULL), TRANSFER_REFUSE);
    assert_int_equal(offer(pipeline, TRANSFER_GRADIENT, 2, 0, NULL), TRANSFER_REFUSE);
    assert_int_equal(offer(pipeline, TRANSFER_EVALUATION, 1, 0, NULL), TRANSFER_REFUSE);
    struct pipeline *leading AUTO(pipeline_free) = make(&stage_0);
    assert_int_equal(offer(leading, TRANSFER_ACTIVATION, 1, 0, NULL), TRANSFER_REFUSE);
    assert_int_equal(offer(leading, TRANSFER_EVALUATION, 0, 0, NULL), TRANSFER_REFUSE);
}

static void a_send_buffer_is_not_overwritten_before_it_was_sent(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&stage_0);
    pipeline_run(pipeline);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    do_work(pipeline, PIPELINE_FORWARD, 1);
    deliver(pipeline, TRANSFER_GRADIENT, 1, 0);
    do_work(pipeline, PIPELINE_BACKWARD, 0);
    expect_wait(pipeline);
    pipeline_sent(pipeline, TRANSFER_ACTIVATION, 0);
    do_work(pipeline, PIPELINE_FORWARD, 2);
}

static void stage_0_stops_after_the_step_it_began(void **state)
{
    (void)state;
    struct pipeline_config config = stage_0;
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

static void a_mark_stops_the_stage_after_that_step(void **state)
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
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 1, 1, NULL), TRANSFER_MARK);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 2, 1, NULL), TRANSFER_REFUSE);
    pipeline_mark(pipeline, 1);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    do_work(pipeline, PIPELINE_BACKWARD, 0);
    do_work(pipeline, PIPELINE_UPDATE, 0);
    do_work(pipeline, PIPELINE_STOP, 0);
    assert_int_equal(pipeline_version(pipeline), 1);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 1, 1, NULL), TRANSFER_MARK);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 2, 0, NULL), TRANSFER_DUPLICATE);
}

static void a_stop_gives_an_evaluation_up_and_the_resumed_generation_makes_up_for_it(void **state)
{
    (void)state;
    struct pipeline_config config = {.count = 1,
                                     .micro_batches = 1,
                                     .in_flight = 1,
                                     .total_steps = 4,
                                     .evaluate_every = 2,
                                     .evaluation_batches = 2};
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

static void tensors_of_an_abandoned_evaluation_occupy_no_slot(void **state)
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
    struct slot_claim claim;
    assert_int_equal(pipeline_offer(pipeline, &late, &claim), TRANSFER_TAKE);
    pipeline_mark(pipeline, 1);
    do_work(pipeline, PIPELINE_STOP, 0);
    assert_true(pipeline_received(pipeline, &late, &claim));
    assert_int_equal(offer(pipeline, TRANSFER_EVALUATION, 1, 2, NULL), TRANSFER_DUPLICATE);
}

static void while_held_no_step_begins(void **state)
{
    (void)state;
    const struct pipeline_config config = {
        .count = 1, .micro_batches = 2, .in_flight = 1, .total_steps = 2};
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

static void inconsistent_numbers_are_rejected(void **state)
{
    (void)state;
    const struct pipeline_config wrong[] = {
        {.index = 1,
         .count = 1,
         .micro_batches = 1,
         .in_flight = 1,
         .previous_in_flight = 1,
         .total_steps = 1},
        {.count = 1, .micro_batches = 0, .in_flight = 1, .total_steps = 1},
        {.count = 1, .micro_batches = 1, .in_flight = 2, .total_steps = 1},
        {.count = 1, .micro_batches = 1, .in_flight = 0, .total_steps = 1},
        {.index = 1, .count = 2, .micro_batches = 1, .in_flight = 1, .total_steps = 1},
        {.count = 2, .micro_batches = 1, .in_flight = 1, .previous_in_flight = 1, .total_steps = 1},
        {.count = 1, .micro_batches = 1, .in_flight = 1, .total_steps = 1, .resume_version = 2},
        {.count = 1, .micro_batches = 1, .in_flight = 1, .total_steps = 1, .evaluate_every = -1},
        {.async = true, .count = 1, .micro_batches = 2, .in_flight = 1, .total_steps = 1},
        {.async = true, .count = 1, .micro_batches = 1, .in_flight = 2, .total_steps = 1},
        {.async = true,
         .count = 1,
         .micro_batches = 1,
         .in_flight = 1,
         .total_steps = 1,
         .clips_norm = true},
        {.async = true,
         .index = 1,
         .count = 3,
         .micro_batches = 1,
         .in_flight = 4,
         .previous_in_flight = 3,
         .total_steps = 1},
        {.async = true,
         .index = 2,
         .count = 3,
         .micro_batches = 1,
         .in_flight = 2,
         .previous_in_flight = 2,
         .total_steps = 1},
        {.strict = true,
         .index = 1,
         .count = 3,
         .micro_batches = 4,
         .in_flight = 3,
         .previous_in_flight = 2,
         .total_steps = 1},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct pipeline *pipeline = NULL;
        struct err err = {0};
        assert_int_equal(pipeline_new(&wrong[i], &pipeline, &err), ERR_INVALID);
        assert_null(pipeline);
    }
}

/* ---- rounds of replication ---- */

/* One step of a pipeline of one stage; returns the mark of its update. */
static struct round_mark do_step(struct pipeline *pipeline, bool *opens)
{
    struct pipeline_task task;
    *opens = false;
    for (;;) {
        const enum pipeline_work work = pipeline_next(pipeline, &task);
        assert_int_not_equal(work, PIPELINE_WAIT);
        assert_int_not_equal(work, PIPELINE_STOP);
        *opens = *opens || task.opens_round;
        pipeline_done(pipeline, &task);
        if (work == PIPELINE_UPDATE) {
            return task.mark;
        }
    }
}

static const struct pipeline_config rounds = {
    .count = 1,
    .micro_batches = 2,
    .in_flight = 1,
    .total_steps = 100,
    .round_every = {[REPLICA_NEIGHBOR] = 3, [REPLICA_CENTER] = 4}};

#define NEIGHBOR REPLICA_MARK(REPLICA_NEIGHBOR)
#define CENTER REPLICA_MARK(REPLICA_CENTER)

static void say_round(struct pipeline *pipeline, enum replica_kind kind, int64_t version,
                      enum round_state state)
{
    struct round round[REPLICA_KINDS] = {{0}};
    round[kind] = (struct round){.version = version, .state = state};
    pipeline_take_rounds(pipeline, round);
}

static void stage_0_opens_rounds_when_they_are_due_and_none_is_open(void **state)
{
    (void)state;
    static const unsigned expected[] = {0, 0,        0, NEIGHBOR, CENTER,           0, NEIGHBOR, 0,
                                        0, NEIGHBOR, 0, 0,        NEIGHBOR | CENTER};
    struct pipeline *pipeline AUTO(pipeline_free) = make(&rounds);
    pipeline_run(pipeline);
    for (int64_t step = 1; step <= 12; step++) {
        bool opens;
        const struct round_mark mark = do_step(pipeline, &opens);
        assert_int_equal(mark.kinds, expected[step]);
        assert_int_equal(opens, expected[step] != 0);
        if (mark.kinds & NEIGHBOR) {
            assert_int_equal(pipeline_round(pipeline, REPLICA_NEIGHBOR), step);
            say_round(pipeline, REPLICA_NEIGHBOR, step + 1, ROUND_COMMITTED); /* another one */
            assert_int_equal(pipeline_round(pipeline, REPLICA_NEIGHBOR), step);
            say_round(pipeline, REPLICA_NEIGHBOR, step,
                      step != 6 ? ROUND_COMMITTED : ROUND_ABANDONED);
            assert_int_equal(pipeline_round(pipeline, REPLICA_NEIGHBOR), 0);
        }
        if (step == 6) { /* the center's of 4 is open */
            assert_int_equal(mark.keep[0], 3);
            assert_int_equal(mark.keep[1 + REPLICA_CENTER], 4);
        } else if (step == 9) { /* 6 was abandoned */
            assert_int_equal(mark.keep[0], 3);
            assert_int_equal(mark.keep[1 + REPLICA_NEIGHBOR], 0);
            assert_int_equal(mark.keep[1 + REPLICA_CENTER], 4);
        }
        if (step == 10) {
            say_round(pipeline, REPLICA_CENTER, 4, ROUND_COMMITTED);
        }
    }
}

static void a_resumed_generation_opens_a_round_at_once(void **state)
{
    (void)state;
    struct pipeline_config config = rounds;
    config.resume_version = 6;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&config);
    bool opens;
    pipeline_run(pipeline);
    assert_int_equal(do_step(pipeline, &opens).kinds, NEIGHBOR);
    assert_int_equal(do_step(pipeline, &opens).kinds, CENTER);
    assert_int_equal(do_step(pipeline, &opens).kinds, 0); /* 9 is due, but 7 is open */
}

static void no_round_is_opened_while_the_coordinator_is_away_or_pauses_it(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&rounds);
    bool opens;
    pipeline_run(pipeline);
    pipeline_away(pipeline, true);
    for (int64_t step = 1; step <= 4; step++) {
        assert_int_equal(do_step(pipeline, &opens).kinds, 0);
    }
    pipeline_away(pipeline, false);
    say_round(pipeline, REPLICA_CENTER, 0, ROUND_PAUSED);
    for (int64_t step = 5; step <= 8; step++) {
        assert_int_equal(do_step(pipeline, &opens).kinds, step == 6 ? NEIGHBOR : 0);
    }
    say_round(pipeline, REPLICA_CENTER, 0, ROUND_NONE);
    for (int64_t step = 9; step <= 12; step++) {
        assert_int_equal(do_step(pipeline, &opens).kinds, step == 12 ? CENTER : 0);
    }
}

static void the_last_step_opens_none(void **state)
{
    (void)state;
    struct pipeline_config config = rounds;
    config.total_steps = 12;
    config.resume_version = 11;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&config);
    bool opens;
    pipeline_run(pipeline);
    assert_int_equal(do_step(pipeline, &opens).kinds, 0);
}

static void a_mark_is_of_its_own_step(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&middle);
    const struct round_mark mark = {.kinds = CENTER, .keep = {5}};
    struct pipeline_task task;
    pipeline_run(pipeline);
    for (size_t i = 0; i < 4; i++) {
        const struct transfer transfer = {TRANSFER_ACTIVATION, 1, i};
        struct slot_claim claim;
        assert_int_equal(pipeline_offer(pipeline, &transfer, &claim), TRANSFER_TAKE);
        assert_int_equal(claim.mark.kinds, 0);
        claim.mark = mark;
        assert_true(pipeline_received(pipeline, &transfer, &claim));
        assert_int_equal(pipeline_next(pipeline, &task), PIPELINE_FORWARD);
        assert_int_equal(task.mark.kinds, CENTER);
        assert_int_equal(task.mark.keep[0], 5);
        assert_false(task.opens_round);
        pipeline_done(pipeline, &task);
        pipeline_sent(pipeline, TRANSFER_ACTIVATION, task.output);
        deliver(pipeline, TRANSFER_GRADIENT, 1, i);
        assert_int_equal(pipeline_next(pipeline, &task), PIPELINE_BACKWARD);
        pipeline_done(pipeline, &task);
        pipeline_sent(pipeline, TRANSFER_GRADIENT, task.output);
    }
    deliver(pipeline, TRANSFER_ACTIVATION, 2, 0); /* the stage before is ahead */
    assert_int_equal(pipeline_next(pipeline, &task), PIPELINE_UPDATE);
    assert_int_equal(task.mark.kinds, CENTER);
    pipeline_done(pipeline, &task);
    assert_int_equal(pipeline_next(pipeline, &task), PIPELINE_FORWARD);
    assert_int_equal(task.mark.kinds, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stage_does_its_steps_alone_and_stops),
        cmocka_unit_test(early_tensors_wait_for_the_run),
        cmocka_unit_test(backward_runs_before_forward),
        cmocka_unit_test(a_repeat_is_a_duplicate_before_and_after_its_use),
        cmocka_unit_test(a_slot_in_use_is_full_until_its_backward),
        cmocka_unit_test(the_newest_connection_wins_a_slot),
        cmocka_unit_test(a_broken_off_body_frees_its_slot),
        cmocka_unit_test(impossible_tensors_are_rejected),
        cmocka_unit_test(a_send_buffer_is_not_overwritten_before_it_was_sent),
        cmocka_unit_test(stage_0_stops_after_the_step_it_began),
        cmocka_unit_test(a_mark_stops_the_stage_after_that_step),
        cmocka_unit_test(a_stop_gives_an_evaluation_up_and_the_resumed_generation_makes_up_for_it),
        cmocka_unit_test(tensors_of_an_abandoned_evaluation_occupy_no_slot),
        cmocka_unit_test(while_held_no_step_begins),
        cmocka_unit_test(inconsistent_numbers_are_rejected),
        cmocka_unit_test(stage_0_opens_rounds_when_they_are_due_and_none_is_open),
        cmocka_unit_test(a_resumed_generation_opens_a_round_at_once),
        cmocka_unit_test(no_round_is_opened_while_the_coordinator_is_away_or_pauses_it),
        cmocka_unit_test(the_last_step_opens_none),
        cmocka_unit_test(a_mark_is_of_its_own_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
