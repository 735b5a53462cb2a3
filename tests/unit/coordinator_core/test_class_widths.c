/* Which share of the channels each group gets, and what the memory of devices leaves them: brute
 * force. */
#include <math.h>

#include "base/rng.h"
#include "tests/support/test.h"
#include "tests/unit/coordinator_core/class_problems.h"

#define CASES 100

static bool is_held(const struct class_problem *problem, const struct class_groups *groups)
{
    bool held = true;
    for (size_t g = 0; g < groups->count; g++) {
        const double most = problem->cost[g].width_max;
        held = held && (most == 0 || groups->group[g].width <= most + 1e-9);
    }
    return held;
}

/* The best widths of three groups on a grid of hundredths. */
static double best_widths(const struct class_problem *problem, struct class_groups *groups)
{
    double best = INFINITY;
    for (int a = 2; a < 97; a++) {
        for (int b = 2; a + b <= 98; b++) {
            groups->group[0].width = a / 100.0;
            groups->group[1].width = b / 100.0;
            groups->group[2].width = (100 - a - b) / 100.0;
            best = fmin(best, is_held(problem, groups) ? class_problem_slowest(problem, groups)
                                                       : INFINITY);
        }
    }
    return best;
}

/* In half of the cases two of the three devices have memory for a part of the channels. */
static void widths_are_the_best(void **state)
{
    (void)state;
    const struct rng_stream stream = rng_stream(2, RNG_SIMULATION, 0, 0);
    uint64_t drawn = 0;
    for (int i = 0; i < CASES; i++) {
        int64_t samples[6];
        double speed[3], width_max[3];
        for (size_t c = 0; c < 6; c++) {
            samples[c] = 1 + (int64_t)rng_below(&stream, drawn++, 100);
        }
        for (size_t g = 0; g < 3; g++) {
            speed[g] = 1 + (double)rng_below(&stream, drawn++, 9);
            width_max[g] = g == 0 ? 1 : 0.02 + (double)rng_below(&stream, drawn++, 40) / 100;
        }
        struct class_setting setting = {.samples = samples,
                                        .classes = 6,
                                        .speed = speed,
                                        .groups = 3,
                                        .width_max = i % 2 == 0 ? width_max : NULL};
        const struct class_problem problem = class_problem_of(&setting);
        static struct class_groups groups;
        struct err err = {0};
        assert_ok(class_groups_solve(&problem, &groups, &err), &err);
        assert_true(is_held(&problem, &groups));
        const double found = class_problem_slowest(&problem, &groups);
        const double best = best_widths(&problem, &groups);
        assert_true(found < best * 1.01);
    }
}

static void devices_must_have_memory_for_all_channels(void **state)
{
    (void)state;
    const int64_t samples[6] = {5, 5, 5, 5, 5, 5};
    const double speed[3] = {3, 2, 1};
    const double enough[3] = {0.5, 0.2, 0.3}, less[3] = {0.5, 0.199, 0.3};
    static struct class_groups groups;
    struct err err = {0};
    struct class_setting setting = {
        .samples = samples, .classes = 6, .speed = speed, .groups = 3, .width_max = enough};
    struct class_problem problem = class_problem_of(&setting);
    assert_ok(class_groups_solve(&problem, &groups, &err), &err);
    for (size_t g = 0; g < 3; g++) {
        assert_true(fabs(groups.group[g].width - enough[g]) < 1e-9);
    }
    setting.width_max = less;
    problem = class_problem_of(&setting);
    assert_int_equal(class_groups_solve(&problem, &groups, &err), ERR_MEMORY);
    assert_string_equal(err.text, "the devices of 3 groups have memory for 0.999 of the channels");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widths_are_the_best),
        cmocka_unit_test(devices_must_have_memory_for_all_channels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
