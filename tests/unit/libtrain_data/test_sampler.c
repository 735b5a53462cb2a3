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

/* Labels 0 to 6, of which 2 and 5 are the view's. */
#define VIEW_SAMPLES 700

static struct train_sampler *sampler_of_view(size_t batch, uint64_t seed, int32_t *labels)
{
    static const struct view view = {
        .class = {5, 2}, .class_count = 2, .negatives = 1, .holdout = 0.1};
    struct train_sampler *sampler = NULL;
    struct err err = {0};
    for (int32_t i = 0; i < VIEW_SAMPLES; i++) {
        labels[i] = i % 7;
    }
    assert_ok(train_sampler_new_view(&view, (const unsigned char *)labels, VIEW_SAMPLES, batch,
                                     seed, &sampler, &err),
              &err);
    return sampler;
}

static void an_epoch_of_a_view_has_every_own_sample_once_and_a_draw_of_the_others(void **state)
{
    (void)state;
    int32_t labels[VIEW_SAMPLES];
    struct train_sampler *sampler = sampler_of_view(36, 3, labels);
    size_t held_count = 0, changed = 0;
    unsigned earlier[VIEW_SAMPLES] = {0};
    const uint32_t *held = train_sampler_held(sampler, &held_count);
    assert_int_equal(held_count, 20);
    assert_int_equal(train_sampler_epoch(sampler), 360);
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        unsigned seen[VIEW_SAMPLES] = {0}, others = 0;
        for (int64_t step = epoch * 10 + 1; step <= epoch * 10 + 10; step++) {
            const uint32_t *batch = train_sampler_batch(sampler, step);
            for (size_t i = 0; i < 36; i++) {
                seen[batch[i]]++;
            }
        }
        for (size_t i = 0; i < held_count; i++) {
            assert_int_equal(seen[held[i]], 0);
            seen[held[i]] = 1;
        }
        for (size_t i = 0; i < VIEW_SAMPLES; i++) {
            const bool own = labels[i] == 2 || labels[i] == 5;
            assert_true(own ? seen[i] == 1 : seen[i] <= 1);
            others += own ? 0 : seen[i];
            changed += seen[i] != earlier[i];
        }
        assert_int_equal(others, 180);
        memcpy(earlier, seen, sizeof(earlier));
    }
    assert_true(changed > 300); /* the others of each epoch are drawn again */
    train_sampler_free(&sampler);
}

static void a_batch_of_a_view_is_a_function_of_seed_and_step_alone(void **state)
{
    (void)state;
    int32_t labels[VIEW_SAMPLES];
    struct train_sampler *forward = sampler_of_view(36, 3, labels);
    struct train_sampler *backward = sampler_of_view(36, 3, labels);
    uint32_t kept[30][36];
    for (int64_t step = 1; step <= 30; step++) {
        memcpy(kept[step - 1], train_sampler_batch(forward, step), sizeof(kept[0]));
    }
    for (int64_t step = 30; step >= 1; step--) {
        assert_memory_equal(kept[step - 1], train_sampler_batch(backward, step), sizeof(kept[0]));
    }
    train_sampler_free(&forward);
    train_sampler_free(&backward);
}

static void a_batch_larger_than_an_epoch_of_a_view_is_rejected(void **state)
{
    (void)state;
    static const struct view view = {.class = {1}, .class_count = 1, .negatives = 1};
    const int32_t labels[] = {0, 1, 0, 2, 1, 0};
    struct train_sampler *sampler = NULL;
    struct err err = {0};
    assert_int_equal(
        train_sampler_new_view(&view, (const unsigned char *)labels, 6, 5, 1, &sampler, &err),
        ERR_INVALID);
    assert_null(sampler);
    assert_ok(train_sampler_new_view(&view, (const unsigned char *)labels, 6, 4, 1, &sampler, &err),
              &err);
    train_sampler_free(&sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_visits_every_sample_at_most_once_and_drops_the_partial_batch),
        cmocka_unit_test(a_batch_is_a_function_of_seed_and_step_alone),
        cmocka_unit_test(every_place_of_the_order_is_about_equally_likely),
        cmocka_unit_test(a_batch_larger_than_the_data_set_is_rejected),
        cmocka_unit_test(an_epoch_of_a_view_has_every_own_sample_once_and_a_draw_of_the_others),
        cmocka_unit_test(a_batch_of_a_view_is_a_function_of_seed_and_step_alone),
        cmocka_unit_test(a_batch_larger_than_an_epoch_of_a_view_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
