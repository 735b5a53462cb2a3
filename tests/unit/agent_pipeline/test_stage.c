/* A stage alone: what it rejects, and the end of its loop after a fault. */
#include <string.h>

#include "agent/pipeline/stage_loop.h"
#include "tests/support/test.h"
#include "tests/unit/agent/tiny.h"

static struct stage *make(const struct stage_config *config)
{
    struct stage *stage = tiny_stage(config);
    stage_follow(stage, &(struct orders){.run = true});
    return stage;
}

static void ignore(void *arg, const struct metric *metric)
{
    (void)arg;
    (void)metric;
}

static int run(struct stage *stage, struct err *err)
{
    const struct work_listener listener = {.metric = ignore};
    int64_t version = -1;
    return stage_loop(stage, &listener, &version, err);
}

static void expect_refused(const struct stage_config *config)
{
    struct model *model = tiny_model();
    struct stage *stage = NULL;
    struct err err = {0};
    assert_int_equal(stage_new(config, &model, &stage, &err), ERR_INVALID);
    assert_null(model);
    assert_null(stage);
    assert_true(err.text[0] != '\0');
}

static void numbers_that_do_not_fit_the_model_are_rejected(void **state)
{
    (void)state;
    struct job_spec spec = tiny_spec();
    const struct stage_config right = tiny_whole(&spec);
    struct stage_config config = right;
    config.end = TINY_UNITS + 1;
    expect_refused(&config);
    config = right;
    config.first = 1;
    expect_refused(&config);
    config = right;
    config.count = 2;
    expect_refused(&config);
    config = right;
    config.samples.train_samples = spec.batch - 1;
    expect_refused(&config);
    config = right;
    config.in_flight = 5;
    expect_refused(&config);
    config = right;
    config.data.test_labels = NULL;
    expect_refused(&config);
    config = right;
    config.data.train_inputs = NULL;
    expect_refused(&config);
    struct job_spec uneven = spec;
    uneven.micro_batches = 3;
    config = right;
    config.spec = &uneven;
    expect_refused(&config);
}

static void a_loss_that_is_not_finite_ends_the_loop_as_diverged(void **state)
{
    (void)state;
    struct job_spec spec = tiny_spec();
    spec.learning_rate.value = 1e30;
    const struct stage_config config = tiny_whole(&spec);
    struct stage *stage = make(&config);
    struct err err = {0};
    assert_int_equal(run(stage, &err), ERR_DIVERGED);
    assert_holds(err.text, "step ");
    assert_true(stage_step(stage) < TINY_STEPS);
    stage_release(&stage);
}

static void a_label_outside_the_classes_is_reported(void **state)
{
    (void)state;
    const struct tiny_data *right = &tiny_job()->train;
    static struct tiny_data bad;
    bad = *right;
    const int32_t wrong = 4;
    unsigned char *labels = bad.file + (right->labels - right->file);
    memcpy(labels + 5 * sizeof(wrong), &wrong, sizeof(wrong));
    struct job_spec spec = tiny_spec();
    struct stage_config config = tiny_whole(&spec);
    config.data.train_labels = labels;
    struct stage *stage = make(&config);
    struct err err = {0};
    assert_int_equal(run(stage, &err), ERR_INVALID);
    stage_release(&stage);
}

static void a_cancelled_stage_gives_up(void **state)
{
    (void)state;
    struct job_spec spec = tiny_spec();
    const struct stage_config config = tiny_whole(&spec);
    struct stage *stage = make(&config);
    struct err err = {0};
    stage_cancel(stage);
    assert_int_equal(run(stage, &err), ERR_CANCELLED);
    struct stage_outgoing outgoing;
    assert_false(stage_next_outgoing(stage, STAGE_TO_NEXT, &outgoing));
    stage_release(&stage);
}

static void a_stop_keeps_the_state_of_a_whole_step(void **state)
{
    (void)state;
    struct job_spec spec = tiny_spec();
    const struct stage_config config = tiny_whole(&spec);
    struct stage *stage = make(&config);
    const struct work_listener listener = {.metric = ignore};
    int64_t version = -1;
    struct err err = {0};
    stage_follow(stage, &(struct orders){.run = true, .stop = true});
    assert_ok(stage_loop(stage, &listener, &version, &err), &err);
    assert_int_equal(version, 0);
    stage_release(&stage);
}

static void measurements_cover_each_unit(void **state)
{
    (void)state;
    struct job_spec spec = tiny_spec();
    const struct stage_config config = tiny_whole(&spec);
    struct stage *stage = make(&config);
    static struct heartbeat heartbeat;
    struct err err = {0};
    stage_measure(stage, &heartbeat);
    assert_int_equal(heartbeat.unit_seconds_count, 0);
    assert_ok(run(stage, &err), &err);
    stage_measure(stage, &heartbeat);
    assert_int_equal(heartbeat.unit_seconds_count, TINY_UNITS);
    for (size_t i = 0; i < TINY_UNITS; i++) {
        assert_int_equal(heartbeat.unit_seconds[i].unit, i);
        assert_true(heartbeat.unit_seconds[i].forward_seconds > 0);
        assert_true(heartbeat.unit_seconds[i].backward_seconds > 0);
    }
    assert_true(heartbeat.update_seconds > 0);
    stage_release(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_do_not_fit_the_model_are_rejected),
        cmocka_unit_test(a_loss_that_is_not_finite_ends_the_loop_as_diverged),
        cmocka_unit_test(a_label_outside_the_classes_is_reported),
        cmocka_unit_test(a_cancelled_stage_gives_up),
        cmocka_unit_test(a_stop_keeps_the_state_of_a_whole_step),
        cmocka_unit_test(measurements_cover_each_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
