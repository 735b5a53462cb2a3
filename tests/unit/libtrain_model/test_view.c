#include <stdbool.h>
#include <string.h>

#include "base/rng.h"
#include "libtrain/model/shards.h"
#include "libtrain/model/view.h"
#include "tests/support/test.h"

#define SAMPLES_MAX 600
#define CLASSES_MAX 40
#define TRIALS 4000

/* A random data set with a random view of it, and the view's samples. */
struct trial {
    uint64_t seed;
    int32_t label[SAMPLES_MAX];
    uint64_t samples;
    struct view view;
    int64_t count[VIEW_CLASSES_MAX];
    struct view_sizes sizes;
    struct view_labels labels;
    uint32_t own[SAMPLES_MAX], held[SAMPLES_MAX], others[SAMPLES_MAX];
};

static const unsigned char *stored(const struct trial *trial)
{
    return (const unsigned char *)trial->label;
}

static void split(struct trial *trial)
{
    const struct view_samples out = {trial->own, trial->held, trial->others};
    view_count(stored(trial), trial->samples, trial->count);
    view_sizes(&trial->view, trial->count, VIEW_CLASSES_MAX, &trial->sizes);
    view_labels(&trial->view, &trial->labels);
    view_split(&trial->view, trial->seed, stored(trial), trial->samples, trial->count, &out);
}

static void draw_trial(uint64_t seed, struct trial *trial)
{
    static const double negatives[] = {0, 0.01, 0.5, 1, 2, 7.3, 100};
    static const double holdouts[] = {0, 0.001, 0.05, 0.3, 0.5};
    const struct rng_stream stream = rng_stream(seed, RNG_SIMULATION, 1, 0);
    const uint64_t classes = 1 + rng_below(&stream, 0, CLASSES_MAX);
    *trial = (struct trial){.seed = seed, .samples = rng_below(&stream, 1, SAMPLES_MAX + 1)};
    for (uint64_t i = 0; i < trial->samples; i++) {
        trial->label[i] = (int32_t)rng_below(&stream, 100 + i, classes);
    }
    int64_t order[CLASSES_MAX];
    for (uint64_t i = 0; i < classes; i++) {
        const uint64_t at = rng_below(&stream, 10 + i, i + 1);
        order[i] = order[at];
        order[at] = (int64_t)i;
    }
    trial->view.class_count = (size_t)(1 + rng_below(&stream, 2, classes));
    memcpy(trial->view.class, order, trial->view.class_count * sizeof(order[0]));
    trial->view.negatives = negatives[rng_below(&stream, 3, 7)];
    trial->view.holdout = holdouts[rng_below(&stream, 4, 5)];
    split(trial);
}

static bool is_rising(const uint32_t *sample, uint64_t count)
{
    bool rising = true;
    for (uint64_t i = 1; i < count; i++) {
        rising = rising && sample[i] > sample[i - 1];
    }
    return rising;
}

static void every_sample_is_own_held_out_or_of_another_class(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < TRIALS; seed++) {
        struct trial trial;
        unsigned seen[SAMPLES_MAX] = {0};
        draw_trial(seed, &trial);
        const struct view_sizes *sizes = &trial.sizes;
        assert_int_equal(sizes->own + sizes->held + sizes->others, trial.samples);
        assert_true(is_rising(trial.own, sizes->own) && is_rising(trial.held, sizes->held) &&
                    is_rising(trial.others, sizes->others));
        for (uint64_t i = 0; i < sizes->own; i++) {
            assert_true(view_label(&trial.labels, trial.label[trial.own[i]]) != trial.labels.other);
            seen[trial.own[i]]++;
        }
        for (uint64_t i = 0; i < sizes->held; i++) {
            assert_true(view_label(&trial.labels, trial.label[trial.held[i]]) !=
                        trial.labels.other);
            seen[trial.held[i]]++;
        }
        for (uint64_t i = 0; i < sizes->others; i++) {
            assert_int_equal(view_label(&trial.labels, trial.label[trial.others[i]]),
                             trial.labels.other);
            seen[trial.others[i]]++;
        }
        for (uint64_t i = 0; i < trial.samples; i++) {
            assert_int_equal(seen[i], 1);
        }
    }
}

/* A view with the numbers of the data has the samples of the same view with its own. */
static void the_numbers_of_labels_change_no_sample(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct trial own, data;
        draw_trial(seed, &own);
        data = own;
        data.view.numbers = VIEW_NUMBERS_DATA;
        split(&data);
        assert_memory_equal(&data.sizes, &own.sizes, sizeof(own.sizes));
        assert_memory_equal(data.own, own.own, own.sizes.own * sizeof(own.own[0]));
        assert_memory_equal(data.held, own.held, own.sizes.held * sizeof(own.held[0]));
        assert_memory_equal(data.others, own.others, own.sizes.others * sizeof(own.others[0]));
        for (int32_t class = 0; class < VIEW_CLASSES_MAX; class ++) {
            assert_int_equal(view_label(&data.labels, class), class);
        }
    }
}

