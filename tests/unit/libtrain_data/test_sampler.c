#include <string.h>

#include "libtrain/model/shards.h"
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

/* Labels 0 to 6, those of class 2 missing from the second half. */
#define SHARDS 6
#define SHARD_BATCH 5

static void make_labels(int32_t labels[VIEW_SAMPLES])
{
    for (int32_t i = 0; i < VIEW_SAMPLES; i++) {
        labels[i] = i % 7 == 2 && i >= VIEW_SAMPLES / 2 ? 3 : i % 7;
    }
}

/* The shards of a division, their ranges in the order of classes. */
static void divide(const int32_t *labels, enum shards_split split, struct view shard[SHARDS])
{
    int64_t count[VIEW_CLASSES_MAX], part[SHARDS * 7];
    struct err err = {0};
    view_count((const unsigned char *)labels, VIEW_SAMPLES, count);
    const struct shards_problem problem = {.split = split,
                                           .count = count,
                                           .class_count = 7,
                                           .shards = SHARDS,
                                           .alpha = 0.3,
                                           .classes_per_shard = 2,
                                           .least = SHARD_BATCH,
                                           .seed = 11};
    assert_ok(shards_divide(&problem, part, &err), &err);
    for (size_t s = 0; s < SHARDS; s++) {
        shard[s] =
            (struct view){.is_shard = true, .seed = 11, .shard = (int64_t)s, .shard_count = SHARDS};
        for (size_t c = 0; c < 7; c++) {
            if (part[s * 7 + c] > 0) {
                shard[s].range[shard[s].range_count++] = (struct view_range){
                    (uint32_t)c, (uint32_t)shards_first(part, 7, s, c), (uint32_t)part[s * 7 + c]};
            }
        }
    }
}

static struct train_sampler *sampler_of_shard(const struct view *shard, const int32_t *labels,
                                              size_t batch, uint64_t seed)
{
    struct train_sampler *sampler = NULL;
    struct err err = {0};
    assert_ok(train_sampler_new_view(shard, (const unsigned char *)labels, VIEW_SAMPLES, batch,
                                     seed, &sampler, &err),
              &err);
    return sampler;
}

/* With batches of one sample an epoch is complete. */
static void the_shards_of_a_division_have_every_sample_once_in_each_epoch(void **state)
{
    (void)state;
    static struct view shard[SHARDS];
    static const enum shards_split splits[] = {SHARDS_EVEN, SHARDS_DIRICHLET, SHARDS_BY_CLASS};
    int32_t labels[VIEW_SAMPLES];
    make_labels(labels);
    for (size_t k = 0; k < sizeof(splits) / sizeof(splits[0]); k++) {
        unsigned seen[2][VIEW_SAMPLES] = {{0}};
        divide(labels, splits[k], shard);
        for (size_t s = 0; s < SHARDS; s++) {
            struct train_sampler *sampler = sampler_of_shard(&shard[s], labels, 1, 100 + s);
            const int64_t samples = (int64_t)train_sampler_epoch(sampler);
            size_t held = 1;
            (void)train_sampler_held(sampler, &held);
            assert_int_equal(held, 0);
            for (int64_t step = 1; step <= 2 * samples; step++) {
                seen[step > samples][*train_sampler_batch(sampler, step)]++;
            }
            train_sampler_free(&sampler);
        }
        for (size_t i = 0; i < VIEW_SAMPLES; i++) {
            assert_int_equal(seen[0][i], 1);
            assert_int_equal(seen[1][i], 1);
        }
    }
}

static bool same_batches(struct train_sampler *a, struct train_sampler *b, int64_t steps)
{
    bool same = true;
    for (int64_t step = 1; step <= steps; step++) {
        uint32_t kept[SHARD_BATCH];
        memcpy(kept, train_sampler_batch(a, step), sizeof(kept));
        same = same && memcmp(kept, train_sampler_batch(b, step), sizeof(kept)) == 0;
    }
    return same;
}

