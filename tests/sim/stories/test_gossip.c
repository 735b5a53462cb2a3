/* Jobs of groups that mix: what the loss of a device, or a slow link, costs the others. */
#include "schema/groups_view.h"
#include "tests/sim/run.h"
#include "tests/sim/speeds.h"
#include "tests/sim/stories/story.h"

#define STEPS 120
#define SAMPLES 480      /* 20 steps of each of three groups */
#define HANGS 1000000000 /* per cent of the usual time of a task: it never ends */

static const struct gossip_options levelled = {.schedule = SCHEDULE_ROUNDS,
                                               .level = true,
                                               .classes_per_shard = 2,
                                               .average_every = 3,
                                               .adopt = true};
static const struct gossip_options passes = {
    .schedule = SCHEDULE_ROUNDS, .classes_per_shard = 2, .average_every = 2};

static struct story *begin(size_t devices, const struct gossip_options *options)
{
    return story_new_as(&(struct story_setting){.devices = devices,
                                                .devices_min = 2,
                                                .steps = STEPS,
                                                .gossip = options,
                                                .samples = SAMPLES});
}

/* The device of a group. */
static size_t device_of(const struct story *story, size_t group)
{
    const struct rows *rows = &story->world.coordinator->rows;
    const struct parent *parent = rows_parent(rows, story->job->id.text);
    assert_non_null(parent);
    const struct plan *plan = rows_plan(rows, parent->part[group].job.text);
    assert_non_null(plan);
    size_t device = 0;
    while (!id_equal(story->world.agent[device]->id.text, plan->stage[0].device.text)) {
        device++;
        assert_true(device < story->world.agent_count);
    }
    return device;
}

static const char *end(struct story *story)
{
    for (int second = 0; second < 600 && !users_served(&story->world); second++) {
        story_pass(story, SECOND);
    }
    assert_true(users_served(&story->world));
    assert_int_equal(story_job(story)->state, JOB_SUCCEEDED);
    return story_job(story)->state_reason;
}

/* Its devices are three, so that one passes in each round. */
static void a_group_that_begins_again_keeps_step(void **state)
{
    (void)state;
    struct story *story = begin(3, &levelled);
    for (size_t g = 0; g < 3; g++) {
        story_until(story, "center: row of job1: adopt");
        faults_kill_device(&story->world, device_of(story, g), SECOND);
    }
    assert_string_equal(end(story), "");
    story_free(story);
}

static void a_round_does_not_wait_for_a_lost_device(void **state)
{
    (void)state;
    struct story *story = begin(3, &passes);
    story_until(story, "center: row of job1: pair");
    faults_kill_device(&story->world, device_of(story, 1), FOREVER);
    assert_string_equal(end(story), "degraded");
    story_free(story);
}

static void rounds_go_on_after_the_coordinator_was_away(void **state)
{
    (void)state;
    struct story *story = begin(4, &passes);
    story_until(story, "center: row of job1: pair");
    faults_kill_coordinator(&story->world, 20 * SECOND);
    assert_string_equal(end(story), "");
    story_free(story);
}

/* A copy takes longer than a match of unknown links waits for it. */
static void groups_behind_slow_links_mix(void **state)
{
    (void)state;
    static const struct gossip_options async = GOSSIP_OPTIONS_DEFAULT;
    struct story *story = story_new_as(&(struct story_setting){
        .devices = 3, .devices_min = 3, .steps = 9000, .gossip = &async, .samples = SAMPLES});
    double bytes = 0;
    for (size_t u = 0; u < story->job->model->unit_count; u++) {
        bytes += (double)coordinator_unit_bytes(&story->world, story->job->model->name, (int64_t)u);
    }
    story->world.speeds->link_bytes_per_second = bytes / 6;
    story_until(story, "center: row of job1: pair");
    story_until(story, "center: row of job1: pair");
    assert_string_equal(end(story), "");
    story_free(story);
}

