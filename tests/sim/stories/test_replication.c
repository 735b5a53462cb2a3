/* Rounds, replicas and suspicion (docs/protocol.md): committed versions survive, abandoned ones are
 * ignored, and no device waits longer than needed. */
#include "tests/sim/stories/story.h"

/* Three stages; a round to the neighbor at every second step, none to the center. */
static struct story *replicated(void)
{
    struct story *story = story_new(3);
    story->job->spec.neighbor_every = 2;
    story->job->spec.center_every = 0;
    return story;
}

static int64_t committed(const struct story *story)
{
    return story_job(story)->neighbor_version;
}

static int64_t resumed(const struct story *story)
{
    return rows_plan(&story->world.coordinator->rows, story->job->id.text)->resume_version;
}

static void two_devices_hold_every_committed_version(void **state)
{
    (void)state;
    struct story *story = replicated();
    story_step(story, 20);
    const int64_t version = committed(story);
    assert_true(version >= 10 && version % 2 == 0);
    for (int64_t unit = 0; unit < (int64_t)story->job->model->unit_count; unit++) {
        size_t copies = 0;
        for (size_t i = 0; i < 3; i++) {
            copies +=
                agent_snapshot(story->world.agent[i], story->job->id.text, version, unit) != NULL;
        }
        assert_int_equal(copies, 2);
    }
    story_succeeds(story, 1);
    story_free(story);
}

/* Any one device may die: the job resumes from the committed version or a newer one. */
static void lose_one(size_t stage)
{
    struct story *story = replicated();
    story_step(story, 20);
    const int64_t version = committed(story);
    faults_kill_device(&story->world, story_stage(story, stage), FOREVER);
    story_until(story, "center: generation_failed: generation 1");
    story_never(
        story,
        "center: device_lost"); /* its neighbours said that it refuses: no lease had to run out */
    story_until(story, "center: job job1 running: runs generation 2 on 2 devices");
    assert_true(version > 0 && resumed(story) >= version);
    story_until(story, "center: job job1 succeeded");
    story_free(story);
}

static void the_loss_of_any_device_costs_no_committed_step(void **state)
{
    (void)state;
    for (size_t stage = 0; stage < 3; stage++) {
        lose_one(stage);
    }
}

static void redundancy_comes_back_with_the_first_step(void **state)
{
    (void)state;
    struct story *story = replicated();
    story->job->spec.neighbor_every = 1000;
    story_step(story, 10);
    story_never(story, "d1: takes snapshot");
    users_ask(&story->world, story->job, JOB_REPLAN);
    story_until(story, "center: job job1 running: runs generation 2 on");
    story_step(story, resumed(story) + 5);
    assert_int_equal(committed(story), resumed(story) + 1);
    story_succeeds(story, 2);
    story_free(story);
}

static void power_loss_everywhere_costs_no_version_on_disk(void **state)
{
    (void)state;
    struct story *story = replicated();
    for (size_t i = 0; i < 3; i++) {
        story->world.agent[i]->keeps = true;
    }
    story_step(story, 20);
    const int64_t version = committed(story);
    for (size_t i = 0; i < 3; i++) {
        faults_power_off(&story->world, i, 10 * SECOND);
    }
    faults_kill_coordinator(&story->world, 12 * SECOND);
    story_until(story, "center: starts: 3 devices, 1 jobs");
    story_until(story, "center: generation_failed");
    story_until(story, "center: job job1 running");
    assert_true(version > 0 && resumed(story) >= version);
    story_until(story, "center: job job1 succeeded");
    story_free(story);
}

static void a_link_is_to_blame_when_both_its_ends_live(void **state)
{
    (void)state;
    struct story *story = replicated();
    story_step(story, 10);
    const int a = story->world.agent[story_stage(story, 0)]->actor,
              b = story->world.agent[story_stage(story, 1)]->actor;
    faults_cut(&story->world, a, b, true);
    faults_cut(&story->world, b, a, true);
    story_until(story, "center: generation_failed: generation 1: devices");
    story_until(story, "center: job job1 succeeded");
    story_never(story, "center: device_lost");
    story_free(story);
}

static void a_full_center_pauses_only_rounds_to_the_center(void **state)
{
    (void)state;
    struct story *story = replicated();
    story->job->spec.center_every = 2;
    story_step(story, 4);
    story->world.coordinator->disk_full = true;
    story_step(story, 12);
    const int64_t stored = story_job(story)->version;
    story_step(story, 24);
    assert_int_equal(story_job(story)->version, stored);
    assert_true(committed(story) > stored);
    story->world.coordinator->disk_full = false;
    story_succeeds(story, 1);
    story_free(story);
}

static void rounds_go_on_over_a_restart_of_the_coordinator(void **state)
{
    (void)state;
    struct story *story = replicated();
    story_step(story, 5);
    faults_kill_coordinator(&story->world, SECOND);
    story_until(story, "center: starts: 3 devices, 1 jobs");
    const int64_t before = committed(story);
    story_step(story, 39);
    assert_true(committed(story) > before);
    story_succeeds(story, 1);
    story_free(story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_devices_hold_every_committed_version),
        cmocka_unit_test(the_loss_of_any_device_costs_no_committed_step),
        cmocka_unit_test(redundancy_comes_back_with_the_first_step),
        cmocka_unit_test(power_loss_everywhere_costs_no_version_on_disk),
        cmocka_unit_test(a_link_is_to_blame_when_both_its_ends_live),
        cmocka_unit_test(a_full_center_pauses_only_rounds_to_the_center),
        cmocka_unit_test(rounds_go_on_over_a_restart_of_the_coordinator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