static void each_own_class_gives_its_share_to_the_hold_out(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < TRIALS; seed++) {
        struct trial trial;
        draw_trial(seed, &trial);
        uint64_t held[VIEW_CLASSES_MAX] = {0};
        for (uint64_t i = 0; i < trial.sizes.held; i++) {
            held[trial.label[trial.held[i]]]++;
        }
        for (size_t i = 0; i < trial.view.class_count; i++) {
            const uint64_t samples = (uint64_t)trial.count[trial.view.class[i]];
            const double share = trial.view.holdout * (double)samples;
            const uint64_t expected = view_held(&trial.view, samples);
            assert_int_equal(held[trial.view.class[i]], expected);
            assert_true((double)expected <= (share > 1 ? share : 1));
            assert_true((expected > 0) == (trial.view.holdout > 0 && samples > 0));
            assert_true(samples < 2 || expected < samples);
        }
    }
}

static void an_epoch_draws_others_without_repetition(void **state)
{
    (void)state;
    uint64_t differ = 0, comparable = 0;
    for (uint64_t seed = 0; seed < TRIALS; seed++) {
        struct trial trial;
        uint32_t first[SAMPLES_MAX], again[SAMPLES_MAX], next[SAMPLES_MAX];
        draw_trial(seed, &trial);
        const struct view_sizes *sizes = &trial.sizes;
        view_draw(sizes, seed, 5, trial.others, first);
        view_draw(sizes, seed, 5, trial.others, again);
        view_draw(sizes, seed, 6, trial.others, next);
        assert_memory_equal(first, again, sizes->drawn * sizeof(first[0]));
        assert_true(is_rising(first, sizes->drawn));
        for (uint64_t i = 0; i < sizes->drawn; i++) {
            assert_int_equal(view_label(&trial.labels, trial.label[first[i]]), trial.labels.other);
        }
        if (sizes->drawn > 4 && sizes->others > 2 * sizes->drawn) {
            comparable++;
            differ += memcmp(first, next, sizes->drawn * sizeof(first[0])) != 0;
        }
    }
    assert_true(comparable > TRIALS / 20);
    assert_int_equal(differ, comparable);
}

static void the_number_of_others_follows_negatives(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < TRIALS; seed++) {
        struct trial trial;
        draw_trial(seed, &trial);
        const struct view_sizes *sizes = &trial.sizes;
        const double wanted = trial.view.negatives * (double)sizes->own;
        assert_true(sizes->drawn <= sizes->others);
        if (wanted <= 0) {
            assert_int_equal(sizes->drawn, 0);
        } else if (sizes->drawn < sizes->others) {
            const double distance = (double)sizes->drawn - wanted;
            assert_true(sizes->drawn >= 1);
            assert_true((distance <= 0.5 && distance >= -0.5) || (sizes->drawn == 1 && wanted < 1));
        }
        assert_int_equal(view_epoch(sizes), sizes->own + sizes->drawn);
    }
}

static void
the_hold_out_of_a_class_depends_neither_on_the_other_classes_nor_on_their_order(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < TRIALS / 4; seed++) {
        struct trial all, one;
        draw_trial(seed, &all);
        one = all;
        one.view.class_count = 1;
        one.view.class[0] = all.view.class[all.view.class_count - 1];
        split(&one);
        uint64_t found = 0;
        for (uint64_t i = 0; i < all.sizes.held; i++) {
            if (all.label[all.held[i]] == one.view.class[0]) {
                assert_int_equal(one.held[found++], all.held[i]);
            }
        }
        assert_int_equal(found, one.sizes.held);
    }
}

static void labels_are_positions_in_the_list_of_classes(void **state)
{
    (void)state;
    const struct view view = {.class = {7, 0, 1023}, .class_count = 3};
    struct view_labels labels;
    view_labels(&view, &labels);
    assert_int_equal(view_label(&labels, 7), 0);
    assert_int_equal(view_label(&labels, 0), 1);
    assert_int_equal(view_label(&labels, 1023), 2);
    assert_int_equal(view_label(&labels, 1), 3);
    assert_int_equal(view_label(&labels, 1024), 3);
    assert_int_equal(view_label(&labels, 65535), 3);
}

static void every_sample_is_about_equally_likely_to_be_held_out_and_drawn(void **state)
{
    (void)state;
    const struct view view = {.class = {1}, .class_count = 1, .negatives = 1, .holdout = 0.5};
    unsigned held_count[20] = {0}, drawn_count[20] = {0};
    for (uint64_t seed = 0; seed < TRIALS; seed++) {
        struct trial trial = {.seed = seed, .samples = 40, .view = view};
        uint32_t drawn[20];
        for (size_t i = 0; i < trial.samples; i++) {
            trial.label[i] = (int32_t)(i % 2);
        }
        split(&trial);
        assert_int_equal(trial.sizes.held, 10);
        assert_int_equal(trial.sizes.drawn, 10);
        view_draw(&trial.sizes, seed, 0, trial.others, drawn);
        for (size_t i = 0; i < 10; i++) {
            held_count[trial.held[i] / 2]++;
            drawn_count[drawn[i] / 2]++;
        }
    }
    for (size_t i = 0; i < 20; i++) {
        /* 2000 expected, standard deviation 32 */
        assert_in_range(held_count[i], 1840, 2160);
        assert_in_range(drawn_count[i], 1840, 2160);
    }
}

