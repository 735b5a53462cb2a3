/* The coefficient of variation of the periods of groups. */
#include <math.h>

#include "coordinator/core/gossip/gossip_watch.h"
#include "tests/support/test.h"

static void equal_periods_do_not_vary(void **state)
{
    (void)state;
    const double value[] = {0.3, 0.3, 0.3};
    assert_true(gossip_variation(value, 3) < 1e-12);
}

static void a_variation_is_the_deviation_over_the_mean(void **state)
{
    (void)state;
    const double value[] = {1, 3};
    assert_true(fabs(gossip_variation(value, 2) - 0.5) < 1e-12);
}

static void fewer_than_two_values_do_not_vary(void **state)
{
    (void)state;
    const double value[] = {7, 0};
    assert_true(gossip_variation(value, 0) == 0 && gossip_variation(value, 1) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_periods_do_not_vary),
        cmocka_unit_test(a_variation_is_the_deviation_over_the_mean),
        cmocka_unit_test(fewer_than_two_values_do_not_vary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
