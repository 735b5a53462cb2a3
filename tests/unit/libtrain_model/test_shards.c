#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/rng.h"
#include "libtrain/model/shards.h"
#include "tests/support/test.h"

#define CLASSES_MAX 40
#define TRIALS 3000

/* A random data set and a division of it. */
struct trial {
    int64_t count[CLASSES_MAX];
    double speed[SHARDS_MAX];
    struct shards_problem of;
    int64_t out[SHARDS_MAX * CLASSES_MAX];
};

static int64_t total_of(const struct trial *trial)
{
    int64_t total = 0;
    for (size_t c = 0; c < trial->of.class_count; c++) {
        total += trial->count[c];
    }
    return total;
}

static void draw_trial(uint64_t seed, struct trial *trial)
{
    static const double alphas[] = {0.01, 0.1, 0.3, 1, 10, 100};
    const struct rng_stream stream = rng_stream(seed, RNG_SIMULATION, 1, 0);
    *trial = (struct trial){.of = {.split = (enum shards_split)rng_below(&stream, 0, 4),
                                   .class_count = 1 + rng_below(&stream, 1, CLASSES_MAX),
                                   .shards = 1 + rng_below(&stream, 2, SHARDS_MAX),
                                   .least = 1 + (int64_t)rng_below(&stream, 3, 32),
                                   .seed = seed}};
    trial->of.count = trial->count;
    trial->of.speed = trial->speed;
    const bool drawn = trial->of.split == SHARDS_DIRICHLET || rng_below(&stream, 4, 2) == 1;
    trial->of.alpha = drawn ? alphas[rng_below(&stream, 5, 6)] : 0;
    trial->of.classes_per_shard = 1 + rng_below(&stream, 6, trial->of.class_count);
    for (size_t c = 0; c < trial->of.class_count; c++) {
        trial->count[c] = (int64_t)rng_below(&stream, 100 + c, 1 << rng_below(&stream, 7, 12));
    }
    for (size_t s = 0; s < trial->of.shards; s++) {
        trial->speed[s] = 0.01 + (double)rng_uniform(&stream, 200 + s);
    }
}

static bool divide(struct trial *trial)
{
    struct err err = {0};
    const int rc = shards_divide(&trial->of, trial->out, &err);
    assert_true(rc == 0 || rc == ERR_INVALID);
    return rc == 0;
}

static void check_whole(const struct trial *trial)
{
    const size_t classes = trial->of.class_count;
    for (size_t c = 0; c < classes; c++) {
        assert_int_equal(shards_first(trial->out, classes, trial->of.shards, c), trial->count[c]);
    }
    for (size_t s = 0; s < trial->of.shards; s++) {
        assert_true(shards_size(trial->out, classes, s) >= trial->of.least);
        for (size_t c = 0; c < classes; c++) {
            assert_true(trial->out[s * classes + c] >= 0);
        }
    }
}

static void every_sample_is_in_one_shard_and_every_shard_has_a_batch(void **state)
{
    (void)state;
    static struct trial trial, again;
    size_t divided[4] = {0};
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        draw_trial(seed, &trial);
        const bool enough = total_of(&trial) / (int64_t)trial.of.shards >= trial.of.least &&
                            (trial.of.split != SHARDS_BY_CLASS ||
                             trial.of.shards * trial.of.classes_per_shard >= trial.of.class_count);
        assert_int_equal(divide(&trial), enough);
        if (enough) {
            check_whole(&trial);
            divided[trial.of.split]++;
            draw_trial(seed, &again);
            assert_true(divide(&again));
            assert_memory_equal(again.out, trial.out, sizeof(trial.out));
        }
    }
    for (size_t split = 0; split < 4; split++) {
        assert_true(divided[split] > TRIALS / 20);
    }
}

static void sizes_follow_speeds_within_a_sample(void **state)
{
    (void)state;
    static struct trial trial;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        draw_trial(seed, &trial);
        trial.of.split = seed % 2 ? SHARDS_SPEED : SHARDS_EVEN;
        trial.of.least = 1;
        double sum = 0;
        for (size_t s = 0; s < trial.of.shards; s++) {
            trial.speed[s] = seed % 2 ? trial.speed[s] + 1 : 1; /* so that each has a sample */
            sum += trial.speed[s];
        }
        const double total = (double)total_of(&trial);
        if (total < 4 * SHARDS_MAX) {
            continue;
        }
        assert_true(divide(&trial));
        for (size_t s = 0; s < trial.of.shards; s++) {
            const double part = trial.speed[s] / sum * total;
            const double size = (double)shards_size(trial.out, trial.of.class_count, s);
            assert_true(fabs(size - part) < 1 + 1e-6);
        }
    }
}

/* Without alpha each class is divided as the whole is, within some samples. */
static void shards_by_speed_have_the_classes_of_the_whole(void **state)
{
    (void)state;
    static struct trial trial;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        draw_trial(seed, &trial);
        trial.of.split = SHARDS_SPEED;
        trial.of.alpha = 0;
        trial.of.least = 1;
        const double total = (double)total_of(&trial);
        if (total < 50 * SHARDS_MAX || !divide(&trial)) {
            continue;
        }
        for (size_t s = 0; s < trial.of.shards; s++) {
            const double size = (double)shards_size(trial.out, trial.of.class_count, s);
            for (size_t c = 0; c < trial.of.class_count; c++) {
                const double part = size * (double)trial.count[c] / total;
                assert_true(fabs((double)trial.out[s * trial.of.class_count + c] - part) < 3);
            }
        }
    }
}

