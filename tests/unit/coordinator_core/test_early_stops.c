/* What the core takes of the judgements that stages report, and where a job ends by them. */
#include "coordinator/core/generation/early_stops.h"

#include <math.h>
#include <string.h>

#include "schema/heartbeat.h"
#include "tests/support/test.h"
#include "tests/unit/coordinator_core/one_job.h"

static struct one_job *stops(int metric, int64_t patience, double target)
{
    const struct job_spec spec = {
        .has_stop = true, .stop = {.metric = metric, .patience = patience, .target = target}};
    return one_job_new(12, &spec);
}

static void report(struct one_job *one, const struct early_stop *judged)
{
    const struct heartbeat heartbeat = {.has_early_stop = true, .early_stop = *judged};
    early_stops_take(one->core, one->job, &heartbeat);
}

/* What an honest stage reports after the evaluations of the first epochs. */
static struct early_stop judge(const struct one_job *one, const double *value, size_t count)
{
    struct early_stop judged = {0};
    for (size_t i = 0; i < count; i++) {
        early_stop_judge(&one->job->job.spec.stop, 10 * (int64_t)(i + 1), value[i], &judged);
    }
    return judged;
}

static void a_rule_that_is_met_sets_the_last_step_and_says_why(void **state)
{
    (void)state;
    const double values[] = {0.5, 0.6, 0.6, 0.55};
    struct one_job *one = stops(JUDGED_TEST_ACCURACY, 2, 0);
    char reason[MESSAGE_SIZE];
    assert_int_equal(one->job->total_steps, 120);
    struct early_stop judged = judge(one, values, 3);
    report(one, &judged);
    assert_int_equal(one->job->total_steps, 120);
    assert_false(early_stops_reason(one->job, reason));
    judged = judge(one, values, 4);
    report(one, &judged);
    assert_int_equal(one->job->total_steps, 40);
    assert_true(early_stops_reason(one->job, reason));
    assert_string_equal(reason, "stopped at step 40: test_accuracy was not better than 0.6 of step "
                                "20 in 2 evaluations");
    assert_int_equal(one_job_count(one, ACTION_PUBLISH), 1);
    report(one, &judged); /* each stage reports it, with each heartbeat */
    assert_int_equal(one_job_count(one, ACTION_PUBLISH), 1);
    one_job_free(one);
}

static void a_target_names_the_value_that_reaches_it(void **state)
{
    (void)state;
    const double values[] = {2.0, 0.125};
    struct one_job *one = stops(JUDGED_TEST_LOSS, 0, 0.25);
    char reason[MESSAGE_SIZE];
    const struct early_stop judged = judge(one, values, 2);
    report(one, &judged);
    assert_true(early_stops_reason(one->job, reason));
    assert_string_equal(reason, "stopped at step 20: test_loss 0.125 reaches the target 0.25");
    one_job_free(one);
}

static void values_that_are_no_numbers_end_by_patience(void **state)
{
    (void)state;
    const double values[] = {NAN, INFINITY};
    struct one_job *one = stops(JUDGED_TEST_LOSS, 2, 0);
    char reason[MESSAGE_SIZE];
    const struct early_stop judged = judge(one, values, 2);
    report(one, &judged);
    assert_true(early_stops_reason(one->job, reason));
    assert_string_equal(reason, "stopped at step 20: test_loss is not a number");
    one_job_free(one);
}

static void a_rule_that_the_last_evaluation_meets_ends_nothing_early(void **state)
{
    (void)state;
    struct one_job *one = stops(JUDGED_TEST_ACCURACY, 3, 0);
    char reason[MESSAGE_SIZE];
    const struct early_stop judged = {
        .version = 120, .best_version = 90, .best = 0.5, .since = 3, .met = true};
    report(one, &judged);
    assert_int_equal(one->job->total_steps, 120);
    assert_false(early_stops_reason(one->job, reason));
    one_job_free(one);
}

static void judgements_that_the_rule_does_not_allow_are_ignored(void **state)
{
    (void)state;
    const struct early_stop wrong[] = {
        {.version = 40, .best_version = 30, .best = 0.5, .since = 1, .met = true},
        {.version = 40, .best_version = 20, .best = 0.5, .since = 2, .met = false},
        {.version = 40, .best_version = 40, .best = 0.5, .since = 0, .met = true},
        {.version = 40, .best_version = 40, .best = 0.9, .since = 0, .met = false},
        {.version = 45, .best_version = 40, .best = 0.5, .since = 1},
        {.version = 130, .best_version = 40, .best = 0.5, .since = 1},
        {.version = 40, .best_version = 50, .best = 0.5, .since = 1},
        {.version = 40, .best_version = 40, .best = NAN},
        {.version = 0},
    };
    struct one_job *one = stops(JUDGED_TEST_ACCURACY, 2, 0.8);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        report(one, &wrong[i]);
        assert_false(one->job->job.has_early_stop);
        assert_int_equal(one->job->total_steps, 120);
    }
    one->job->job.spec.has_stop = false; /* a job without a rule is not judged at all */
    report(one, &(struct early_stop){.version = 40, .best_version = 40, .best = 0.5});
    assert_false(one->job->job.has_early_stop);
    one_job_free(one);
}

static void a_judgement_is_not_taken_back(void **state)
{
    (void)state;
    const double values[] = {0.5, 0.6, 0.7};
    struct one_job *one = stops(JUDGED_TEST_ACCURACY, 2, 0);
    struct early_stop judged = judge(one, values, 3);
    report(one, &judged);
    judged = judge(one, values, 2); /* a stage that trains earlier steps again */
    report(one, &judged);
    assert_int_equal(one->job->job.early_stop.version, 30);
    one_job_free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_that_is_met_sets_the_last_step_and_says_why),
        cmocka_unit_test(a_target_names_the_value_that_reaches_it),
        cmocka_unit_test(values_that_are_no_numbers_end_by_patience),
        cmocka_unit_test(a_rule_that_the_last_evaluation_meets_ends_nothing_early),
        cmocka_unit_test(judgements_that_the_rule_does_not_allow_are_ignored),
        cmocka_unit_test(a_judgement_is_not_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
