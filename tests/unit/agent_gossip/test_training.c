/* Groups whose compute threads run: mixes around and after the training, and its learning rate. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pipeline/pipeline_work.h"
#include "base/clock.h"
#include "libtrain/optim/mix.h"
#include "tests/support/test.h"
#include "tests/unit/agent/tiny.h"
#include "tests/unit/agent_gossip/groups.h"

#define WARMUP 100

static struct groups groups;

/* The compute thread of a group. */
struct compute {
    struct group *group;
    pthread_t thread;
    int rc;
    int64_t version;
    struct err err;
};

static void ignore(void *arg, const struct metric *metric)
{
    (void)arg;
    (void)metric;
}

static void *compute(void *arg)
{
    struct compute *compute = arg;
    const struct work_listener listener = {.metric = ignore};
    struct work *work = compute->group->work;
    compute->rc = pipeline_work.loop(work, &listener, &compute->version, &compute->err);
    if (compute->rc == 0) {
        pipeline_work.linger(work);
    }
    return NULL;
}

static void start(struct compute *out, size_t index)
{
    *out = (struct compute){.group = &groups.item[index]};
    assert_int_equal(pthread_create(&out->thread, NULL, compute, out), 0);
}

static void run(struct group *group)
{
    pipeline_work.follow(group->work, &(struct orders){.run = true});
}

/* Cancel it, as the end of a generation does. */
static void end(struct compute *compute)
{
    pipeline_work.cancel(compute->group->work);
    assert_int_equal(pthread_join(compute->thread, NULL), 0);
}

static void warm_up(struct assignment_run *assigned)
{
    assigned->job_spec.learning_rate.warmup_steps = WARMUP;
}

static float *trained_at(double rate, const float *from)
{
    struct job_spec spec = tiny_spec();
    spec.learning_rate.value = rate;
    const struct stage_config config = tiny_whole(&spec);
    struct stage *stage = tiny_stage(&config);
    struct train_stage *train = keeper_train(stage_keeper(stage));
    const struct train_state state = train_state(train);
    const struct work_listener listener = {.metric = ignore};
    int64_t version = 0;
    struct err err = {0};
    const size_t floats = state.parameters + state.statistics;
    float *out = malloc(floats * sizeof(*out));
    assert_non_null(out);
    memcpy(state.parameter, from, state.parameters * sizeof(float));
    memcpy(state.statistic, from + state.parameters, state.statistics * sizeof(float));
    train_state_changed(train);
    struct work *work = stage_work(stage);
    pipeline_work.follow(work, &(struct orders){.run = true});
    assert_ok(pipeline_work.loop(work, &listener, &version, &err), &err);
    memcpy(out, state.parameter, state.parameters * sizeof(float));
    memcpy(out + state.parameters, state.statistic, state.statistics * sizeof(float));
    stage_release(&stage);
    return out;
}

static void wait_step(struct group *group, int64_t step)
{
    struct heartbeat *heartbeat = calloc(1, sizeof(*heartbeat));
    assert_non_null(heartbeat);
    do {
        pipeline_work.measure(group->work, heartbeat);
    } while (heartbeat->step < step);
    free(heartbeat);
}

/* The optimizer is in the group's own step, its learning rate in the parent's. */
static void the_learning_rate_is_that_of_the_parents_step(void **state)
{
    (void)state;
    struct compute thread;
    groups_open_with(&groups, 1, warm_up);
    struct group *group = &groups.item[0];
    float *from = group_copy(group);
    const double rate = tiny_spec().learning_rate.value * 3.0 / WARMUP;
    float *expected = trained_at(rate, from);
    start(&thread, 0);
    run(group);
    wait_step(group, TINY_STEPS);
    end(&thread);
    float *now = group_copy(group);
    assert_memory_equal(now, expected, group_floats(group) * sizeof(float));
    free(now);
    free(expected);
    free(from);
    groups_close(&groups);
}