/* Of Dirichlet(alpha) with n parts each proportion has mean 1/n and variance
 * (n - 1) / (n^2 (n alpha + 1)). */
static void proportions_have_the_moments_of_the_distribution(void **state)
{
    (void)state;
    enum { SHARDS = 5, CLASSES = 40, SAMPLES = 1000000, DRAWS = 50 };
    static const double alphas[] = {0.1, 0.3, 1, 5};
    static struct trial trial;
    for (size_t i = 0; i < 4; i++) {
        double sum = 0, squares = 0;
        for (uint64_t seed = 0; seed < DRAWS; seed++) {
            trial.of = (struct shards_problem){.split = SHARDS_DIRICHLET,
                                               .count = trial.count,
                                               .class_count = CLASSES,
                                               .shards = SHARDS,
                                               .alpha = alphas[i],
                                               .least = 1,
                                               .seed = seed};
            for (size_t c = 0; c < CLASSES; c++) {
                trial.count[c] = SAMPLES;
            }
            assert_true(divide(&trial));
            for (size_t c = 0; c < CLASSES; c++) {
                const double share = (double)trial.out[CLASSES + c] / SAMPLES; /* of shard 1 */
                sum += share;
                squares += share * share;
            }
        }
        const double draws = DRAWS * CLASSES, mean = sum / draws;
        const double variance = squares / draws - mean * mean;
        const double expected = (SHARDS - 1.0) / (SHARDS * SHARDS * (SHARDS * alphas[i] + 1));
        assert_true(fabs(mean - 1.0 / SHARDS) < 4 * sqrt(expected / draws));
        assert_true(variance > 0.85 * expected && variance < 1.15 * expected);
    }
}

static void shards_by_class_have_as_many_classes_as_they_may(void **state)
{
    (void)state;
    static struct trial trial;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        draw_trial(seed, &trial);
        trial.of.split = SHARDS_BY_CLASS;
        trial.of.least = 1;
        for (size_t c = 0; c < trial.of.class_count; c++) {
            trial.count[c] = 100; /* enough for each shard that has it */
        }
        if (!divide(&trial)) {
            continue;
        }
        for (size_t s = 0; s < trial.of.shards; s++) {
            size_t classes = 0;
            for (size_t c = 0; c < trial.of.class_count; c++) {
                classes += trial.out[s * trial.of.class_count + c] > 0;
            }
            assert_int_equal(classes, trial.of.classes_per_shard);
        }
    }
}

static void many_shards_with_little_alpha_are_repaired(void **state)
{
    (void)state;
    static struct trial trial;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        trial.of = (struct shards_problem){.split = SHARDS_DIRICHLET,
                                           .count = trial.count,
                                           .class_count = 10,
                                           .shards = SHARDS_MAX,
                                           .alpha = 0.1,
                                           .least = 32,
                                           .seed = seed};
        for (size_t c = 0; c < 10; c++) {
            trial.count[c] = 103; /* 6 samples more than one batch for each */
        }
        assert_true(divide(&trial));
        check_whole(&trial);
    }
}

static void a_class_has_one_order_for_each_seed(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    uint32_t sample[COUNT], again[COUNT], other[COUNT];
    bool seen[COUNT] = {false};
    for (uint32_t i = 0; i < COUNT; i++) {
        sample[i] = again[i] = other[i] = i;
    }
    shards_order(7, 3, sample, COUNT);
    shards_order(7, 3, again, COUNT);
    shards_order(7, 4, other, COUNT);
    assert_memory_equal(sample, again, sizeof(sample));
    assert_memory_not_equal(sample, other, sizeof(sample));
    for (size_t i = 0; i < COUNT; i++) {
        assert_false(seen[sample[i]]);
        seen[sample[i]] = true;
    }
    shards_order(7, 3, sample, 0);
    shards_order(7, 3, sample, 1);
}

static void what_cannot_be_divided_is_refused_with_its_reason(void **state)
{
    (void)state;
    const int64_t count[] = {10, 10};
    int64_t out[3 * 2];
    struct err err = {0};
    struct shards_problem problem = {
        .split = SHARDS_EVEN, .count = count, .class_count = 2, .shards = 3, .least = 7, .seed = 1};
    assert_int_equal(shards_divide(&problem, out, &err), ERR_INVALID);
    assert_string_equal(err.text, "20 samples for 3 shards: each needs at least 7");
    problem.least = 6;
    assert_int_equal(shards_divide(&problem, out, &err), 0);
    problem.split = SHARDS_BY_CLASS;
    problem.classes_per_shard = 1;
    problem.shards = 1;
    assert_int_equal(shards_divide(&problem, out, &err), ERR_INVALID);
    assert_string_equal(err.text, "1 shards of 1 classes each leave some of 2 classes out");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_is_in_one_shard_and_every_shard_has_a_batch),
        cmocka_unit_test(sizes_follow_speeds_within_a_sample),
        cmocka_unit_test(shards_by_speed_have_the_classes_of_the_whole),
        cmocka_unit_test(proportions_have_the_moments_of_the_distribution),
        cmocka_unit_test(shards_by_class_have_as_many_classes_as_they_may),
        cmocka_unit_test(many_shards_with_little_alpha_are_repaired),
        cmocka_unit_test(a_class_has_one_order_for_each_seed),
        cmocka_unit_test(what_cannot_be_divided_is_refused_with_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
