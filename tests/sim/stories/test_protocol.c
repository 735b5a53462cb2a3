/* Devices whose agents speak the previous version of the protocol (docs/protocol.md, "Versions").
 */
#include "tests/sim/stories/story.h"

/* Three devices, of which the ones marked 1 speak protocol 1. */
static struct story *mixed(const int old[3])
{
    struct story *story = story_new(3);
    for (size_t i = 0; i < 3; i++) {
        story->world.agent[i]->protocol = old[i] ? 1 : PROTOCOL_VERSION;
    }
    return story;
}

static void an_old_agent_trains_beside_new_ones(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct story *story = mixed((const int[]){i == 0, i == 1, i == 2});
        story_step(story, 10);
        story_until(story, "center: job job1 succeeded");
        story_never(story, "center: generation_failed");
        story_free(story);
    }
}

static void old_agents_train_alone(void **state)
{
    (void)state;
    struct story *story = mixed((const int[]){1, 1, 1});
    story_succeeds(story, 1);
    story_free(story);
}

static void an_agent_is_upgraded_in_mid_run(void **state)
{
    (void)state;
    struct story *story = mixed((const int[]){0, 1, 0});
    story_step(story, 10);
    faults_kill_device(&story->world, 1, SECOND);
    story->world.agent[1]->protocol = PROTOCOL_VERSION;
    story_until(story, "center: generation_failed: generation 1");
    story_until(story, "center: job job1 succeeded");
    story_free(story);
}

static void jobs_with_a_view_leave_out_old_agents(void **state)
{
    (void)state;
    struct story *story = story_new_as(&(struct story_setting){
        .devices = 3, .devices_min = 1, .stages = 2, .steps = 40, .view = true, .old = 1});
    story_step(story, 12);
    assert_true(story_stage(story, 0) > 0 && story_stage(story, 1) > 0);
    faults_kill_device(&story->world, story_stage(story, 1), FOREVER);
    story_until(story, "center: generation_failed: generation 1");
    story_succeeds(story, 2);
    assert_int_equal(story_job(story)->progress.epoch, 8); /* of 5 steps */
    story_free(story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_old_agent_trains_beside_new_ones),
        cmocka_unit_test(old_agents_train_alone),
        cmocka_unit_test(an_agent_is_upgraded_in_mid_run),
        cmocka_unit_test(jobs_with_a_view_leave_out_old_agents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
