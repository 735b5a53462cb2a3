/* The asynchronous schedule: steps overlap, and the work of a stage alternates. */
#include "tests/unit/agent_core/pipeline_steps.h"

/* The middle stage of three with two batches in flight. */
static const struct pipeline_config async_middle = {.async = true,
                                                    .index = 1,
                                                    .count = 3,
                                                    .micro_batches = 1,
                                                    .in_flight = 2,
                                                    .previous_in_flight = 3,
                                                    .total_steps = 10};

/* The gradient of batch 1 is here, but the strict order has the forward of batch 2 first. */
static struct pipeline *wait_for_the_second_batch(void)
{
    struct pipeline *pipeline = make(&async_middle);
    pipeline_run(pipeline);
    deliver(pipeline, TRANSFER_ACTIVATION, 1, 0);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    pipeline_sent(pipeline, TRANSFER_ACTIVATION, 1);
    deliver(pipeline, TRANSFER_GRADIENT, 1, 0);
    expect_wait(pipeline);
    return pipeline;
}

static void overlapping_steps_alternate_although_a_gradient_is_early(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = wait_for_the_second_batch();
    deliver(pipeline, TRANSFER_ACTIVATION, 2, 0);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    do_work(pipeline, PIPELINE_BACKWARD, 0);
    do_work(pipeline, PIPELINE_UPDATE, 0);
    assert_int_equal(pipeline_version(pipeline), 1);
}

static void a_stop_lets_the_batches_in_flight_run_out(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = wait_for_the_second_batch();
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 0, 1, NULL), TRANSFER_REFUSE);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 1, 1, NULL), TRANSFER_MARK);
    pipeline_mark(pipeline, 1);
    struct pipeline_task task;
    assert_int_equal(pipeline_next(pipeline, &task), PIPELINE_LAST);
    assert_int_equal(task.step, 1);
    assert_true(task.announce);
    pipeline_done(pipeline, &task);
    do_work(pipeline, PIPELINE_BACKWARD, 0);
    do_work(pipeline, PIPELINE_UPDATE, 0);
    assert_int_equal(pipeline_next(pipeline, &task), PIPELINE_STOP);
    assert_false(task.announce);
}

static void overlapping_steps_are_taken_as_far_as_the_previous_stage_may_be(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&async_middle);
    deliver(pipeline, TRANSFER_ACTIVATION, 1, 0);
    deliver(pipeline, TRANSFER_ACTIVATION, 2, 0);
    deliver(pipeline, TRANSFER_ACTIVATION, 3, 0);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 4, 0, NULL), TRANSFER_REFUSE);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 3, 1, NULL), TRANSFER_MARK);
    assert_int_equal(offer(pipeline, TRANSFER_ACTIVATION, 4, 1, NULL), TRANSFER_REFUSE);
    assert_int_equal(offer(pipeline, TRANSFER_GRADIENT, 1, 0, NULL), TRANSFER_REFUSE);
}

static void expect_wait_for(struct pipeline *pipeline, enum pipeline_wait why)
{
    expect_wait(pipeline);
    assert_int_equal(pipeline_waits(pipeline), why);
}

