/* Evaluations that may end the job: no step begins before the last evaluation is judged. */
#include "tests/unit/agent_core/pipeline_steps.h"

/* A stage of `count` that has evaluated version 1; its buffers are free. */
static struct pipeline *evaluated_stage(size_t index, size_t count, const struct early_stop *judged)
{
    struct pipeline_config config = {.index = index,
                                     .count = count,
                                     .micro_batches = 1,
                                     .in_flight = 1,
                                     .previous_in_flight = index > 0,
                                     .total_steps = 10,
                                     .resume_version = 1,
                                     .evaluate_every = 1,
                                     .evaluation_batches = 1,
                                     .judges = true,
                                     .stop = {.metric = JUDGED_TEST_ACCURACY, .patience = 1}};
    config.judged = judged ? *judged : (struct early_stop){0};
    struct pipeline *pipeline = make(&config);
    pipeline_run(pipeline);
    if (index > 0) {
        deliver(pipeline, TRANSFER_EVALUATION, 1, 0);
    }
    do_work(pipeline, PIPELINE_EVALUATE, 0);
    if (index + 1 < count) {
        pipeline_sent(pipeline, TRANSFER_EVALUATION, 0);
    }
    return pipeline;
}

static void judge(struct pipeline *pipeline, double value)
{
    struct pipeline_task task;
    assert_int_equal(pipeline_next(pipeline, &task), PIPELINE_JUDGE);
    task.value = value;
    pipeline_done(pipeline, &task);
}

static struct early_stop judged_of(const struct pipeline *pipeline)
{
    struct heartbeat beat = {0};
    pipeline_report(pipeline, &beat);
    assert_int_equal(beat.has_early_stop, beat.early_stop.version > 0);
    return beat.early_stop;
}

static void one_stage_judges_each_evaluation_before_the_next_step(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = evaluated_stage(0, 1, NULL);
    judge(pipeline, 0.5);
    assert_int_equal(judged_of(pipeline).best_version, 1);
    do_work(pipeline, PIPELINE_FORWARD, 0);
    do_work(pipeline, PIPELINE_BACKWARD, 0);
    do_work(pipeline, PIPELINE_UPDATE, 0);
    do_work(pipeline, PIPELINE_EVALUATE, 0);
    judge(pipeline, 0.5); /* not better */
    assert_true(judged_of(pipeline).met);
    do_work(pipeline, PIPELINE_STOP, 0);
    assert_int_equal(pipeline_version(pipeline), 2);
}

static void the_first_stage_begins_no_step_before_the_metric_is_here(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = evaluated_stage(0, 2, NULL);
    expect_wait(pipeline);
    assert_int_equal(pipeline_waits(pipeline), PIPELINE_WAITS_FOR_GRADIENT);
    deliver(pipeline, TRANSFER_JUDGED, 1, 0);
    assert_int_equal(offer(pipeline, TRANSFER_JUDGED, 1, 0, NULL), TRANSFER_DUPLICATE);
    judge(pipeline, 0.5);
    assert_int_equal(offer(pipeline, TRANSFER_JUDGED, 1, 0, NULL), TRANSFER_DUPLICATE);
    do_work(pipeline, PIPELINE_FORWARD, 0);
}

static void a_stage_that_meets_the_rule_stops_without_a_mark(void **state)
{
    (void)state;
    const struct early_stop before = {.version = 0};
    struct pipeline *pipeline AUTO(pipeline_free) = evaluated_stage(0, 2, &before);
    deliver(pipeline, TRANSFER_JUDGED, 1, 0);
    struct pipeline_task task;
    assert_int_equal(pipeline_next(pipeline, &task), PIPELINE_JUDGE);
    task.value = 0.0 / 0.0; /* never better: patience 1 is over */
    pipeline_done(pipeline, &task);
    assert_true(judged_of(pipeline).met);
    assert_int_equal(pipeline_next(pipeline, &task), PIPELINE_STOP);
    assert_false(task.announce);
}

static void a_version_is_judged_once(void **state)
{
    (void)state;
    const struct early_stop before = {
        .version = 1, .best_version = 1, .best = 0.5, .since = 0, .met = false};
    struct pipeline *pipeline AUTO(pipeline_free) = evaluated_stage(0, 1, &before);
    judge(pipeline, 0.5);
    assert_false(judged_of(pipeline).met);
    assert_int_equal(judged_of(pipeline).since, 0);
}

static void a_stop_abandons_the_judgement(void **state)
{
    (void)state;
    struct pipeline *pipeline AUTO(pipeline_free) = evaluated_stage(0, 2, NULL);
    struct slot_claim claim;
    const struct transfer judged = {TRANSFER_JUDGED, 1, 0};
    assert_int_equal(offer(pipeline, TRANSFER_JUDGED, 1, 0, &claim), TRANSFER_TAKE);
    pipeline_stop(pipeline);
    do_work(pipeline, PIPELINE_STOP, 0);
    assert_true(pipeline_received(pipeline, &judged, &claim)); /* without an effect */
    assert_int_equal(judged_of(pipeline).version, 0);
}

static void a_job_that_has_met_its_rule_ends_there_again(void **state)
{
    (void)state;
    const struct early_stop met = {.version = 1, .best_version = 1, .best = 0.5, .met = true};
    struct pipeline *pipeline AUTO(pipeline_free) = evaluated_stage(0, 1, &met);
    judge(pipeline, 0.5);
    do_work(pipeline, PIPELINE_STOP, 0);
    assert_int_equal(pipeline_version(pipeline), 1);
}

static void a_metric_that_cannot_be_is_refused(void **state)
{
    (void)state;
    struct pipeline *first AUTO(pipeline_free) = evaluated_stage(0, 2, NULL);
    assert_int_equal(offer(first, TRANSFER_JUDGED, 2, 0, NULL), TRANSFER_REFUSE);
    assert_int_equal(offer(first, TRANSFER_JUDGED, 1, 1, NULL), TRANSFER_REFUSE);
    struct pipeline *last AUTO(pipeline_free) = evaluated_stage(1, 2, NULL);
    assert_int_equal(offer(last, TRANSFER_JUDGED, 1, 0, NULL), TRANSFER_REFUSE);
    struct pipeline_config plain = {.count = 2,
                                    .micro_batches = 1,
                                    .in_flight = 1,
                                    .total_steps = 10,
                                    .resume_version = 1,
                                    .evaluate_every = 1,
                                    .evaluation_batches = 1};
    struct pipeline *without AUTO(pipeline_free) = make(&plain);
    pipeline_run(without);
    do_work(without, PIPELINE_EVALUATE, 0);
    assert_int_equal(offer(without, TRANSFER_JUDGED, 1, 0, NULL), TRANSFER_REFUSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stage_judges_each_evaluation_before_the_next_step),
        cmocka_unit_test(the_first_stage_begins_no_step_before_the_metric_is_here),
        cmocka_unit_test(a_stage_that_meets_the_rule_stops_without_a_mark),
        cmocka_unit_test(a_version_is_judged_once),
        cmocka_unit_test(a_stop_abandons_the_judgement),
        cmocka_unit_test(a_job_that_has_met_its_rule_ends_there_again),
        cmocka_unit_test(a_metric_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
