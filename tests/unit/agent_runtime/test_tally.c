/* The sum of an evaluation: means over the data sets, recalls of a view's classes, and what a job
 * does not have. */
#include <math.h>
#include <string.h>

#include "agent/runtime/tally.h"
#include "schema/early_stop.h"
#include "tests/support/test.h"

#define CLASSES 3
#define TESTS 8
#define LABELS 2 /* of a sample */

struct heard {
    double value[(METRIC_LEAST_RECALL + 1)];
    int count[(METRIC_LEAST_RECALL + 1)];
};

static void hear(void *arg, const struct metric *metric)
{
    struct heard *heard = arg;
    assert_int_equal(metric->step, 40);
    heard->value[metric->name] = metric->value;
    heard->count[metric->name]++;
}

static struct heard report(const struct tally *tally)
{
    struct heard heard = {{0}, {0}};
    const struct work_listener listener = {.metric = hear, .arg = &heard};
    tally_report(tally, &listener, 40);
    return heard;
}

static struct tally *make(const struct job_spec *spec, int64_t tests, int64_t held)
{
    const struct tally_config config = {.spec = spec,
                                        .test_samples = tests,
                                        .held_samples = held,
                                        .labels = LABELS,
                                        .classes = CLASSES};
    struct tally *tally = NULL;
    struct err err = {0};
    assert_ok(tally_new(&config, &tally, &err), &err);
    return tally;
}

static void a_test_set_gives_loss_and_accuracy(void **state)
{
    (void)state;
    const struct job_spec spec = job_spec_default;
    struct tally *tally = make(&spec, TESTS, 0);
    assert_int_equal(tally_numbers(tally), TALLY_CLASSES);
    for (int again = 0; again < 2; again++) { /* begin forgets */
        tally_begin(tally);
        tally_add(tally, (const double[]){3, 4});
        tally_add(tally, (const double[]){1, 8});
        assert_true(tally_metric(tally, JUDGED_TEST_LOSS) == 4.0 / TESTS);
        assert_true(tally_metric(tally, JUDGED_TEST_ACCURACY) == 12.0 / TESTS / LABELS);
        assert_true(isnan(tally_metric(tally, JUDGED_RECALL)));
    }
    const struct heard heard = report(tally);
    assert_true(heard.value[METRIC_TEST_LOSS] == 0.5);
    assert_true(heard.value[METRIC_TEST_ACCURACY] == 0.75);
    assert_int_equal(heard.count[METRIC_RECALL] + heard.count[METRIC_LEAST_RECALL], 0);
    tally_free(&tally);
    assert_null(tally);
}

static void a_hold_out_gives_recalls(void **state)
{
    (void)state;
    struct job_spec spec = job_spec_default;
    spec.view.class_count = 2; /* of the model's three, one of others */
    struct tally *tally = make(&spec, 0, 30);
    assert_int_equal(tally_numbers(tally), TALLY_CLASSES + 2 * CLASSES);
    tally_begin(tally);
    tally_add(tally, (const double[]){0, 0, 10, 4, 0, 5, 1, 0});
    tally_add(tally, (const double[]){0, 0, 10, 5, 0, 10, 2, 0});
    assert_true(tally_metric(tally, JUDGED_RECALL) == (15.0 / 20 + 3.0 / 9) / 2);
    assert_true(isnan(tally_metric(tally, JUDGED_TEST_LOSS)));
    assert_true(isnan(tally_metric(tally, JUDGED_TEST_ACCURACY)));
    struct heard heard = report(tally);
    assert_true(heard.value[METRIC_RECALL] == (15.0 / 20 + 3.0 / 9) / 2);
    /* Nine samples of the second class tell too little. */
    assert_true(heard.value[METRIC_LEAST_RECALL] == 0.75);
    assert_int_equal(heard.count[METRIC_TEST_LOSS] + heard.count[METRIC_TEST_ACCURACY], 0);
    tally_add(tally, (const double[]){0, 0, 0, 1, 0, 0, 0, 0});
    heard = report(tally);
    assert_true(heard.value[METRIC_LEAST_RECALL] == 3.0 / 10);
    tally_begin(tally);
    tally_add(tally, (const double[]){0, 0, 9, 9, 0, 0, 0, 0});
    heard = report(tally);
    assert_int_equal(heard.count[METRIC_LEAST_RECALL], 0);
    assert_true(heard.value[METRIC_RECALL] == 0);
    tally_free(&tally);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_test_set_gives_loss_and_accuracy),
        cmocka_unit_test(a_hold_out_gives_recalls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
