#include "agent/copies/holdings.h"

#include <stdio.h>

#include "tests/support/test.h"

static void one_set_fits_beside_replicas_of_an_earlier_plan(void **state)
{
    (void)state;
    assert_true(holdings_have_room(2000, 0, 0, 1000));
    assert_true(holdings_have_room(2000, 1000, 1000, 1000));
    assert_false(holdings_have_room(2000, 1001, 1001, 1000));
    assert_true(holdings_have_room(2000, 5000, 0, 1000));
    assert_true(holdings_have_room(2000, 5900, 900, 100));
    assert_false(holdings_have_room(2000, 6000, 1000, 1));
    assert_false(holdings_have_room(0, 0, 0, 1));
}

static void a_version_is_whole_with_as_many_units_as_the_newest_one_before_it(void **state)
{
    (void)state;
    static const struct {
        int64_t version;
        bool of_this_job;
    } order[] = {{5, false}, {3, true}, {1, true}, {2, true}, {2, true},
                 {4, true},  {1, true}, {4, true}, {4, true}};
    struct holding of = {.version = 4, .job.text = "job_a"};
    struct holdings_units units = {.of = &of};
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        struct holding other = {.version = order[i].version};
        (void)snprintf(other.job.text, sizeof(other.job.text), "%s",
                       order[i].of_this_job ? "job_a" : "job_b");
        holdings_units_count(&units, &other);
    }
    assert_int_equal(units.before, 3);
    assert_true(holdings_units_are_whole(&units));
    struct holding another = {.version = 3, .job.text = "job_a"};
    for (size_t i = 0; i < 3; i++) {
        holdings_units_count(&units, &another);
    }
    assert_false(holdings_units_are_whole(&units));
    struct holding first = {.version = 0, .job.text = "job_b"};
    units = (struct holdings_units){.of = &first};
    assert_true(holdings_units_are_whole(&units));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_set_fits_beside_replicas_of_an_earlier_plan),
        cmocka_unit_test(a_version_is_whole_with_as_many_units_as_the_newest_one_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
