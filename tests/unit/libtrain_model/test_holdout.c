#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "libtrain/model/holdout.h"
#include "tests/support/test.h"

#define SAMPLES 700
#define CLASSES 7

/* A data set and which of its samples are held out. */
struct trial {
    struct holdout of;
    uint64_t samples;
    int32_t label[SAMPLES];
    int64_t count[CLASSES];
    uint32_t own[SAMPLES], held[SAMPLES];
    bool is_held[SAMPLES];
    uint64_t helds;
};

static const unsigned char *labels_of(const struct trial *trial)
{
    return trial->of.classes > 0 ? (const unsigned char *)(const void *)trial->label : NULL;
}

static void draw(uint64_t seed, struct trial *trial)
{
    static const double shares[] = {0.01, 0.1, 0.2, 1.0 / 3, 0.5};
    const struct rng_stream stream = rng_stream(seed, RNG_SIMULATION, 2, 0);
    *trial = (struct trial){.of = {.share = shares[seed % 5],
                                   .seed = seed,
                                   .classes = rng_below(&stream, 0, 2) * CLASSES},
                            .samples = 1 + rng_below(&stream, 1, SAMPLES)};
    for (uint64_t i = 0; i < SAMPLES; i++) {
        trial->label[i] = (int32_t)rng_below(&stream, 10 + i, 1 + seed % CLASSES);
    }
}

static void split(struct trial *trial)
{
    struct err err = {0};
    size_t own = 0, held = 0;
    memset(trial->is_held, 0, sizeof(trial->is_held));
    assert_ok(holdout_classes(&trial->of, labels_of(trial), trial->samples, trial->count, &err),
              &err);
    trial->helds = holdout_count(&trial->of, trial->count, trial->samples);
    assert_ok(
        holdout_split(&trial->of, labels_of(trial), trial->samples, trial->own, trial->held, &err),
        &err);
    for (uint32_t i = 0; i < trial->samples; i++) { /* both rise, and have each sample once */
        trial->is_held[i] = held < trial->helds && trial->held[held] == i;
        held += trial->is_held[i];
        assert_true(trial->is_held[i] || trial->own[own] == i);
        own += !trial->is_held[i];
    }
    assert_int_equal(held, trial->helds);
}

static void each_class_has_its_share_and_a_data_set_one_sample_at_least(void **state)
{
    (void)state;
    static struct trial trial;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        draw(seed, &trial);
        split(&trial);
        assert_true(trial.helds >= 1);
        for (int32_t class = 0; class < CLASSES; class ++) {
            double all = 0, held = 0;
            bool last = false;
            for (uint64_t i = 0; i < trial.samples; i++) {
                if (trial.of.classes == 0 || trial.label[i] == class) {
                    all++;
                    held += trial.is_held[i];
                    assert_false(last && trial.is_held[i]); /* never two neighbours */
                    last = trial.is_held[i];
                }
            }
            const double share = trial.of.share * all;
            assert_true((held > share - 1.001 && held < share + 1) || trial.helds == 1);
        }
    }
}

/* Else an accuracy on held-out samples would be that of samples that were learned. */
static void samples_that_are_appended_hold_out_none_that_was_trained_on(void **state)
{
    (void)state;
    static struct trial trial;
    static bool trained[SAMPLES];
    for (uint64_t seed = 0; seed < 1000; seed++) {
        draw(seed, &trial);
        memset(trained, 0, sizeof(trained));
        for (uint64_t more = 1 + seed % 90; trial.samples <= SAMPLES; trial.samples += more) {
            split(&trial);
            for (uint64_t i = 0; i < trial.samples; i++) {
                assert_false(trained[i] && trial.is_held[i]);
                trained[i] = !trial.is_held[i];
            }
        }
    }
}

static void the_choice_depends_on_the_seed(void **state)
{
    (void)state;
    static struct trial a, b;
    size_t equal = 0;
    for (uint64_t seed = 1; seed < 101; seed++) {
        draw(seed, &a);
        a.samples = SAMPLES;
        b = a;
        b.of.seed += 1000;
        split(&a);
        split(&b);
        equal += memcmp(a.is_held, b.is_held, sizeof(a.is_held)) == 0;
        b.of.seed = a.of.seed;
        split(&b);
        assert_memory_equal(a.is_held, b.is_held, sizeof(a.is_held));
    }
    assert_true(equal < 60); /* half of a single class has two choices */
}

/* Known numbers: replays on any machine depend on them. */
static void the_choice_is_the_same_on_every_machine(void **state)
{
    (void)state;
    static struct trial trial;
    trial = (struct trial){.of = {.share = 0.2, .seed = 1, .classes = 2}, .samples = 24};
    for (int32_t i = 0; i < 24; i++) {
        trial.label[i] = i % 3 == 0;
    }
    split(&trial);
    static const uint32_t expected[] = {5, 12, 13, 20};
    assert_int_equal(trial.helds, sizeof(expected) / sizeof(expected[0]));
    assert_memory_equal(trial.held, expected, sizeof(expected));
}

static void a_label_without_a_class_is_an_error(void **state)
{
    (void)state;
    static struct trial trial;
    struct err err = {0};
    for (int32_t wrong = -1; wrong <= 3; wrong += 4) {
        trial = (struct trial){.of = {.share = 0.2, .seed = 1, .classes = 3}, .samples = 10};
        trial.label[9] = wrong;
        assert_int_equal(holdout_classes(&trial.of, labels_of(&trial), 10, trial.count, &err),
                         ERR_FORMAT);
        assert_int_equal(
            holdout_split(&trial.of, labels_of(&trial), 10, trial.own, trial.held, &err),
            ERR_FORMAT);
        assert_non_null(strstr(err.text, "sample 9"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_class_has_its_share_and_a_data_set_one_sample_at_least),
        cmocka_unit_test(samples_that_are_appended_hold_out_none_that_was_trained_on),
        cmocka_unit_test(the_choice_depends_on_the_seed),
        cmocka_unit_test(the_choice_is_the_same_on_every_machine),
        cmocka_unit_test(a_label_without_a_class_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
