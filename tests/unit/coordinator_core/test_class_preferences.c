/* The classes that devices prefer: the label, and the swaps between planned groups. */
#include "coordinator/core/submodel/class_preferences.h"

#include <string.h>

#include "tests/support/test.h"
#include "tests/unit/coordinator_core/class_problems.h"

#define CLASSES 10

static const double speed[] = {1, 1, 1, 1, 1};

static struct class_ranges preference_of(const char *label)
{
    struct class_ranges preference;
    assert_true(class_preferences_read(label, CLASSES, &preference));
    return preference;
}

/* "0 1, 2 3": the classes of each group. */
static void assert_groups(const struct class_groups *groups, const char *expected)
{
    char text[256] = "";
    size_t at = 0;
    for (size_t g = 0; g < groups->count; g++) {
        const struct class_group *group = &groups->group[g];
        for (int64_t c = 0; c < group->class_count; c++) {
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%d",
                                   c > 0    ? " "
                                   : g == 0 ? ""
                                            : ", ",
                                   (int)groups->class_of[group->class_first + c]);
        }
    }
    assert_string_equal(text, expected);
}

static void labels_are_ranges_of_classes(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",    "a",  "1-",  "-1",   "1_",     "1__2",
                                        "1 2", "10", "2-1", "1024", "0-99999"};
    static const bool expected[CLASSES] = {true, true, true, [5] = true, [8] = true, [9] = true};
    struct class_ranges preference = preference_of("0-2_5_8-12");
    for (size_t c = 0; c < COUNTED_CLASSES_MAX; c++) {
        assert_int_equal(preference.class[c], c < CLASSES && expected[c]);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(class_preferences_read(wrong[i], CLASSES, &preference));
    }
}

static void a_group_gets_the_classes_that_it_prefers(void **state)
{
    (void)state;
    static const int64_t samples[CLASSES] = {10, 10, 10, 10, 10, 10, 10, 10, 10, 10};
    struct class_setting setting = {
        .samples = samples, .classes = CLASSES, .speed = speed, .groups = 5};
    const struct class_problem problem = class_problem_of(&setting);
    const struct class_ranges low = preference_of("0-3"), high = preference_of("8_9");
    const struct class_ranges *none[5] = {NULL};
    const struct class_ranges *some[5] = {[1] = &low, [3] = &high};
    struct class_groups groups;
    struct err err = {0};
    assert_ok(class_groups_solve(&problem, &groups, &err), &err);
    const struct class_groups before = groups;
    class_preferences_follow(&problem, none, &groups);
    assert_memory_equal(&groups, &before, sizeof(groups));
    assert_groups(&groups, "0 5, 1 6, 2 7, 3 8, 4 9");
    class_preferences_follow(&problem, some, &groups);
    assert_groups(&groups, "5 6, 0 1, 2 7, 8 9, 3 4");
}

static void a_class_that_two_groups_prefer_stays(void **state)
{
    (void)state;
    static const int64_t samples[CLASSES] = {10, 10, 10, 10, 10, 10, 10, 10, 10, 10};
    struct class_setting setting = {
        .samples = samples, .classes = CLASSES, .speed = speed, .groups = 5};
    const struct class_problem problem = class_problem_of(&setting);
    const struct class_ranges low = preference_of("0-1");
    const struct class_ranges *both[5] = {&low, &low};
    struct class_groups groups;
    struct err err = {0};
    assert_ok(class_groups_solve(&problem, &groups, &err), &err);
    class_preferences_follow(&problem, both, &groups);
    assert_groups(&groups, "0 5, 1 6, 2 7, 3 8, 4 9");
}

/* Class 0 is as large as four others: its group would get too slow, or that which gives it away. */
static void loads_come_before_preferences(void **state)
{
    (void)state;
    static const int64_t samples[CLASSES] = {40, 10, 10, 10, 10, 10, 10, 10, 10, 10};
    struct class_setting setting = {
        .samples = samples, .classes = CLASSES, .speed = speed, .groups = 2};
    struct class_problem problem = class_problem_of(&setting);
    problem.negatives = 0.1; /* else a group sees all samples, whatever its classes */
    const struct class_ranges most = preference_of("0_6-9");
    const struct class_ranges *wants[2] = {NULL, &most};
    struct class_groups groups;
    struct err err = {0};
    assert_ok(class_groups_solve(&problem, &groups, &err), &err);
    double before[2];
    for (size_t g = 0; g < 2; g++) {
        before[g] = groups.group[g].width;
    }
    class_preferences_follow(&problem, wants, &groups);
    for (size_t g = 0; g < 2; g++) {
        const double own = class_loads_own(&problem, &groups, g);
        assert_true(own <= 65 * (1 + CLASS_PREFERENCES_SLACK));
        assert_true(groups.group[g].width == before[g]);
    }
    const int64_t *second = &groups.class_of[groups.group[1].class_first];
    for (int64_t c = 0; c < groups.group[1].class_count; c++) {
        assert_true(second[c] != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_ranges_of_classes),
        cmocka_unit_test(a_group_gets_the_classes_that_it_prefers),
        cmocka_unit_test(a_class_that_two_groups_prefer_stays),
        cmocka_unit_test(loads_come_before_preferences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
