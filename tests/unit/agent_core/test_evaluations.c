#include "agent/core/evaluations.h"
#include "schema/job_check.h"
#include "tests/support/test.h"

static struct job_spec spec;

static void assert_part(const struct job_data *data, size_t index, bool held, size_t first,
                        size_t count)
{
    const struct evaluations_part part = evaluations_part(data, 10, index);
    assert_int_equal(part.held, held);
    assert_int_equal(part.first, first);
    assert_int_equal(part.count, count);
}

static void the_hold_out_follows_the_test_set_in_micro_batches_of_its_own(void **state)
{
    (void)state;
    const struct job_data data = {.test_samples = 21, .holdout_samples = 12};
    spec.evaluate_every_epochs = 1;
    assert_int_equal(evaluations_batches(&spec, &data, 10), 5);
    assert_part(&data, 1, false, 10, 10);
    assert_part(&data, 2, false, 20, 1);
    assert_part(&data, 3, true, 0, 10);
    assert_part(&data, 4, true, 10, 2);
}

static void either_of_them_may_be_missing(void **state)
{
    (void)state;
    const struct job_data held = {.holdout_samples = 12}, tests = {.test_samples = 20}, none = {0};
    spec.evaluate_every_epochs = 1;
    assert_int_equal(evaluations_batches(&spec, &held, 10), 2);
    assert_part(&held, 1, true, 10, 2);
    assert_int_equal(evaluations_batches(&spec, &tests, 10), 2);
    assert_part(&tests, 1, false, 10, 10);
    assert_int_equal(evaluations_batches(&spec, &none, 10), 0);
    spec.evaluate_every_epochs = 0;
    assert_int_equal(evaluations_batches(&spec, &tests, 10), 0);
}

static void epochs_of_a_view_are_those_of_evaluations(void **state)
{
    (void)state;
    struct job_data data = {.train_samples = 1000, .test_samples = 1};
    spec = (struct job_spec){.batch = 32, .evaluate_every_epochs = 2};
    assert_int_equal(job_evaluate_steps(&spec, &data), 62);
    data.epoch_samples = 100;
    assert_int_equal(job_evaluate_steps(&spec, &data), 6);
    data.test_samples = 0;
    assert_int_equal(job_evaluate_steps(&spec, &data), 0);
    data.holdout_samples = 1;
    assert_int_equal(job_evaluate_steps(&spec, &data), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hold_out_follows_the_test_set_in_micro_batches_of_its_own),
        cmocka_unit_test(either_of_them_may_be_missing),
        cmocka_unit_test(epochs_of_a_view_are_those_of_evaluations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