static void labels_are_read_at_any_alignment(void **state)
{
    (void)state;
    struct trial trial;
    unsigned char bytes[sizeof(trial.label) + 1];
    uint32_t own[SAMPLES_MAX], held[SAMPLES_MAX], others[SAMPLES_MAX];
    const struct view_samples out = {own, held, others};
    draw_trial(11, &trial);
    memcpy(bytes + 1, trial.label, sizeof(trial.label));
    view_split(&trial.view, trial.seed, bytes + 1, trial.samples, trial.count, &out);
    assert_memory_equal(own, trial.own, trial.sizes.own * sizeof(own[0]));
    assert_memory_equal(others, trial.others, trial.sizes.others * sizeof(others[0]));
}

static void a_shard_has_the_ranges_of_the_order_of_each_class(void **state)
{
    (void)state;
    static const struct view shard = {
        .is_shard = true, .range = {{3, 1, 2}, {0, 0, 4}}, .range_count = 2, .seed = 5};
    static const int32_t label[] = {3, 0, 3, 1, 0, 3, 0, 0, 3, 2000, -1};
    const uint64_t samples = sizeof(label) / sizeof(label[0]);
    uint32_t threes[] = {0, 2, 5, 8}, noughts[] = {1, 4, 6, 7}, order[11], own[6];
    const unsigned char *stored = (const unsigned char *)label;
    int64_t count[VIEW_CLASSES_MAX];
    struct view_sizes sizes;
    struct view_labels labels;
    view_count(stored, samples, count);
    view_sizes(&shard, count, VIEW_CLASSES_MAX, &sizes);
    assert_int_equal(view_epoch(&sizes), 6);
    assert_int_equal(sizes.held + sizes.others + sizes.drawn, 0);
    view_list_shard(&shard, stored, samples, count, order, own);
    shards_order(5, 0, noughts, 4);
    shards_order(5, 3, threes, 4);
    assert_memory_equal(own, noughts, sizeof(noughts));
    assert_memory_equal(own + 4, threes + 1, 2 * sizeof(threes[0]));
    view_labels(&shard, &labels); /* class numbers, of other classes too */
    for (int32_t class = 0; class < VIEW_CLASSES_MAX; class ++) {
        assert_int_equal(view_label(&labels, class), class);
    }
    assert_false(view_has_places(&shard));
}

static void a_range_beyond_its_class_and_a_class_listed_twice_are_misfits(void **state)
{
    (void)state;
    static const int64_t count[] = {4, 0, 9};
    static const struct {
        struct view_range range[3];
        size_t misfit;
    } cases[] = {
        {{{2, 0, 9}, {0, 3, 1}, {0, 0, 1}}, 2},
        {{{2, 1, 8}, {0, 4, 1}, {1, 0, 1}}, 1},
        {{{2, 1, 9}, {0, 3, 1}, {1, 0, 1}}, 0},
        {{{0, 0, 4}, {1, 0, 1}, {2, 0, 1}}, 1},
        {{{0, 0, 4}, {2, 8, 1}, {3, 0, 1}}, 2},
        {{{0, UINT32_MAX, UINT32_MAX}, {2, 8, 1}, {3, 0, 1}}, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct view shard = {.is_shard = true, .range_count = 3};
        memcpy(shard.range, cases[i].range, sizeof(cases[i].range));
        assert_int_equal(view_misfit(&shard, count, 3), cases[i].misfit);
        shard.range_count = cases[i].misfit;
        assert_int_equal(view_misfit(&shard, count, 3), cases[i].misfit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_is_own_held_out_or_of_another_class),
        cmocka_unit_test(the_numbers_of_labels_change_no_sample),
        cmocka_unit_test(each_own_class_gives_its_share_to_the_hold_out),
        cmocka_unit_test(an_epoch_draws_others_without_repetition),
        cmocka_unit_test(the_number_of_others_follows_negatives),
        cmocka_unit_test(
            the_hold_out_of_a_class_depends_neither_on_the_other_classes_nor_on_their_order),
        cmocka_unit_test(labels_are_positions_in_the_list_of_classes),
        cmocka_unit_test(every_sample_is_about_equally_likely_to_be_held_out_and_drawn),
        cmocka_unit_test(labels_are_read_at_any_alignment),
        cmocka_unit_test(a_shard_has_the_ranges_of_the_order_of_each_class),
        cmocka_unit_test(a_range_beyond_its_class_and_a_class_listed_twice_are_misfits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
