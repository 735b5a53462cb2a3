/* Which classes and which share of the channels each group gets: rules, and brute force. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tests/support/test.h"
#include "tests/unit/coordinator_core/class_problems.h"

#define CASES 400
#define BRUTE_CLASSES_MAX 8

/* The speeds of the devices of a queue of groups. */
static void queue_speeds(const double *device, size_t device_count, size_t group_count,
                         double *speed)
{
    size_t place[GROUPS_MAX], among[GROUPS_MAX];
    class_groups_queue(device, device_count, group_count, place, among);
    for (size_t g = 0; g < group_count; g++) {
        speed[g] = device[place[g]] / (double)among[g];
    }
}

static void assert_divided(const struct class_problem *problem, const struct class_groups *groups)
{
    int64_t served[COUNTED_CLASSES_MAX] = {0};
    int64_t width = 0;
    for (size_t g = 0; g < groups->count; g++) {
        const struct class_group *group = &groups->group[g];
        assert_true(group->class_count >= GROUP_CLASSES_MIN);
        assert_true(group->width >= problem->width_min - 1e-9);
        width += llround(group->width * WIDTH_UNITS);
        for (int64_t c = 0; c < group->class_count; c++) {
            served[groups->class_of[group->class_first + c]]++;
        }
    }
    for (size_t c = 0; c < problem->class_count; c++) {
        assert_int_equal(served[c], (int64_t)problem->replicas);
    }
    assert_int_equal(width, WIDTH_UNITS);
}

static void the_count_follows_devices_and_classes(void **state)
{
    (void)state;
    assert_int_equal(class_groups_count(10, 5), 5);
    assert_int_equal(class_groups_count(10, 6), 5);
    assert_int_equal(class_groups_count(10, 0), 2);
    assert_int_equal(class_groups_count(100, 40), 16);
    assert_int_equal(class_groups_count(3, 4), 0);
}

static void equal_classes_and_devices_give_equal_groups(void **state)
{
    (void)state;
    int64_t samples[10];
    const double speed[5] = {1, 1, 1, 1, 1};
    for (size_t c = 0; c < 10; c++) {
        samples[c] = 600;
    }
    struct class_setting setting = {.samples = samples, .classes = 10, .speed = speed, .groups = 5};
    const struct class_problem problem = class_problem_of(&setting);
    static struct class_groups groups;
    struct err err = {0};
    assert_ok(class_groups_solve(&problem, &groups, &err), &err);
    assert_divided(&problem, &groups);
    for (size_t g = 0; g < 5; g++) {
        assert_int_equal(groups.group[g].class_count, 2);
        assert_true(fabs(groups.group[g].width - 0.2) < 1e-9);
    }
}

static void with_two_classes_each_the_widths_follow_the_speeds(void **state)
{
    (void)state;
    int64_t samples[10];
    const double speed[5] = {5, 5, 2.5, 1.7, 1};
    for (size_t c = 0; c < 10; c++) {
        samples[c] = 600;
    }
    struct class_setting setting = {.samples = samples, .classes = 10, .speed = speed, .groups = 5};
    const struct class_problem problem = class_problem_of(&setting);
    static struct class_groups groups;
    struct err err = {0};
    assert_ok(class_groups_solve(&problem, &groups, &err), &err);
    assert_divided(&problem, &groups);
    double least = INFINITY, most = 0;
    for (size_t g = 0; g < 5; g++) {
        const double seconds = class_problem_load(&problem, &groups, g);
        least = fmin(least, seconds);
        most = fmax(most, seconds);
    }
    assert_true(groups.group[0].width > groups.group[4].width);
    assert_true(least > 0.95 * most);
}

static void many_classes_follow_the_speeds(void **state)
{
    (void)state;
    int64_t samples[60];
    const double speed[5] = {5, 5, 2.5, 1.7, 1};
    for (size_t c = 0; c < 60; c++) {
        samples[c] = 50;
    }
    struct class_setting setting = {.samples = samples, .classes = 60, .speed = speed, .groups = 5};
    const struct class_problem problem = class_problem_of(&setting);
    static struct class_groups groups;
    struct err err = {0};
    assert_ok(class_groups_solve(&problem, &groups, &err), &err);
    assert_divided(&problem, &groups);
    assert_true(groups.group[0].class_count > 3 * groups.group[4].class_count);
}

