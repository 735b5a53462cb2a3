#include "base/size.h"

#include "tests/support/test.h"

static void products_and_sums_that_fit_are_given(void **state)
{
    (void)state;
    size_t out = 0;
    assert_true(size_multiply(SIZE_MAX / 3, 3, &out));
    assert_int_equal(out, SIZE_MAX / 3 * 3);
    assert_true(size_add(SIZE_MAX - 1, 1, &out));
    assert_int_equal(out, SIZE_MAX);
}

static void an_overflow_leaves_the_output_unchanged(void **state)
{
    (void)state;
    size_t out = 42;
    assert_false(size_multiply(SIZE_MAX / 3 + 1, 3, &out));
    assert_false(size_add(SIZE_MAX, 1, &out));
    assert_int_equal(out, 42);
}

static void alignment_goes_to_the_next_multiple(void **state)
{
    (void)state;
    assert_int_equal(size_align(0, 64), 0);
    assert_int_equal(size_align(1, 64), 64);
    assert_int_equal(size_align(64, 64), 64);
    assert_int_equal(size_align(65, 64), 128);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_and_sums_that_fit_are_given),
        cmocka_unit_test(an_overflow_leaves_the_output_unchanged),
        cmocka_unit_test(alignment_goes_to_the_next_multiple),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
