/* Clipping by the norm of all gradients: every update waits for the total. */
#include "tests/unit/agent_core/pipeline_steps.h"

/* A stage of `count` that clips and has done the passes of step 1; its buffers are free. */
static struct pipeline *clipping_stage(size_t index, size_t count)
{
    struct pipeline_config config = {.index = index,
                                     .count = count,
                                     .micro_batches = 1,
                                     .in_flight = 1,
                                     .previous_in_flight = index > 0,
                                     .total_steps = 10,
                                     .clips_norm = true};
    struct pipeline *pipeline = make(&config);
    pipeline_run(pipeline);
    if (index > 0) {
        deliver(pipeline, TRANSFER_ACTIVATION, 1, 0);
    }
    do_work(pipeline, PIPELINE_FORWARD, 0);
    if (index + 1 < count) {
        pipeline_sent(pipeline, TRANSFER_ACTIVATION, 0);
        deliver(pipeline, TRANSFER_GRADIENT, 1, 0);
    }
    do_work(pipeline, PIPELINE_BACKWARD, 0);
    if (index > 0) {
        pipeline_sent(pipeline, TRANSFER_GRADIENT, 0);
    }
    return pipeline;
}

static void one_stage_sums_before_each_update(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = clipping_stage(0, 1);
    do_work(pipeline, PIPELINE_SUM, 0);
    do_work(pipeline, PIPELINE_UPDATE, 0);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    do_work(pipeline, PIPELINE_BACKWARD, 0);
    do_work(pipeline, PIPELINE_SUM, 0);
    do_work(pipeline, PIPELINE_UPDATE, 0);
    assert_int_equal(pipeline_version(pipeline), 2);
}

static void the_first_stage_waits_for_the_norm_and_updates(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = clipping_stage(0, 2);
    expect_wait(pipeline);
    deliver(pipeline, TRANSFER_NORM, 1, 0);
    assert_int_equal(offer(pipeline, TRANSFER_NORM, 1, 0, NULL), TRANSFER_DUPLICATE);
    do_work(pipeline, PIPELINE_SUM, 0);
    assert_int_equal(offer(pipeline, TRANSFER_NORM, 1, 0, NULL), TRANSFER_DUPLICATE);
    do_work(pipeline, PIPELINE_UPDATE, 0);
    assert_int_equal(offer(pipeline, TRANSFER_NORM, 1, 0, NULL), TRANSFER_DUPLICATE);
}

static void a_middle_stage_passes_the_total_on_before_it_updates(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = clipping_stage(1, 3);
    struct slot_claim claim;
    assert_int_equal(offer(pipeline, TRANSFER_NORM_TOTAL, 1, 0, NULL), TRANSFER_REFUSE);
    assert_int_equal(offer(pipeline, TRANSFER_NORM, 1, 0, &claim), TRANSFER_TAKE);
    assert_int_equal(claim.slot, 0);
    expect_wait(pipeline);
    deliver(pipeline, TRANSFER_NORM, 1, 0); /* by a newer connection */
    do_work(pipeline, PIPELINE_SUM, 0);
    expect_wait(pipeline);
    assert_int_equal(offer(pipeline, TRANSFER_NORM_TOTAL, 1, 0, &claim), TRANSFER_TAKE);
    assert_int_equal(claim.slot, 0);
    deliver(pipeline, TRANSFER_NORM_TOTAL, 1, 0);
    do_work(pipeline, PIPELINE_TOTAL, 0);
    assert_int_equal(offer(pipeline, TRANSFER_NORM_TOTAL, 1, 0, NULL), TRANSFER_DUPLICATE);
    do_work(pipeline, PIPELINE_UPDATE, 0);
    assert_int_equal(offer(pipeline, TRANSFER_NORM_TOTAL, 1, 0, NULL), TRANSFER_DUPLICATE);
}

