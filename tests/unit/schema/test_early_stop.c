/* When a job ends before its last step, as a function of its evaluations. */
#include "schema/early_stop.h"

#include <math.h>

#include "schema/heartbeat.h"
#include "schema/job.h"
#include "schema/job_check.h"
#include "tests/support/test.h"

static struct early_stop judge_all(const struct stop_rule *rule, const double *value, size_t count)
{
    struct early_stop state = {0};
    for (size_t i = 0; i < count; i++) {
        early_stop_judge(rule, 10 * (int64_t)(i + 1), value[i], &state);
    }
    return state;
}

static void patience_counts_evaluations_that_are_not_better_than_the_best(void **state)
{
    (void)state;
    const struct stop_rule rule = {.metric = JUDGED_TEST_ACCURACY, .patience = 2};
    const double values[] = {0.5, 0.4, 0.6, 0.6, 0.55, 0.9};
    struct early_stop judged = judge_all(&rule, values, 4);
    assert_false(judged.met);
    assert_int_equal(judged.best_version, 30);
    assert_int_equal(judged.since, 1);
    judged = judge_all(&rule, values, 6);
    assert_true(judged.met);
    assert_int_equal(judged.version, 50); /* nothing counts after the end */
    assert_int_equal(judged.since, 2);
    assert_int_equal(early_stop_last(&judged, 1000), 50);
    assert_int_equal(early_stop_last(&judged, 40), 40);
}

static void a_loss_is_better_if_it_is_less(void **state)
{
    (void)state;
    const struct stop_rule rule = {.metric = JUDGED_TEST_LOSS, .patience = 1, .target = 0.1};
    const double values[] = {2.0, 1.0, 0.1};
    struct early_stop judged = judge_all(&rule, values, 2);
    assert_false(judged.met);
    judged = judge_all(&rule, values, 3);
    assert_true(judged.met);
    assert_int_equal(judged.best_version, 30);
    assert_int_equal(early_stop_last(&(struct early_stop){0}, 1000), 1000);
}

static void a_target_is_met_by_the_first_value_that_reaches_it(void **state)
{
    (void)state;
    const struct stop_rule rule = {.metric = JUDGED_RECALL, .target = 0.9};
    const double values[] = {0.1, 0.95, 0.99};
    struct early_stop judged = judge_all(&rule, values, 3);
    assert_true(judged.met);
    assert_int_equal(judged.version, 20);
}

static void a_value_that_is_no_number_is_never_better(void **state)
{
    (void)state;
    const struct stop_rule rule = {.metric = JUDGED_TEST_LOSS, .patience = 3, .target = 0.5};
    const double values[] = {NAN, -INFINITY, INFINITY};
    struct early_stop judged = judge_all(&rule, values, 2);
    assert_false(judged.met);
    assert_int_equal(judged.best_version, 0);
    assert_int_equal(judged.since, 2);
    judged = judge_all(&rule, values, 3);
    assert_true(judged.met);
}

static void a_version_is_judged_once(void **state)
{
    (void)state;
    const struct stop_rule rule = {.metric = JUDGED_TEST_ACCURACY, .patience = 2};
    struct early_stop judged = {0};
    early_stop_judge(&rule, 20, 0.5, &judged);
    early_stop_judge(&rule, 20, 0.4, &judged);
    early_stop_judge(&rule, 10, 0.9, &judged);
    assert_int_equal(judged.version, 20);
    assert_int_equal(judged.best_version, 20);
    assert_int_equal(judged.since, 0);
}

static void every_judged_metric_is_one_that_agents_report(void **state)
{
    (void)state;
    for (int metric = 0; judged_metric_names[metric]; metric++) {
        assert_string_equal(judged_metric_names[metric],
                            metric_name_names[judged_metric_of(metric)]);
    }
}

static void no_version_counts_beyond_an_evaluation_that_is_not_judged(void **state)
{
    (void)state;
    struct job job = {.spec = {.batch = 10, .evaluate_every_epochs = 1, .has_stop = true},
                      .data = {.train_samples = 100, .test_samples = 10}};
    assert_true(job_has_judged(&job, 10));
    assert_false(job_has_judged(&job, 11));
    job.early_stop.version = 10;
    assert_true(job_has_judged(&job, 20));
    assert_false(job_has_judged(&job, 21));
    job.spec.has_stop = false;
    assert_true(job_has_judged(&job, 1000));
}

static void checkpoints_are_due_by_epochs(void **state)
{
    (void)state;
    struct job_spec spec = {.batch = 10, .has_checkpoint = true, .checkpoint = {.every_epochs = 2}};
    const struct job_data data = {.train_samples = 105};
    assert_int_equal(job_checkpoint_steps(&spec, &data), 20);
    assert_false(job_checkpoint_due(&spec, &data, 0));
    assert_false(job_checkpoint_due(&spec, &data, 10));
    assert_true(job_checkpoint_due(&spec, &data, 40));
    assert_true(job_center_rounds(&spec));
    spec.has_checkpoint = false;
    assert_false(job_checkpoint_due(&spec, &data, 40));
    assert_false(job_center_rounds(&spec));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patience_counts_evaluations_that_are_not_better_than_the_best),
        cmocka_unit_test(a_loss_is_better_if_it_is_less),
        cmocka_unit_test(a_target_is_met_by_the_first_value_that_reaches_it),
        cmocka_unit_test(a_value_that_is_no_number_is_never_better),
        cmocka_unit_test(a_version_is_judged_once),
        cmocka_unit_test(every_judged_metric_is_one_that_agents_report),
        cmocka_unit_test(no_version_counts_beyond_an_evaluation_that_is_not_judged),
        cmocka_unit_test(checkpoints_are_due_by_epochs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
