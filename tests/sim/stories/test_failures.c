/* Each kind of failure: which events follow in which order, and that the model equals the
 * undisturbed one. */
#include "tests/sim/stories/story.h"

static void undisturbed_the_job_runs_in_one_generation(void **state)
{
    (void)state;
    struct story *story = story_new(3);
    story_until(story, "center: job job1 running: runs generation 1 on 3 devices");
    story_until(story, "d1: runs generation 1");
    story_succeeds(story, 1);
    story_never(story, "center: generation_failed");
    story_free(story);
}

/* 20 samples are a batch: each evaluation takes some 25 s, and a step 0.1 s. */
static void evaluations_longer_than_many_steps_cost_no_generation(void **state)
{
    (void)state;
    struct story *story = story_new_evaluated(3, 20000);
    story_step(story, 30);
    const int64_t began_us = story->world.now_us;
    story_step(story, 31);
    assert_true(story->world.now_us - began_us > 10 * SECOND);
    story_succeeds(story, 1);
    story_never(story, "center: job_stalled");
    story_free(story);
}

/* The device of a stage dies in the middle of the job and stays dead. */
static void lose_stage(size_t stage)
{
    struct story *story = story_new(3);
    story_step(story, 15);
    faults_kill_device(&story->world, story_stage(story, stage), FOREVER);
    story_until(story, "center: generation_failed: generation 1:");
    story_until(story, "center: plan 2 of job1 preparing");
    story_until(story, "center: job job1 running: runs generation 2 on 2 devices");
    story_succeeds(story, 2);
    story_free(story);
}

static void the_first_stage_is_lost(void **state)
{
    (void)state;
    lose_stage(0);
}

static void a_middle_stage_is_lost(void **state)
{
    (void)state;
    lose_stage(1);
}

static void the_last_stage_is_lost(void **state)
{
    (void)state;
    lose_stage(2);
}

static void two_neighbours_are_lost_at_once(void **state)
{
    (void)state;
    struct story *story = story_new(3);
    story_step(story, 15);
    const size_t first = story_stage(story, 0), second = story_stage(story, 1);
    faults_kill_device(&story->world, first, FOREVER);
    faults_kill_device(&story->world, second, FOREVER);
    story_until(story, "center: generation_failed: generation 1:");
    story_until(story, "center: job job1 succeeded");
    story_free(story);
}

static void all_are_lost_and_one_returns(void **state)
{
    (void)state;
    struct story *story = story_new(3);
    story_step(story, 15);
    for (size_t i = 0; i < 3; i++) {
        faults_power_off(&story->world, i, i == 1 ? 20 * SECOND : FOREVER);
    }
    story_until(story, "center: generation_failed: generation 1:");
    story_until(story, "center: job job1 waiting_for_devices waiting_for_devices");
    story_until(story, "d2: starts as boot-2-2");
    story_until(story, "center: job job1 succeeded");
    story_free(story);
}

static void a_restarted_device_rejoins_the_job(void **state)
{
    (void)state;
    struct story *story = story_new(3);
    story_step(story, 15);
    faults_kill_device(&story->world, story_stage(story, 1), 300 * MS);
    story_until(story, "center: generation_failed: generation 1: device");
    story_until(story, "center: job job1 succeeded");
    story_never(story, "center: device_lost"); /* no lease had to expire */
    story_free(story);
}

static void a_device_that_was_lost_rejoins_the_job(void **state)
{
    (void)state;
    struct story *story = story_new(3);
    story_step(story, 15);
    faults_freeze(&story->world, story->world.agent[story_stage(story, 1)]->actor, 20 * SECOND);
    story_until(story, "center: device_lost");
    story_until(story, "center: job job1 running: runs generation 2 on 2 devices");
    story_succeeds(story, 2);
    story_pass(story, 20 * SECOND);
    const struct rows *rows = &story->world.coordinator->rows;
    for (size_t i = 0; i < rows->device_count; i++) {
        assert_int_equal(rows->device[i].state,
                         DEVICE_ONLINE); /* as a spare; its generation is refused */
    }
    story_free(story);
}

static void a_link_that_fails_and_heals_costs_at_most_one_generation(void **state)
{
    (void)state;
    struct story *story = story_new(3);
    story_step(story, 10);
    const int a = story->world.agent[story_stage(story, 0)]->actor,
              b = story->world.agent[story_stage(story, 1)]->actor;
    faults_cut(&story->world, a, b, true);
    faults_cut(&story->world, b, a, true);
    story_pass(story, 30 * SECOND);
    faults_cut(&story->world, a, b, false);
    faults_cut(&story->world, b, a, false);
    story_never(story, "center: device_lost");
    story_until(story, "center: job job1 succeeded");
    story_free(story);
}

static void without_their_coordinator_devices_train_on(void **state)
{
    (void)state;
    struct story *story = story_new(3);
    story_step(story, 10);
    faults_kill_coordinator(&story->world, 3 * SECOND);
    story_step(story, 14);
    assert_false(story->world.actor[ACTOR_COORDINATOR].up);
    story_until(story, "center: starts: 3 devices, 1 jobs");
    story_succeeds(story, 1);
    story_never(story, "center: generation_failed");
    story_free(story);
}

static void a_failure_during_prepare_makes_the_next_generation(void **state)
{
    (void)state;
    struct story *story = story_new(3);
    story_until(story, "center: job job1 preparing");
    story_until(story, "d1: prepares job1 generation 1");
    faults_kill_device(&story->world, 0, FOREVER);
    story_until(story, "center: generation_failed: generation 1:");
    story_until(story, "center: job job1 running: runs generation 2 on 2 devices");
    story_succeeds(story, 2);
    story_free(story);
}

static void with_too_few_devices_the_job_waits(void **state)
{
    (void)state;
    struct story *story = story_new_min(3, 3);
    story_step(story, 15);
    faults_kill_device(&story->world, story_stage(story, 2), 30 * SECOND);
    story_until(story, "center: job job1 waiting_for_devices waiting_for_devices");
    story_until(story, "center: job job1 running: runs generation 2 on 3 devices");
    story_succeeds(story, 2);
    story_free(story);
}

static void training_resumes_by_itself_after_power_loss_everywhere(void **state)
{
    (void)state;
    struct story *story = story_new(3);
    story_step(story, 15);
    for (size_t i = 0; i < 3; i++) {
        faults_power_off(&story->world, i, 10 * SECOND);
    }
    faults_kill_coordinator(&story->world, 12 * SECOND);
    story_until(story, "center: starts: 3 devices, 1 jobs");
    story_until(story, "center: job job1 running");
    story_until(story, "center: job job1 succeeded");
    story_free(story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(undisturbed_the_job_runs_in_one_generation),
        cmocka_unit_test(evaluations_longer_than_many_steps_cost_no_generation),
        cmocka_unit_test(the_first_stage_is_lost),
        cmocka_unit_test(a_middle_stage_is_lost),
        cmocka_unit_test(the_last_stage_is_lost),
        cmocka_unit_test(two_neighbours_are_lost_at_once),
        cmocka_unit_test(all_are_lost_and_one_returns),
        cmocka_unit_test(a_restarted_device_rejoins_the_job),
        cmocka_unit_test(a_device_that_was_lost_rejoins_the_job),
        cmocka_unit_test(a_link_that_fails_and_heals_costs_at_most_one_generation),
        cmocka_unit_test(without_their_coordinator_devices_train_on),
        cmocka_unit_test(a_failure_during_prepare_makes_the_next_generation),
        cmocka_unit_test(with_too_few_devices_the_job_waits),
        cmocka_unit_test(training_resumes_by_itself_after_power_loss_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