static void the_seed_of_a_shard_chooses_samples_and_that_of_the_job_their_order(void **state)
{
    (void)state;
    static struct view shard[SHARDS], turned, other;
    int32_t labels[VIEW_SAMPLES];
    unsigned in[3][VIEW_SAMPLES] = {{0}};
    make_labels(labels);
    divide(labels, SHARDS_EVEN, shard);
    turned = other = shard[1];
    other.seed++;
    for (size_t i = 0; i < shard[1].range_count; i++) {
        turned.range[i] = shard[1].range[shard[1].range_count - 1 - i];
    }
    struct train_sampler *sampler[] = {sampler_of_shard(&shard[1], labels, SHARD_BATCH, 3),
                                       sampler_of_shard(&turned, labels, SHARD_BATCH, 3),
                                       sampler_of_shard(&shard[1], labels, SHARD_BATCH, 4),
                                       sampler_of_shard(&other, labels, SHARD_BATCH, 3)};
    const int64_t steps = (int64_t)train_sampler_epoch(sampler[0]) / SHARD_BATCH;
    assert_true(same_batches(sampler[0], sampler[1], 2 * steps)); /* whatever the list's order */
    assert_false(same_batches(sampler[0], sampler[2], 2 * steps));
    assert_false(same_batches(sampler[0], sampler[3], 2 * steps));
    for (size_t k = 0; k < 4; k++) {
        train_sampler_free(&sampler[k]);
    }
    static const size_t seeds[] = {3, 4, 3};
    for (size_t k = 0; k < 3; k++) {
        struct train_sampler *whole =
            sampler_of_shard(k < 2 ? &shard[1] : &other, labels, 1, seeds[k]);
        for (int64_t step = 1; step <= (int64_t)train_sampler_epoch(whole); step++) {
            in[k][*train_sampler_batch(whole, step)] = 1;
        }
        train_sampler_free(&whole);
    }
    assert_memory_equal(in[0], in[1], sizeof(in[0]));
    assert_memory_not_equal(in[0], in[2], sizeof(in[0]));
}

static void a_shard_that_the_data_does_not_have_is_rejected(void **state)
{
    (void)state;
    static const struct {
        struct view_range range[2];
        const char *words;
    } cases[] = {
        {{{0, 0, 100}, {1, 1, 100}}, "100 samples of class 1, from 1"},
        {{{0, 0, 100}, {9, 0, 1}}, "of the 0 samples of that class"},
        {{{0, 0, 100}, {0, 0, 100}}, "or listed twice"},
        {{{0, 0, 100}, {1, UINT32_MAX, UINT32_MAX}}, "of the 100 samples"},
        {{{0, 0, 100}, {UINT32_MAX, 0, 1}}, "class 4294967295"},
        {{{0, 0, 2}, {1, 98, 2}}, "batch of 5 samples: expected 1 to an epoch's 4"},
    };
    int32_t labels[VIEW_SAMPLES];
    make_labels(labels);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct view shard = {.is_shard = true, .range_count = 2};
        struct train_sampler *sampler = NULL;
        struct err err = {0};
        memcpy(shard.range, cases[i].range, sizeof(cases[i].range));
        assert_int_equal(train_sampler_new_view(&shard, (const unsigned char *)labels, VIEW_SAMPLES,
                                                5, 1, &sampler, &err),
                         ERR_INVALID);
        assert_holds(err.text, cases[i].words);
        assert_null(sampler);
    }
}