/* A group hangs in a step, before it has given its copy for the average that ends the job, and the
 * other one is lost. STEPS + 10: the job ends in the middle of a round. */
static void hang_at_the_end(const struct gossip_options *options)
{
    struct story *story = story_new_as(&(struct story_setting){.devices = 2,
                                                               .devices_min = 2,
                                                               .steps = STEPS + 10,
                                                               .gossip = options,
                                                               .samples = SAMPLES});
    story_until(story, "center: row of job1: pair");
    while (story_job(story)->progress.step < STEPS) {
        story_pass(story, MS);
    }
    story_until(story, "d1: takes average");
    assert_true(story->world.agent[0]->run->computing);
    speeds_slow(&story->world, 0, HANGS);
    faults_kill_device(&story->world, 1, FOREVER);
    story_until(story, "center: job_stalled");
    story_until(story, "center: generation_failed");
    speeds_slow(&story->world, 0, 100);
    faults_kill_device(&story->world, 0, SECOND);
    assert_string_equal(end(story), "degraded");
    story_free(story);
}

static void the_last_group_of_a_job_that_hangs_is_stalled(void **state)
{
    (void)state;
    static const struct gossip_options async = GOSSIP_OPTIONS_DEFAULT;
    hang_at_the_end(&async);
    hang_at_the_end(&passes);
}

/* The others do not wait for it longer than for a stop. */
static void a_group_that_hangs_at_the_end_is_left_out(void **state)
{
    (void)state;
    struct story *story = begin(3, &levelled);
    story_until(story, "center: row of job1: adopt");
    while (story_job(story)->progress.step < STEPS - 3) {
        story_pass(story, MS);
    }
    speeds_slow(&story->world, device_of(story, 1), HANGS);
    const int64_t from_us = story->world.now_us;
    assert_string_equal(end(story), "degraded");
    assert_true(story->world.now_us - from_us < 60 * SECOND);
    assert_non_null(strstr(story_job(story)->message, "group 1"));
    story_free(story);
}

/* Of all groups. */
static int64_t counted_steps(const struct story *story)
{
    static struct groups_view view;
    int64_t steps = 0;
    view = (struct groups_view){0};
    core_fill_groups(story->world.coordinator->core, story->job->id.text, &view);
    for (size_t g = 0; g < GROUPS_MAX; g++) {
        steps += view.group[g].mixes.steps;
    }
    return steps;
}

/* Before the first average: a group begins again from its beginning. */
static void a_restart_does_not_forget_steps_that_a_group_has_lost(void **state)
{
    (void)state;
    static const struct gossip_options rarely = {
        .level = true, .classes_per_shard = 2, .average_every = 1000};
    struct story *story = story_new_as(&(struct story_setting){.devices = 2,
                                                               .devices_min = 2,
                                                               .steps = 10 * STEPS,
                                                               .gossip = &rarely,
                                                               .samples = SAMPLES});
    story_until(story, "center: row of job1: pair");
    while (counted_steps(story) < 2 * STEPS) {
        story_pass(story, MS);
    }
    faults_kill_device(&story->world, device_of(story, 0), SECOND);
    story_until(story, "center: group_started: group 0");
    const int64_t steps = counted_steps(story);
    assert_true(steps > 2 * STEPS);
    faults_kill_coordinator(&story->world, SECOND);
    story_until(story, "center: group_started: group 0");
    story_pass(story, SECOND);
    assert_true(counted_steps(story) > steps);
    story_free(story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_that_begins_again_keeps_step),
        cmocka_unit_test(a_round_does_not_wait_for_a_lost_device),
        cmocka_unit_test(rounds_go_on_after_the_coordinator_was_away),
        cmocka_unit_test(groups_behind_slow_links_mix),
        cmocka_unit_test(the_last_group_of_a_job_that_hangs_is_stalled),
        cmocka_unit_test(a_group_that_hangs_at_the_end_is_left_out),
        cmocka_unit_test(a_restart_does_not_forget_steps_that_a_group_has_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
