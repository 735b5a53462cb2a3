/* Averages that groups evaluate on the samples which their devices hold out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/model/holdout.h"
#include "libtrain/optim/mix.h"
#include "tests/support/test.h"
#include "tests/unit/agent/tiny.h"
#include "tests/unit/agent_gossip/groups.h"

#define COUNT 3
#define SHARE 0.3
#define MICRO_BATCH 4

static struct groups groups;
static uint32_t own[TINY_SAMPLES], held[TINY_SAMPLES];
static uint64_t held_count;

static void hold_out(struct assignment_run *run)
{
    run->job_spec.evaluate_every_epochs = 0;
    run->job_spec.test_local.holdout = SHARE;
    run->data.test_samples = (int64_t)held_count;
    run->data.epoch_samples = TINY_SAMPLES - run->data.test_samples;
}

/* All groups hold out the same: they have the same data and seed. */
static int setup(void **state)
{
    (void)state;
    struct err err = {0};
    struct job_spec spec = tiny_spec();
    spec.test_local.holdout = SHARE;
    const struct holdout holdout = job_holdout(&spec);
    held_count = holdout_count(&holdout, NULL, TINY_SAMPLES);
    assert_ok(holdout_split(&holdout, NULL, TINY_SAMPLES, own, held, &err), &err);
    assert_in_range(held_count, MICRO_BATCH + 1, TINY_SAMPLES / 2);
    return 0;
}

/* What a device says of a state: with that state in the stage, sample by sample. */
static struct mix_tests expected_of(struct group *group, const float *state)
{
    struct train_stage *train = keeper_train(group->work->keeper);
    struct mix_tests tests = {.samples = (int64_t)held_count};
    struct err err = {0};
    uint64_t correct = 0;
    float *before = group_copy(group);
    memcpy(group->state.parameter, state, group->state.parameters * sizeof(float));
    memcpy(group->state.statistic, state + group->state.parameters,
           group->state.statistics * sizeof(float));
    train_state_changed(train);
    for (uint64_t i = 0; i < held_count; i++) {
        int32_t label;
        memcpy(&label, tiny_job()->train.labels + held[i] * sizeof(label), sizeof(label));
        assert_ok(train_evaluate(train, 1, tiny_job()->train.inputs + held[i] * TINY_SAMPLE_BYTES,
                                 NULL, &label, &tests.loss, &correct, &err),
                  &err);
    }
    memcpy(group->state.parameter, before, group->state.parameters * sizeof(float));
    memcpy(group->state.statistic, before + group->state.parameters,
           group->state.statistics * sizeof(float));
    train_state_changed(train);
    free(before);
    tests.correct = (int64_t)correct;
    return tests;
}

static void expect_tests(struct group *group, const float *average)
{
    const struct mix_tests expected = expected_of(group, average);
    struct heartbeat *report = group_report(group);
    assert_true(report->mix.has_tests);
    assert_int_equal(report->mix.tests.samples, expected.samples);
    assert_int_equal(report->mix.tests.correct, expected.correct);
    assert_true(fabs(report->mix.tests.loss - expected.loss) < 1e-5 * expected.loss);
    free(report);
}

static void expect_no_tests(struct group *group)
{
    struct heartbeat *report = group_report(group);
    assert_false(report->mix.has_tests);
    free(report);
}

/* The coordinator need not wait for it. */
static void expect_failure(struct group *group)
{
    struct heartbeat *report = group_report(group);
    assert_true(report->mix.has_tests);
    assert_int_equal(report->mix.tests.samples, 0);
    free(report);
}

/* Group 0 computes the average of all, which the others adopt or only evaluate. */
static void check(double alpha)
{
    static const size_t all[COUNT] = {0, 1, 2}, author = 0;
    const float *copy[COUNT];
    groups_open_with(&groups, COUNT, hold_out);
    struct mix_order order = groups_order(MIX_AVERAGE, 5, alpha);
    for (size_t g = 0; g < COUNT; g++) {
        group_order(&groups.item[g], order, NULL, 0);
        copy[g] = group_copy(&groups.item[g]);
        group_boundary(&groups.item[g], 5);
    }
    float *average = group_copy(&groups.item[0]);
    mix_average(copy, COUNT, NULL, group_floats(&groups.item[0]), average);
    order.averages = true;
    group_order(&groups.item[author], order, all, COUNT);
    group_wait(&groups.item[author], MIXING_AVERAGES, MIX_FETCHED);
    expect_no_tests(&groups.item[author]);
    group_boundary(&groups.item[author], 9);
    expect_tests(&groups.item[author], average);
    groups_wait_averages(&groups, 1);
    assert_null(strstr(groups.query, "test_")); /* of one device's samples alone */
    for (size_t g = 1; g < COUNT; g++) {
        struct group *group = &groups.item[g];
        const float *wanted = alpha > 0 ? average : copy[g];
        group_order(group, groups_order(MIX_ADOPT, 5, alpha), &author, 1);
        group_wait(group, MIXING_AVERAGES, MIX_FETCHED);
        expect_no_tests(group);
        group_boundary(group, 11);
        float *now = group_copy(group);
        for (size_t i = 0; i < group_floats(group); i++) {
            const float apart = fabsf(now[i] - wanted[i]);
            assert_true(alpha > 0 ? apart < 1e-5F : apart <= 0);
        }
        free(now);
        expect_tests(group, average);
        struct heartbeat *report = group_report(group);
        assert_int_equal(report->mix.average.state, MIX_APPLIED);
        assert_int_equal(report->mix.mixes, alpha > 0);
        free(report);
    }
    for (size_t g = 0; g < COUNT; g++) {
        free((void *)(uintptr_t)copy[g]);
    }
    free(average);
    groups_close(&groups);
}

static void each_group_evaluates_the_average_that_it_adopts(void **state)
{
    (void)state;
    check(1);
}

static void a_group_fetches_an_average_to_evaluate_it_and_stays_as_it_is(void **state)
{
    (void)state;
    check(0);
}

/* What it has fetched is not applied either. */
static void a_group_that_stops_evaluates_no_more(void **state)
{
    (void)state;
    static const size_t both[] = {0, 1}, author = 0;
    groups_open_with(&groups, 2, hold_out);
    struct mix_order order = groups_order(MIX_AVERAGE, 5, 1);
    for (size_t g = 0; g < 2; g++) {
        group_order(&groups.item[g], order, NULL, 0);
        group_boundary(&groups.item[g], 5);
    }
    order.averages = true;
    group_order(&groups.item[0], order, both, 2);
    group_wait(&groups.item[0], MIXING_AVERAGES, MIX_FETCHED);
    group_boundary(&groups.item[0], 9);
    groups_wait_averages(&groups, 1);
    group_order(&groups.item[1], groups_order(MIX_ADOPT, 5, 1), &author, 1);
    group_wait(&groups.item[1], MIXING_AVERAGES, MIX_FETCHED);
    mixer_close(groups.item[1].mixer);
    group_boundary(&groups.item[1], 6);
    expect_failure(&groups.item[1]);
    assert_false(mixer_is_due(groups.item[1].mixer, 6));
    groups_close(&groups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_group_evaluates_the_average_that_it_adopts),
        cmocka_unit_test(a_group_fetches_an_average_to_evaluate_it_and_stays_as_it_is),
        cmocka_unit_test(a_group_that_stops_evaluates_no_more),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
