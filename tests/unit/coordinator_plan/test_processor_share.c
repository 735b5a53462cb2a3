/* Devices that have their processor for a part of the time. */
#include "coordinator/plan/partition.h"

#include "tests/support/test.h"
#include "tests/unit/coordinator_plan/sample.h"

static struct sample sample;
static struct partition_scratch *scratch;

static void divide(double *values, size_t count, double share)
{
    for (size_t i = 0; i < count; i++) {
        values[i] /= share;
    }
}

/* The search takes the times of a device as if they were longer by its share. What is played is at
 * most as long: short work runs freely. */
static void the_search_stretches_all_work(void **state)
{
    (void)state;
    struct draws draws = draws_of(11, 110);
    double share[SAMPLE_DEVICES];
    size_t solved = 0;
    for (int trial = 0; trial < 100; trial++) {
        struct partition_problem *problem = &sample.problem;
        struct partition_plan with, without;
        struct err err = {0};
        sample_draw(&sample, &draws, 8, 4, 6, 2);
        for (size_t d = 0; d < problem->device_count; d++) {
            share[d] = 0.1 + 0.3 * (double)(d % 4);
        }
        problem->processor_share = share;
        if (partition_solve(problem, scratch, &with, &err) != 0) {
            continue;
        }
        struct partition_plan played = with;
        partition_play(problem, scratch, &played);
        assert_true(played.step_seconds <= with.step_seconds * (1 + 1e-9));
        for (size_t d = 0; d < problem->device_count; d++) {
            const size_t units = problem->unit_count;
            divide(sample.forward + d * units, units, share[d]);
            divide(sample.backward + d * units, units, share[d]);
            divide(sample.update + d * units, units, share[d]);
            divide(sample.overhead + d, 1, share[d]);
            divide(sample.overhead_per_byte + d, 1, share[d]);
        }
        problem->processor_share = NULL;
        assert_ok(partition_solve(problem, scratch, &without, &err), &err);
        assert_close(&with.step_seconds, &without.step_seconds, 1, 1e-9);
        solved++;
    }
    assert_true(solved > 50);
}

/* Equal devices but for their shares are of different kinds. */
static void a_device_with_half_a_processor_gets_fewer_units(void **state)
{
    (void)state;
    struct partition_plan plan;
    struct err err = {0};
    static const double share[] = {1, 0.5};
    sample_init(&sample, 9, 2, 8);
    sample.problem.processor_share = share;
    sample.problem.stages_min = 2;
    assert_ok(partition_solve(&sample.problem, scratch, &plan, &err), &err);
    const size_t first = plan.end[0], second = 9 - first;
    assert_int_equal(plan.device[0] == 0 ? first : second, 6);
}

int main(void)
{
    struct err err = {0};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_search_stretches_all_work),
        cmocka_unit_test(a_device_with_half_a_processor_gets_fewer_units),
    };
    if (partition_scratch_new(&scratch, &err) != 0) {
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    partition_scratch_free(&scratch);
    return failed;
}
