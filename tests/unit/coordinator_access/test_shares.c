#include "tests/support/test.h"

#include "coordinator/access/shares.h"

#define TOKENS 4
#define NOW_MS 1000000ll

static const struct shares_limits limits = {
    .requests = {.per_second = 10, .burst = 20},
    .refusals = {.per_second = 1, .burst = 3},
    .held =
        {[SHARE_REQUESTS] = 2, [SHARE_STREAMS] = 1, [SHARE_CHECKPOINTS] = 1, [SHARE_DATASETS] = 1},
};

static int set_up(void **state)
{
    struct shares *shares = NULL;
    struct err err = {0};
    assert_ok(shares_new(&limits, TOKENS, 42, &shares, &err), &err);
    *state = shares;
    return 0;
}

static int tear_down(void **state)
{
    struct shares *shares = *state;
    shares_free(&shares);
    return 0;
}

static size_t spent(struct shares *shares, size_t place, size_t attempts, int64_t now_ms)
{
    size_t count = 0;
    for (size_t i = 0; i < attempts; i++) {
        count += shares_spend(shares, place, now_ms);
    }
    return count;
}

static void a_caller_spends_its_burst_and_then_its_rate(void **state)
{
    struct shares *shares = *state;
    assert_int_equal(spent(shares, 0, 100, NOW_MS), 20);
    assert_int_equal(spent(shares, 0, 100, NOW_MS + 99), 0);
    assert_int_equal(spent(shares, 0, 100, NOW_MS + 100), 1);
    assert_int_equal(spent(shares, 0, 100, NOW_MS + 1100), 10);
    assert_int_equal(spent(shares, 0, 100, NOW_MS + 100 + 3600000), 20);
    assert_int_equal(spent(shares, 0, 100, INT64_MAX), 20); /* no overflow */
}

static void a_clock_that_stands_or_goes_back_gives_nothing(void **state)
{
    struct shares *shares = *state;
    assert_int_equal(spent(shares, 0, 100, NOW_MS), 20);
    assert_int_equal(spent(shares, 0, 100, NOW_MS - 5000), 0);
    assert_int_equal(spent(shares, 0, 100, NOW_MS - 4900), 1);
}

static void callers_do_not_share_their_rates(void **state)
{
    struct shares *shares = *state;
    const size_t first = shares_of_address(shares, 1, NOW_MS);
    const size_t second = shares_of_address(shares, 2, NOW_MS);
    assert_true(first >= TOKENS && second >= TOKENS && first != second);
    assert_int_equal(spent(shares, first, 100, NOW_MS), 20);
    assert_int_equal(spent(shares, second, 100, NOW_MS), 20);
    assert_int_equal(spent(shares, 3, 100, NOW_MS), 20);
    assert_int_equal(shares_of_address(shares, 1, NOW_MS + 1), first);
    assert_true(shares_spend_refusal(shares, first, NOW_MS));
    assert_true(shares_spend_refusal(shares, first, NOW_MS));
    assert_true(shares_spend_refusal(shares, first, NOW_MS));
    assert_false(shares_spend_refusal(shares, first, NOW_MS));
    assert_true(shares_spend_refusal(shares, second, NOW_MS));
}

static void a_caller_holds_no_more_than_its_share_at_once(void **state)
{
    struct shares *shares = *state;
    assert_true(shares_take(shares, 1, SHARE_REQUESTS));
    assert_true(shares_take(shares, 1, SHARE_STREAMS));
    assert_true(shares_take(shares, 1, SHARE_REQUESTS));
    assert_false(shares_take(shares, 1, SHARE_REQUESTS));
    assert_false(shares_take(shares, 1, SHARE_STREAMS));
    assert_true(shares_take(shares, 2, SHARE_REQUESTS));
    assert_false(shares_idle(shares, 1));
    shares_give_back(shares, 1, SHARE_REQUESTS);
    assert_true(shares_take(shares, 1, SHARE_REQUESTS));
    shares_give_back(shares, 1, SHARE_REQUESTS);
    shares_give_back(shares, 1, SHARE_REQUESTS);
    shares_give_back(shares, 1, SHARE_STREAMS);
    assert_true(shares_idle(shares, 1));
}

static void a_million_addresses_leave_the_share_of_one_that_is_in_use(void **state)
{
    struct shares *shares = *state;
    const size_t place = shares_of_address(shares, 7, NOW_MS);
    assert_true(shares_take(shares, place, SHARE_REQUESTS));
    assert_int_equal(spent(shares, place, 100, NOW_MS), 20);
    for (uint64_t address = 100; address < 1000100; address++) {
        const size_t other = shares_of_address(shares, address, NOW_MS);
        assert_int_not_equal(other, place);
        assert_true(other >= TOKENS);
    }
    assert_int_equal(shares_of_address(shares, 7, NOW_MS), place);
    assert_false(shares_spend(shares, place, NOW_MS));
    shares_give_back(shares, place, SHARE_REQUESTS);
}

static void addresses_share_a_place_when_all_are_in_use(void **state)
{
    struct shares *shares = *state;
    size_t taken = 0;
    for (uint64_t address = 1; address <= 100000; address++) {
        const size_t place = shares_of_address(shares, address, NOW_MS);
        taken += shares_take(shares, place, SHARE_REQUESTS);
    }
    assert_true(taken > 1000 && taken <= 2048); /* two for each of 1024 places */
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_caller_spends_its_burst_and_then_its_rate),
        TEST(a_clock_that_stands_or_goes_back_gives_nothing),
        TEST(callers_do_not_share_their_rates),
        TEST(a_caller_holds_no_more_than_its_share_at_once),
        TEST(a_million_addresses_leave_the_share_of_one_that_is_in_use),
        TEST(addresses_share_a_place_when_all_are_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