static void replicas_share_each_class_between_two_groups(void **state)
{
    (void)state;
    int64_t samples[10];
    const double speed[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (size_t c = 0; c < 10; c++) {
        samples[c] = 100 + (int64_t)c;
    }
    struct class_setting setting = {
        .samples = samples, .classes = 10, .speed = speed, .groups = 4, .replicas = 2};
    const struct class_problem problem = class_problem_of(&setting);
    static struct class_groups groups;
    struct err err = {0};
    assert_ok(class_groups_solve(&problem, &groups, &err), &err);
    assert_int_equal(groups.count, 8);
    assert_divided(&problem, &groups);
}

/* ---- queues of groups ---- */

/* The part of the time until the last group ends in which devices have none. Groups begin in their
 * order, each on the fastest free device. error: of the predicted seconds, at most. */
static double idle_of(const struct class_problem *problem, const struct class_groups *groups,
                      const double *device, size_t device_count, double error)
{
    static uint64_t drawn;
    double one[GROUPS_MAX];
    const struct rng_stream stream = rng_stream(3, RNG_SIMULATION, 0, 0);
    struct class_setting setting = {.samples = problem->samples,
                                    .classes = problem->class_count,
                                    .speed = one,
                                    .groups = groups->count};
    for (size_t g = 0; g < groups->count; g++) {
        one[g] = 1;
    }
    const struct class_problem alone = class_problem_of(&setting);
    double free_at[GROUPS_MAX] = {0}, last = 0, busy = 0;
    for (size_t g = 0; g < groups->count; g++) {
        const double off = (double)rng_below(&stream, drawn++, 2001) / 1000 - 1;
        const double load = class_problem_load(&alone, groups, g) * (1 + error * off);
        size_t first = 0;
        for (size_t d = 1; d < device_count; d++) {
            first = free_at[d] < free_at[first] - 1e-9 * last ? d : first;
        }
        free_at[first] += load / device[first];
        last = fmax(last, free_at[first]);
    }
    for (size_t d = 0; d < device_count; d++) {
        busy += free_at[d];
    }
    return 1 - busy / (last * (double)device_count);
}

static double idle_with(const double *device, size_t device_count, size_t group_count,
                        size_t class_count)
{
    int64_t samples[COUNTED_CLASSES_MAX];
    double speed[GROUPS_MAX];
    for (size_t c = 0; c < class_count; c++) {
        samples[c] = 50;
    }
    queue_speeds(device, device_count, group_count, speed);
    struct class_setting setting = {
        .samples = samples, .classes = class_count, .speed = speed, .groups = group_count};
    const struct class_problem problem = class_problem_of(&setting);
    static struct class_groups groups;
    struct err err = {0};
    assert_ok(class_groups_solve(&problem, &groups, &err), &err);
    assert_divided(&problem, &groups);
    return idle_of(&problem, &groups, device, device_count, 0);
}

/* The mean over draws of errors. */
static double idle_by_error(const double *device, const double *speed, double error)
{
    int64_t samples[60];
    for (size_t c = 0; c < 60; c++) {
        samples[c] = 50;
    }
    struct class_setting setting = {.samples = samples, .classes = 60, .speed = speed, .groups = 8};
    const struct class_problem problem = class_problem_of(&setting);
    static struct class_groups groups;
    struct err err = {0};
    double sum = 0;
    assert_ok(class_groups_solve(&problem, &groups, &err), &err);
    for (int i = 0; i < CASES; i++) {
        sum += idle_of(&problem, &groups, device, 3, error);
    }
    return sum / CASES;
}

static void errors_of_predictions_leave_less_idle_than_equal_groups(void **state)
{
    (void)state;
    const double device[3] = {1, 1, 0.5}, equal[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    double speed[8];
    queue_speeds(device, 3, 8, speed);
    const double queued = idle_by_error(device, speed, 0.2);
    const double same = idle_by_error(device, equal, 0.2);
    print_message("8 groups on 3 devices, errors up to 20 %%: %.3f idle, equal groups %.3f\n",
                  queued, same);
    assert_true(queued < 0.1 && queued < 0.8 * same);
}

static void a_queue_of_groups_keeps_devices_busy(void **state)
{
    (void)state;
    const double equal[3] = {1, 1, 1}, unequal[3] = {1, 1, 0.5}, far[3] = {5, 2, 1};
    assert_true(idle_with(equal, 3, 8, 60) < 0.03);
    assert_true(idle_with(unequal, 3, 8, 60) < 0.03);
    assert_true(idle_with(far, 3, 8, 60) < 0.03);
    assert_true(idle_with(equal, 3, 8, 16) < 0.03);
    assert_true(idle_with(equal, 1, 5, 10) < 1e-9);
}

static void a_queue_divides_the_time_of_each_device(void **state)
{
    (void)state;
    const double device[3] = {4, 4, 2};
    double speed[5];
    queue_speeds(device, 3, 5, speed);
    const double expected[5] = {2, 2, 2, 2, 2};
    for (size_t g = 0; g < 5; g++) {
        assert_true(fabs(speed[g] - expected[g]) < 1e-12);
    }
    queue_speeds(device, 3, 2, speed);
    assert_true(speed[0] == 4 && speed[1] == 4);
}

/* Slowdowns of 2, 2, 4, 6 and 10. */
static const double five[5] = {1.0 / 2, 1.0 / 2, 1.0 / 4, 1.0 / 6, 1.0 / 10};

/* The seconds of the slowest group over those of the fastest. */
static double spread_of(size_t class_count)
{
    int64_t samples[60];
    for (size_t c = 0; c < class_count; c++) {
        samples[c] = 50;
    }
    struct class_setting setting = {
        .samples = samples, .classes = class_count, .speed = five, .groups = 5};
    const struct class_problem problem = class_problem_of(&setting);
    static struct class_groups groups;
    struct err err = {0};
    double least = INFINITY, most = 0;
    assert_ok(class_groups_solve(&problem, &groups, &err), &err);
    for (size_t g = 0; g < 5; g++) {
        const double seconds = class_problem_load(&problem, &groups, g);
        least = fmin(least, seconds);
        most = fmax(most, seconds);
    }
    return most / least;
}

static void seconds_of_groups_are_alike_on_unequal_devices(void **state)
{
    (void)state;
    assert_true(spread_of(60) < 1.25);
    assert_true(spread_of(10) < 1.25);
}

static void what_cannot_be_divided_is_rejected(void **state)
{
    (void)state;
    const int64_t samples[5] = {1, 1, 1, 1, 1};
    const double speed[3] = {1, 1, 1};
    static struct class_groups groups;
    struct err err = {0};
    struct class_setting setting = {.samples = samples, .classes = 5, .speed = speed, .groups = 3};
    struct class_problem problem = class_problem_of(&setting);
    assert_int_equal(class_groups_solve(&problem, &groups, &err), ERR_INVALID);
    assert_string_equal(err.text, "5 classes cannot be divided among 3 groups");
    problem.group_count = 2;
    problem.width_min = 0.6;
    assert_int_equal(class_groups_solve(&problem, &groups, &err), ERR_INVALID);
    assert_string_equal(err.text,
                        "2 groups are too many: each needs at least 0.600 of the channels");
}

/* Kernels of slices with less than 0.15 of the channels take longer: the slowest device is faster
 * with 0.15. */
static void a_width_that_is_computed_faster_is_preferred_to_a_smaller_one(void **state)
{
    (void)state;
    int64_t samples[10];
    for (size_t c = 0; c < 10; c++) {
        samples[c] = 600;
    }
    struct class_setting setting = {.samples = samples, .classes = 10, .speed = five, .groups = 5};
    const struct class_problem problem = class_problem_of(&setting);
    for (size_t g = 0; g < 5; g++) {
        for (size_t i = 0; i < setting.cost[g].count; i++) {
            const bool narrow = setting.cost[g].width[i] < 0.15;
            setting.cost[g].load[i] = narrow ? 0.3 / five[g] : setting.cost[g].load[i];
        }
    }
    static struct class_groups groups;
    struct err err = {0};
    double slow = 0, most = 0;
    assert_ok(class_groups_solve(&problem, &groups, &err), &err);
    assert_divided(&problem, &groups);
    for (size_t g = 0; g < 5; g++) {
        most = fmax(most, class_problem_load(&problem, &groups, g));
    }
    assert_true(groups.group[4].width > 0.15);
    groups.group[4].width = 0.12;
    slow = class_problem_load(&problem, &groups, 4);
    assert_true(most < slow);
}

/* ---- brute force ---- */

/* The best that any division of the classes gives, at equal widths. */
static double best_division(const struct class_problem *problem)
{
    size_t assigned[BRUTE_CLASSES_MAX] = {0};
    double best = INFINITY;
    for (;;) {
        double own[GROUPS_MAX] = {0}, slowest = 0;
        size_t count[GROUPS_MAX] = {0};
        bool allowed = true;
        for (size_t c = 0; c < problem->class_count; c++) {
            own[assigned[c]] += (double)problem->samples[c];
            count[assigned[c]]++;
        }
        for (size_t g = 0; g < problem->group_count; g++) {
            allowed = allowed && count[g] >= GROUP_CLASSES_MIN;
            slowest = fmax(slowest,
                           class_loads_of(problem, g, own[g], 1.0 / (double)problem->group_count));
        }
        best = allowed ? fmin(best, slowest) : best;
        size_t at = 0;
        while (at < problem->class_count && ++assigned[at] == problem->group_count) {
            assigned[at++] = 0;
        }
        if (at == problem->class_count) {
            return best;
        }
    }
}

static double division_of(const struct class_problem *problem, struct class_groups *groups)
{
    for (size_t g = 0; g < groups->count; g++) {
        groups->group[g].width = 1.0 / (double)groups->count;
    }
    return class_problem_slowest(problem, groups);
}

static void divisions_are_near_the_best(void **state)
{
    (void)state;
    const struct rng_stream stream = rng_stream(1, RNG_SIMULATION, 0, 0);
    uint64_t drawn = 0;
    double sum = 0;
    for (int i = 0; i < CASES; i++) {
        int64_t samples[BRUTE_CLASSES_MAX];
        double speed[GROUPS_MAX];
        const size_t groups = 2 + (size_t)rng_below(&stream, drawn++, 2);
        const size_t classes =
            2 * groups + (size_t)rng_below(&stream, drawn++, BRUTE_CLASSES_MAX - 2 * groups + 1);
        for (size_t c = 0; c < classes; c++) {
            samples[c] = 1 + (int64_t)rng_below(&stream, drawn++, 100);
        }
        for (size_t g = 0; g < groups; g++) {
            speed[g] = 1 + (double)rng_below(&stream, drawn++, 5);
        }
        struct class_setting setting = {
            .samples = samples, .classes = classes, .speed = speed, .groups = groups};
        const struct class_problem problem = class_problem_of(&setting);
        static struct class_groups found;
        struct err err = {0};
        assert_ok(class_groups_solve(&problem, &found, &err), &err);
        assert_divided(&problem, &found);
        const double ratio = division_of(&problem, &found) / best_division(&problem);
        assert_true(ratio > 1 - 1e-9 && ratio < 1.34);
        sum += ratio;
    }
    assert_true(sum / CASES < 1.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_count_follows_devices_and_classes),
        cmocka_unit_test(equal_classes_and_devices_give_equal_groups),
        cmocka_unit_test(with_two_classes_each_the_widths_follow_the_speeds),
        cmocka_unit_test(many_classes_follow_the_speeds),
        cmocka_unit_test(replicas_share_each_class_between_two_groups),
        cmocka_unit_test(a_queue_of_groups_keeps_devices_busy),
        cmocka_unit_test(errors_of_predictions_leave_less_idle_than_equal_groups),
        cmocka_unit_test(a_queue_divides_the_time_of_each_device),
        cmocka_unit_test(seconds_of_groups_are_alike_on_unequal_devices),
        cmocka_unit_test(a_width_that_is_computed_faster_is_preferred_to_a_smaller_one),
        cmocka_unit_test(what_cannot_be_divided_is_rejected),
        cmocka_unit_test(divisions_are_near_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
