/* A search that another thread ends. */
#include <stdint.h>

#include "tests/support/test.h"
#include "tests/unit/coordinator_plan/sample.h"

static struct partition_scratch *scratch;
static struct sample sample;
static struct partition_plan plan;

/* Another thread cancels at a question for a stage's memory. */
static struct {
    uint64_t (*memory)(void *arg, size_t device, size_t first, size_t end, size_t in_flight,
                       size_t stage_count);
    _Atomic bool cancelled;
    size_t until, asked, after;
} ending;

static uint64_t cancelling_memory(void *arg, size_t device, size_t first, size_t end,
                                  size_t in_flight, size_t stage_count)
{
    ending.after += ending.cancelled;
    ending.cancelled = ++ending.asked >= ending.until;
    return ending.memory(arg, device, first, end, in_flight, stage_count);
}

static int solve_until(size_t until)
{
    struct err err = {0};
    ending.until = until;
    ending.asked = ending.after = 0;
    ending.cancelled = false;
    return partition_solve(&sample.problem, scratch, &plan, &err);
}

static void a_cancelled_search_ends_at_once_without_a_plan(void **state)
{
    (void)state;
    sample_init(&sample, 100, 10, 8);
    for (size_t d = 0; d < 10; d++) {
        sample_slow_down(&sample, d, 1 + 0.3 * (double)d);
        sample.cap[d] = 1000; /* so that memory is asked for */
    }
    sample.problem.work_max = 300000;
    ending.memory = sample.problem.stage_memory;
    sample.problem.stage_memory = cancelling_memory;
    sample.problem.cancelled = &ending.cancelled;
    assert_int_equal(solve_until(SIZE_MAX), 0);
    const size_t whole = ending.asked;
    for (size_t part = 1; part <= 4; part++) {
        assert_int_equal(solve_until(whole * part / 8), ERR_CANCELLED);
        assert_true(ending.after <= PARTITION_STAGES_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cancelled_search_ends_at_once_without_a_plan),
    };
    struct err err = {0};
    if (partition_scratch_new(&scratch, &err) != 0) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    partition_scratch_free(&scratch);
    return failed;
}
