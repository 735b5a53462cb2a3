/* Classes of groups that queue for devices are exchanged where the slices' channels, which are
 * whole numbers, leave devices unequally busy. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tests/support/test.h"
#include "tests/unit/coordinator_core/class_problems.h"

#define CASES 200
#define GROUPS 8
#define DEVICES 3
#define CLASSES 60
#define CHANNELS 32 /* of the layer that decides how exact widths are */

static const double speed_of_device[DEVICES] = {1.0 / 2, 1.0 / 4, 1.0 / 6};

struct queue {
    int64_t samples[CLASSES];
    size_t place[GROUPS], among[GROUPS];
    double speed[GROUPS];
    struct class_setting setting;
    struct class_problem problem;
    struct class_groups groups;
};

/* Groups on three devices whose widths are whole numbers of channels, up to one off. */
static void make(struct queue *queue, const struct rng_stream *stream, uint64_t *drawn)
{
    struct err err = {0};
    class_groups_queue(speed_of_device, DEVICES, GROUPS, queue->place, queue->among);
    for (size_t c = 0; c < CLASSES; c++) {
        queue->samples[c] = 40 + (int64_t)rng_below(stream, (*drawn)++, 20);
    }
    for (size_t g = 0; g < GROUPS; g++) {
        queue->speed[g] = speed_of_device[queue->place[g]] / (double)queue->among[g];
    }
    queue->setting = (struct class_setting){
        .samples = queue->samples, .classes = CLASSES, .speed = queue->speed, .groups = GROUPS};
    queue->problem = class_problem_of(&queue->setting);
    queue->problem.device = queue->place;
    assert_ok(class_groups_solve(&queue->problem, &queue->groups, &err), &err);
    for (size_t g = 0; g < GROUPS; g++) {
        const double off = (double)rng_below(stream, (*drawn)++, 3) - 1;
        const double channels = round(queue->groups.group[g].width * CHANNELS) + off;
        queue->groups.group[g].width = channels / CHANNELS;
    }
}

/* How long the device takes for its groups. */
static double busy_of(const struct queue *queue, const struct class_groups *groups, size_t device)
{
    double busy = 0;
    for (size_t g = 0; g < GROUPS; g++) {
        const double own = class_loads_own(&queue->problem, groups, g);
        const double load = class_loads_of(&queue->problem, g, own, groups->group[g].width);
        busy += queue->place[g] == device ? load / (double)queue->among[g] : 0;
    }
    return busy;
}

static double slowest_of(const struct queue *queue, const struct class_groups *groups)
{
    double most = 0;
    for (size_t d = 0; d < DEVICES; d++) {
        most = fmax(most, busy_of(queue, groups, d));
    }
    return most;
}

static double idle_of(const struct queue *queue, const struct class_groups *groups)
{
    double sum = 0;
    for (size_t d = 0; d < DEVICES; d++) {
        sum += busy_of(queue, groups, d);
    }
    return 1 - sum / (DEVICES * slowest_of(queue, groups));
}

static void assert_groups(const struct queue *queue, const struct class_groups *groups)
{
    bool served[CLASSES] = {false};
    int64_t first = 0;
    for (size_t g = 0; g < GROUPS; g++) {
        const struct class_group *group = &groups->group[g];
        assert_true(group->width == queue->groups.group[g].width);
        assert_true(group->class_count >= GROUP_CLASSES_MIN);
        assert_int_equal(group->class_first, first);
        first += group->class_count;
        for (int64_t c = 0; c < group->class_count; c++) {
            bool *seen = &served[groups->class_of[group->class_first + c]];
            assert_false(*seen);
            *seen = true;
        }
    }
    assert_int_equal(first, CLASSES);
    assert_int_equal(groups->class_count, CLASSES);
}

static void devices_are_equally_busy_after_exchanges(void **state)
{
    (void)state;
    const struct rng_stream stream = rng_stream(1, RNG_SIMULATION, 0, 0);
    static struct queue queue;
    static struct class_groups found;
    uint64_t drawn = 0;
    double before = 0, after = 0;
    for (int i = 0; i < CASES; i++) {
        make(&queue, &stream, &drawn);
        found = queue.groups;
        const bool changed = class_groups_exchange(&queue.problem, &found);
        assert_groups(&queue, &found);
        const double was = slowest_of(&queue, &queue.groups), is = slowest_of(&queue, &found);
        assert_true(changed ? is < was : is == was);
        before += idle_of(&queue, &queue.groups) / CASES;
        after += idle_of(&queue, &found) / CASES;
    }
    print_message("idle before exchanges %.3f, after %.3f\n", before, after);
    assert_true(before > 0.02 && after < 0.01);
}

static void groups_that_cannot_be_faster_keep_their_classes(void **state)
{
    (void)state;
    static const int64_t samples[4] = {50, 50, 50, 50};
    static const double speed[2] = {1, 1};
    struct class_setting setting = {.samples = samples, .classes = 4, .speed = speed, .groups = 2};
    const struct class_problem problem = class_problem_of(&setting);
    static struct class_groups groups;
    struct err err = {0};
    assert_ok(class_groups_solve(&problem, &groups, &err), &err);
    groups.group[0].width = 0.9; /* much slower, and it has the fewest classes already */
    groups.group[1].width = 0.1;
    const struct class_groups right = groups;
    assert_false(class_groups_exchange(&problem, &groups));
    assert_memory_equal(&groups, &right, sizeof(groups));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_equally_busy_after_exchanges),
        cmocka_unit_test(groups_that_cannot_be_faster_keep_their_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