/* The loss of a sample is its index. */
static void an_epoch_of_a_window_has_the_largest_losses_and_the_others_in_turn(void **state)
{
    (void)state;
    enum { BATCH = 5, WINDOW = 20, CRITICAL = 8 };
    const struct view view = {.is_shard = true,
                              .range = {{0, 0, 60}, {1, 20, 40}},
                              .range_count = 2,
                              .window = WINDOW,
                              .critical = (double)CRITICAL / WINDOW};
    int32_t labels[VIEW_SAMPLES];
    unsigned used[VIEW_SAMPLES] = {0};
    uint32_t largest[CRITICAL] = {0};
    struct train_sampler *sampler = NULL;
    struct err err = {0};
    make_labels(labels);
    assert_ok(train_sampler_new_view(&view, (const unsigned char *)labels, VIEW_SAMPLES, BATCH, 7,
                                     &sampler, &err),
              &err);
    assert_int_equal(train_sampler_epoch(sampler), WINDOW);
    for (int64_t epoch = 0; epoch < 40; epoch++) {
        unsigned now[VIEW_SAMPLES] = {0};
        for (int64_t step = 1 + epoch * WINDOW / BATCH; step <= (epoch + 1) * WINDOW / BATCH;
             step++) {
            const uint32_t *batch = train_sampler_batch(sampler, step);
            double loss[BATCH];
            for (size_t i = 0; i < BATCH; i++) {
                assert_int_equal(now[batch[i]]++, 0); /* once in an epoch */
                loss[i] = (double)batch[i];
            }
            train_sampler_note(sampler, step, 0, BATCH, loss);
        }
        for (size_t i = 0; epoch > 0 && i < CRITICAL; i++) {
            assert_int_equal(now[largest[i]], 1);
        }
        size_t found = 0;
        for (size_t s = VIEW_SAMPLES; s-- > 0;) {
            used[s] += now[s];
            if (used[s] > 0 && found < CRITICAL) {
                largest[found++] = (uint32_t)s;
            }
        }
    }
    unsigned least = 1000, count = 0;
    for (size_t s = 0; s < VIEW_SAMPLES; s++) {
        least = used[s] > 0 && used[s] < least ? used[s] : least;
        count += used[s] > 0;
    }
    assert_int_equal(count, 100); /* all of the shard */
    assert_true(least >= 40 * (WINDOW - CRITICAL) / 100 - 1);
    train_sampler_free(&sampler);
}

static void an_epoch_without_held_out_samples_has_every_other_one_once(void **state)
{
    (void)state;
    static int32_t labels[VIEW_SAMPLES];
    const struct holdout holdout = {.share = 0.25, .seed = 3};
    struct train_sampler *sampler = NULL;
    struct err err = {0};
    size_t held_count = 0;
    make_labels(labels);
    assert_ok(train_sampler_new_without(&holdout, (const unsigned char *)labels, VIEW_SAMPLES, 1, 7,
                                        &sampler, &err),
              &err);
    const uint32_t *held = train_sampler_held(sampler, &held_count);
    const uint64_t epoch = train_sampler_epoch(sampler);
    assert_true(held_count > 0 && epoch + held_count == VIEW_SAMPLES);
    for (int64_t number = 0; number < 3; number++) {
        unsigned seen[VIEW_SAMPLES] = {0};
        for (int64_t step = 1; step <= (int64_t)epoch; step++) {
            seen[*train_sampler_batch(sampler, number * (int64_t)epoch + step)]++;
        }
        for (size_t i = 0; i < held_count; i++) {
            assert_int_equal(seen[held[i]]++, 0);
        }
        for (size_t i = 0; i < VIEW_SAMPLES; i++) {
            assert_int_equal(seen[i], 1);
        }
    }
    train_sampler_free(&sampler);
    assert_int_equal(train_sampler_new_without(&holdout, (const unsigned char *)labels,
                                               VIEW_SAMPLES, VIEW_SAMPLES, 7, &sampler, &err),
                     ERR_INVALID);
    assert_non_null(strstr(err.text, "samples are held out"));
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
        cmocka_unit_test(the_shards_of_a_division_have_every_sample_once_in_each_epoch),
        cmocka_unit_test(the_seed_of_a_shard_chooses_samples_and_that_of_the_job_their_order),
        cmocka_unit_test(a_shard_that_the_data_does_not_have_is_rejected),
        cmocka_unit_test(an_epoch_without_held_out_samples_has_every_other_one_once),
        cmocka_unit_test(an_epoch_of_a_window_has_the_largest_losses_and_the_others_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