static void slow_down(struct assignment_run *assigned)
{
    assigned->mix.every = 1;
    assigned->mix.slows = true;
}

/* Nobody mixes with it: it makes a step in 0.2 s, and goes on after 2 s. */
static void a_group_that_slows_down_makes_its_steps_later(void **state)
{
    (void)state;
    struct compute thread;
    groups_open_with(&groups, 1, slow_down);
    struct group *group = &groups.item[0];
    start(&thread, 0);
    run(group);
    wait_step(group, 1);
    const double began = clock_now_seconds();
    wait_step(group, 3);
    assert_true(clock_now_seconds() - began >= 0.001 * (2 * MIXING_SLOW_MS - 50));
    wait_step(group, TINY_STEPS);
    end(&thread);
    groups_close(&groups);
}

static void groups_mix_before_their_training_and_only_give_after_it(void **state)
{
    (void)state;
    static const size_t index[] = {0, 1};
    struct compute thread[2];
    float *copy[2], *was[2];
    groups_open(&groups, 2);
    for (size_t i = 0; i < 2; i++) {
        copy[i] = group_copy(&groups.item[i]);
        was[i] = group_copy(&groups.item[i]);
        start(&thread[i], i);
    }
    for (size_t i = 0; i < 2; i++) {
        group_order(&groups.item[i], groups_order(MIX_PAIR, 7, 0.5), &index[1 - i], 1);
    }
    for (size_t i = 0; i < 2; i++) {
        group_wait(&groups.item[i], MIXING_PAIRS, MIX_APPLIED);
    }
    for (size_t i = 0; i < 2; i++) {
        run(&groups.item[i]);
        wait_step(&groups.item[i], TINY_STEPS);
    }
    for (size_t i = 0; i < 2; i++) {
        struct group *group = &groups.item[i];
        group_order(group, groups_order(MIX_AVERAGE, 8, 0), NULL, 0);
        group_wait(group, MIXING_AVERAGES, MIX_APPLIED);
        /* What the mix came to was trained. */
        const size_t at = group->state.parameters;
        mix_parameters(at, 0.5, copy[i], copy[1 - i], was[i]);
        mix_statistics(group->state.statistics, 0.5, copy[1 - i] + at, was[i] + at);
        float *expected = trained_at(tiny_spec().learning_rate.value, was[i]);
        float *now = group_copy(group);
        assert_memory_equal(now, expected, group_floats(group) * sizeof(float));
        free(now);
        free(expected);
    }
    for (size_t i = 0; i < 2; i++) {
        free(copy[i]);
        copy[i] = group_copy(&groups.item[i]); /* it does not train any more */
        free(was[i]);
        was[i] = group_copy(&groups.item[i]);
    }
    struct mix_order order = groups_order(MIX_AVERAGE, 8, 0);
    order.averages = true;
    group_order(&groups.item[1], order, index, 2);
    group_wait(&groups.item[1], MIXING_AVERAGES, MIX_APPLIED);
    groups_wait_averages(&groups, 1);
    for (size_t i = 0; i < 2; i++) {
        group_order(&groups.item[i], groups_order(MIX_PAIR, 9, 0.5), &index[1 - i], 1);
    }
    for (size_t i = 0; i < 2; i++) {
        group_wait(&groups.item[i], MIXING_PAIRS, MIX_EXPIRED);
    }
    for (size_t i = 0; i < 2; i++) {
        end(&thread[i]);
        float *now = group_copy(&groups.item[i]);
        assert_memory_equal(now, was[i], group_floats(&groups.item[i]) * sizeof(float));
        free(now);
        free(copy[i]);
        free(was[i]);
    }
    groups_close(&groups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_that_slows_down_makes_its_steps_later),
        cmocka_unit_test(the_learning_rate_is_that_of_the_parents_step),
        cmocka_unit_test(groups_mix_before_their_training_and_only_give_after_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