/* The next stage has the total, but what it says of that is lost for a while. */
static void a_sum_waits_for_its_buffer(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = clipping_stage(1, 3);
    for (int64_t step = 1;; step++) {
        deliver(pipeline, TRANSFER_NORM, step, 0);
        if (step == 2) {
            expect_wait(pipeline); /* the norm of step 1 is not known to have arrived */
            pipeline_sent(pipeline, TRANSFER_NORM, 0);
        }
        do_work(pipeline, PIPELINE_SUM, 0);
        deliver(pipeline, TRANSFER_NORM_TOTAL, step, 0);
        if (step == 2) {
            break;
        }
        do_work(pipeline, PIPELINE_TOTAL, 0);
        do_work(pipeline, PIPELINE_UPDATE, 0);
        deliver(pipeline, TRANSFER_ACTIVATION, step + 1, 0);
        do_work(pipeline, PIPELINE_FORWARD, 0);
        pipeline_sent(pipeline, TRANSFER_ACTIVATION, 0);
        deliver(pipeline, TRANSFER_GRADIENT, step + 1, 0);
        do_work(pipeline, PIPELINE_BACKWARD, 0);
    }
    expect_wait(pipeline);
    pipeline_sent(pipeline, TRANSFER_NORM_TOTAL, 0);
    do_work(pipeline, PIPELINE_TOTAL, 0);
    do_work(pipeline, PIPELINE_UPDATE, 0);
}

static void the_last_stage_sums_at_once_and_waits_for_the_total(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = clipping_stage(1, 2);
    do_work(pipeline, PIPELINE_SUM, 0);
    expect_wait(pipeline);
    assert_int_equal(offer(pipeline, TRANSFER_NORM, 1, 0, NULL), TRANSFER_REFUSE);
    deliver(pipeline, TRANSFER_ACTIVATION, 2, 0); /* the stage before has updated already */
    deliver(pipeline, TRANSFER_NORM_TOTAL, 1, 0);
    do_work(pipeline, PIPELINE_UPDATE, 0);
    do_work(pipeline, PIPELINE_FORWARD, 0);
}

static void impossible_norms_are_rejected(void **state)
{
    (void)state;
    struct pipeline *clips AUTO(pipeline_free) = clipping_stage(1, 3);
    assert_int_equal(offer(clips, TRANSFER_NORM, 2, 0, NULL), TRANSFER_REFUSE);
    assert_int_equal(offer(clips, TRANSFER_NORM, 1, 1, NULL), TRANSFER_REFUSE);
    deliver(clips, TRANSFER_NORM, 1, 0);
    do_work(clips, PIPELINE_SUM, 0);
    assert_int_equal(offer(clips, TRANSFER_NORM_TOTAL, 2, 0, NULL), TRANSFER_REFUSE);
    assert_int_equal(offer(clips, TRANSFER_NORM_TOTAL, 1, 1, NULL), TRANSFER_REFUSE);
    struct pipeline *leading AUTO(pipeline_free) = clipping_stage(0, 2);
    assert_int_equal(offer(leading, TRANSFER_NORM_TOTAL, 1, 0, NULL), TRANSFER_REFUSE);
    struct pipeline_config config = {.index = 1,
                                     .count = 3,
                                     .micro_batches = 4,
                                     .in_flight = 2,
                                     .previous_in_flight = 3,
                                     .total_steps = 10};
    struct pipeline *plain AUTO(pipeline_free) = make(&config);
    assert_int_equal(offer(plain, TRANSFER_NORM, 1, 0, NULL), TRANSFER_REFUSE);
    assert_int_equal(offer(plain, TRANSFER_NORM_TOTAL, 1, 0, NULL), TRANSFER_REFUSE);
    config.clips_norm = true;
    struct pipeline *early AUTO(pipeline_free) = make(&config);
    assert_int_equal(offer(early, TRANSFER_NORM, 1, 0, NULL), TRANSFER_REFUSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stage_sums_before_each_update),
        cmocka_unit_test(the_first_stage_waits_for_the_norm_and_updates),
        cmocka_unit_test(a_middle_stage_passes_the_total_on_before_it_updates),
        cmocka_unit_test(a_sum_waits_for_its_buffer),
        cmocka_unit_test(the_last_stage_sums_at_once_and_waits_for_the_total),
        cmocka_unit_test(impossible_norms_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
