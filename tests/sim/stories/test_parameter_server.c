/* What becomes of a job whose devices share each batch when one of them fails: one that keeps no
 * units costs nothing but the step in progress. */
#include <string.h>

#include "tests/sim/speeds.h"
#include "tests/sim/stories/story.h"

#define SLOW_LINK 20e3 /* bytes per second */

/* Stage 0 keeps all units; the others only compute. */
static struct story *one_server(size_t devices)
{
    return story_new_as(
        &(struct story_setting){.devices = devices, .devices_min = 1, .steps = 40, .servers = 1});
}

static const struct plan *plan_of(const struct story *story)
{
    return rows_plan(&story->world.coordinator->rows, story->job->id.text);
}

static void assert_keeps(const struct story *story, size_t stage, bool keeps)
{
    const struct plan *plan = plan_of(story);
    assert_true(stage < plan->stage_count);
    assert_int_equal(plan->stage[stage].first < plan->stage[stage].end, keeps);
}

static void assert_redone(const struct story *story, const char *steps)
{
    assert_non_null(strstr(story->trace.text.data, steps));
}

static void undisturbed_the_job_runs_in_one_generation(void **state)
{
    (void)state;
    struct story *story = one_server(3);
    story_until(story, "center: job job1 running: runs generation 1 on 3 devices");
    assert_keeps(story, 0, true);
    assert_keeps(story, 1, false);
    assert_keeps(story, 2, false);
    story_succeeds(story, 1);
    story_free(story);
}

/* Nothing is known of the links at first: a step takes many times as long as predicted. */
static void steps_over_slow_links_are_no_stall(void **state)
{
    (void)state;
    struct story *story = one_server(3);
    story->world.speeds->link_bytes_per_second = SLOW_LINK;
    story_step(story, 2);
    assert_true(story->world.now_us > 40 * SECOND);
    story_never(story, "center: job_stalled");
    story_never(story, "center: generation_failed");
    story_free(story);
}

static void a_lost_worker_costs_no_step(void **state)
{
    (void)state;
    struct story *story = one_server(3);
    story_step(story, 15);
    assert_keeps(story, 2, false);
    faults_kill_device(&story->world, story_stage(story, 2), FOREVER);
    story_until(story, "center: job job1 recovering device_lost: stops: ");
    story_until(story, "center: plan 2 of job1 preparing device_lost");
    story_until(story, "center: job job1 running: runs generation 2 on 2 devices");
    story_until(story, "center: incident_resolved: ");
    assert_redone(story, ", 0 steps redone");
    story_succeeds(story, 2);
    story_never(story, "center: generation_failed");
    story_free(story);
}

static void a_restarted_worker_costs_no_step(void **state)
{
    (void)state;
    struct story *story = one_server(3);
    story_step(story, 15);
    faults_kill_device(&story->world, story_stage(story, 1), 100 * MS);
    story_until(story, "center: job job1 recovering restarted: stops: ");
    story_until(story, "center: plan 2 of job1 preparing restarted");
    story_until(story, "center: incident_resolved: ");
    assert_redone(story, ", 0 steps redone");
    story_succeeds(story, 2);
    story_never(story, "center: generation_failed");
    story_free(story);
}

static void all_workers_are_lost_at_once(void **state)
{
    (void)state;
    struct story *story = one_server(3);
    story_step(story, 15);
    const size_t workers[] = {story_stage(story, 1), story_stage(story, 2)};
    faults_power_off(&story->world, workers[0], FOREVER);
    faults_power_off(&story->world, workers[1], FOREVER);
    story_until(story, "center: job job1 recovering device_lost: stops: ");
    story_until(story, "center: job job1 running: runs generation 2 on 1 device");
    story_succeeds(story, 2);
    story_never(story, "center: generation_failed");
    story_free(story);
}

static void a_worker_that_does_not_reach_its_server_leaves_the_plan(void **state)
{
    (void)state;
    struct story *story = one_server(3);
    story_step(story, 15);
    const int server = ACTOR_DEVICE + (int)story_stage(story, 0);
    const int worker = ACTOR_DEVICE + (int)story_stage(story, 2);
    faults_cut(&story->world, worker, server, true);
    faults_cut(&story->world, server, worker, true);
    story_until(story, "center: job job1 recovering link: stops: ");
    story_until(story, "center: plan 2 of job1 preparing link");
    story_succeeds(story, 2);
    story_never(story, "center: generation_failed");
    story_free(story);
}

/* Two servers, which hold copies for each other, and a worker. */
static void lose_server(size_t stage)
{
    struct story *story = story_new_as(&(struct story_setting){
        .devices = 3, .devices_min = 1, .steps = 40, .servers = 2, .neighbor_every = 5});
    story_step(story, 18);
    assert_keeps(story, 0, true);
    assert_keeps(story, 1, true);
    assert_keeps(story, 2, false);
    assert_true(story_job(story)->neighbor_version >= 10);
    faults_kill_device(&story->world, story_stage(story, stage), FOREVER);
    story_until(story, "center: generation_failed: generation 1:");
    story_until(story, "center: plan 2 of job1 preparing device_lost from 1");
    story_succeeds(story, 2);
    story_free(story);
}

static void the_lead_is_lost(void **state)
{
    (void)state;
    lose_server(0);
}

static void another_server_is_lost(void **state)
{
    (void)state;
    lose_server(1);
}

static void without_the_coordinator_the_job_goes_on(void **state)
{
    (void)state;
    struct story *story = one_server(3);
    story_step(story, 10);
    faults_kill_coordinator(&story->world, 3 * SECOND);
    story_step(story, 20);
    story_succeeds(story, 1);
    story_free(story);
}

static void a_paused_job_goes_on_from_the_version_at_which_it_stopped(void **state)
{
    (void)state;
    struct story *story = one_server(3);
    story_step(story, 15);
    users_ask(&story->world, story->job, JOB_PAUSE);
    story_until(story, "center: job job1 paused");
    story_pass(story, 100 * MS); /* until it is committed */
    const int64_t version = story_job(story)->version;
    assert_true(version >= 15);
    story_until(story, "center: job job1 running: runs generation 2");
    assert_int_equal(plan_of(story)->resume_version, version);
    story_succeeds(story, 2);
    story_free(story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(undisturbed_the_job_runs_in_one_generation),
        cmocka_unit_test(steps_over_slow_links_are_no_stall),
        cmocka_unit_test(a_lost_worker_costs_no_step),
        cmocka_unit_test(a_restarted_worker_costs_no_step),
        cmocka_unit_test(all_workers_are_lost_at_once),
        cmocka_unit_test(a_worker_that_does_not_reach_its_server_leaves_the_plan),
        cmocka_unit_test(the_lead_is_lost),
        cmocka_unit_test(another_server_is_lost),
        cmocka_unit_test(without_the_coordinator_the_job_goes_on),
        cmocka_unit_test(a_paused_job_goes_on_from_the_version_at_which_it_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
