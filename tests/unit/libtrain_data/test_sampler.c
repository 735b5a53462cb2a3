#include <string.h>

#include "libtrain/train.h"
#include "tests/support/test.h"

static struct train_sampler *sampler_of(uint64_t samples, size_t batch, uint64_t seed)
{
    struct train_sampler *sampler = NULL;
    struct err err = {0};
    assert_ok(train_sampler_new(samples, batch, seed, &sampler, &err), &err);
    return sampler;
}

static void an_epoch_visits_every_sample_at_most_once_and_drops_the_partial_batch(void **state)
{
    (void)state;
    struct train_sampler *sampler = sampler_of(103, 10, 1);
    assert_int_equal(train_steps_per_epoch(103, 10), 10);
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        unsigned seen[103] = {0};
        for (int64_t step = epoch * 10 + 1; step <= epoch * 10 + 10; step++) {
            const uint32_t *batch = train_sampler_batch(sampler, step);
            for (size_t i = 0; i < 10; i++) {
                assert_true(batch[i] < 103);
                assert_int_equal(seen[batch[i]]++, 0);
            }
        }
    }
    train_sampler_free(&sampler);
    assert_null(sampler);
}

static void a_batch_is_a_function_of_seed_and_step_alone(void **state)
{
    (void)state;
    struct train_sampler *forward = sampler_of(50, 7, 9);
    struct train_sampler *backward = sampler_of(50, 7, 9);
    struct train_sampler *other = sampler_of(50, 7, 10);
    uint32_t kept[30][7];
    bool differs = false;
    for (int64_t step = 1; step <= 30; step++) {
        memcpy(kept[step - 1], train_sampler_batch(forward, step), sizeof(kept[0]));
        differs = differs ||
                  memcmp(kept[step - 1], train_sampler_batch(other, step), sizeof(kept[0])) != 0;
    }
    for (int64_t step = 30; step >= 1; step--) {
        assert_memory_equal(kept[step - 1], train_sampler_batch(backward, step), sizeof(kept[0]));
    }
    assert_true(differs);
    assert_memory_not_equal(kept[0], kept[7], sizeof(kept[0])); /* step 8 begins the second epoch */
    train_sampler_free(&forward);
    train_sampler_free(&backward);
    train_sampler_free(&other);
}

static void every_place_of_the_order_is_about_equally_likely(void **state)
{
    (void)state;
    unsigned count[8][8] = {{0}};
    for (uint64_t seed = 0; seed < 4000; seed++) {
        struct train_sampler *sampler = sampler_of(8, 8, seed);
        const uint32_t *order = train_sampler_batch(sampler, 1);
        for (size_t i = 0; i < 8; i++) {
            count[i][order[i]]++;
        }
        train_sampler_free(&sampler);
    }
    for (size_t i = 0; i < 64; i++) {
        assert_in_range(count[i / 8][i % 8], 400, 600); /* 500 expected, standard deviation 21 */
    }
}

static void a_batch_larger_than_the_data_set_is_rejected(void **state)
{
    (void)state;
    struct train_sampler *sampler = NULL;
    struct err err = {0};
    assert_int_equal(train_sampler_new(9, 10, 0, &sampler, &err), ERR_INVALID);
    assert_int_equal(train_sampler_new(9, 0, 0, &sampler, &err), ERR_INVALID);
    assert_int_equal(train_sampler_new(UINT64_C(1) << 33, 8, 0, &sampler, &err), ERR_LIMIT);
    assert_null(sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_visits_every_sample_at_most_once_and_drops_the_partial_batch),
        cmocka_unit_test(a_batch_is_a_function_of_seed_and_step_alone),
        cmocka_unit_test(every_place_of_the_order_is_about_equally_likely),
        cmocka_unit_test(a_batch_larger_than_the_data_set_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