static void a_stage_says_what_it_waits_for(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&async_middle);
    expect_wait_for(pipeline, PIPELINE_WAITS_FOR_ORDERS);
    pipeline_run(pipeline);
    expect_wait_for(pipeline, PIPELINE_WAITS_FOR_INPUT);
    pipeline_hold(pipeline, true);
    expect_wait_for(pipeline, PIPELINE_WAITS_FOR_ORDERS);
    pipeline_rest(pipeline, true);
    pipeline_hold(pipeline, false); /* it still rests for a reason of its own */
    expect_wait_for(pipeline, PIPELINE_WAITS_FOR_ORDERS);
    pipeline_rest(pipeline, false);
    deliver(pipeline, TRANSFER_ACTIVATION, 1, 0);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    expect_wait_for(pipeline, PIPELINE_WAITS_FOR_INPUT);
    deliver(pipeline, TRANSFER_ACTIVATION, 2, 0);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    expect_wait_for(pipeline, PIPELINE_WAITS_FOR_GRADIENT);
    deliver(pipeline, TRANSFER_GRADIENT, 1, 0);
    do_work(pipeline, PIPELINE_BACKWARD, 0);
    do_work(pipeline, PIPELINE_UPDATE, 0);
    deliver(pipeline, TRANSFER_ACTIVATION, 3, 0);
    /* The output of batch 1 still lies in the buffer of batch 3. */
    expect_wait_for(pipeline, PIPELINE_WAITS_FOR_ROOM);
    pipeline_sent(pipeline, TRANSFER_ACTIVATION, 1);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    expect_wait_for(pipeline, PIPELINE_WAITS_FOR_GRADIENT);
}

static void each_step_in_flight_keeps_its_round(void **state)
{
    (void)state;
    struct pipeline_config config = async_middle;
    config.index = config.previous_in_flight = 0;
    config.in_flight = 3;
    config.round_every[REPLICA_NEIGHBOR] = 2;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&config);
    pipeline_run(pipeline);
    for (int64_t step = 1; step <= 3; step++) {
        struct pipeline_task task;
        assert_int_equal(pipeline_next(pipeline, &task), PIPELINE_FORWARD);
        assert_int_equal(task.mark.kinds, step == 2 ? REPLICA_MARK(REPLICA_NEIGHBOR) : 0);
        pipeline_done(pipeline, &task);
    }
    for (int64_t step = 1; step <= 2; step++) {
        struct pipeline_task task;
        pipeline_sent(pipeline, TRANSFER_ACTIVATION, (size_t)step);
        deliver(pipeline, TRANSFER_GRADIENT, step, 0);
        do_work(pipeline, PIPELINE_BACKWARD, 0);
        assert_int_equal(pipeline_next(pipeline, &task), PIPELINE_UPDATE);
        assert_int_equal(task.mark.kinds, step == 2 ? REPLICA_MARK(REPLICA_NEIGHBOR) : 0);
        pipeline_done(pipeline, &task);
        do_work(pipeline, PIPELINE_FORWARD, 0);
    }
}

/* The order of an asynchronous stage, in a synchronous one. */
static void a_strict_step_forwards_up_to_its_limit_first(void **state)
{
    (void)state;
    struct pipeline_config config = async_middle;
    config.async = false;
    config.strict = true;
    config.micro_batches = 4;
    struct pipeline *pipeline AUTO(pipeline_free) = make(&config);
    pipeline_run(pipeline);
    for (size_t i = 0; i < 4; i++) {
        deliver(pipeline, TRANSFER_ACTIVATION, 1, i);
        do_work(pipeline, PIPELINE_FORWARD, i);
        pipeline_sent(pipeline, TRANSFER_ACTIVATION, i % 2);
        if (i > 0) {
            do_work(pipeline, PIPELINE_BACKWARD, i - 1);
        }
        deliver(pipeline, TRANSFER_GRADIENT, 1, i);
        if (i < 3) {
            expect_wait(pipeline);
            assert_int_equal(pipeline_waits(pipeline), PIPELINE_WAITS_FOR_INPUT);
        }
    }
    pipeline_sent(pipeline, TRANSFER_GRADIENT, 0);
    do_work(pipeline, PIPELINE_BACKWARD, 3);
    do_work(pipeline, PIPELINE_UPDATE, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlapping_steps_alternate_although_a_gradient_is_early),
        cmocka_unit_test(a_stop_lets_the_batches_in_flight_run_out),
        cmocka_unit_test(overlapping_steps_are_taken_as_far_as_the_previous_stage_may_be),
        cmocka_unit_test(a_stage_says_what_it_waits_for),
        cmocka_unit_test(each_step_in_flight_keeps_its_round),
        cmocka_unit_test(a_strict_step_forwards_up_to_its_limit_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
