/* Boots: restarted, outdated and unknown agents. */
#include <string.h>

#include "tests/unit/coordinator_core/story.h"

static void a_new_boot_in_a_plan_is_a_new_generation(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    agent_restart(world, &world->agent[1]);
    assert_int_equal(world->status, 200);
    assert_state(world, id, JOB_RECOVERING);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_RESTARTED);
    assert_int_equal(world_plan(world, id, 2)->stage_count, 3);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    story_finish(world, id);
}

static void the_same_boot_may_enrol_again(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    struct device_id before = world->agent[1].id;
    agent_enroll(world, &world->agent[1]);
    assert_string_equal(world->agent[1].id.text, before.text);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 1);
}

static void an_older_boot_is_fenced(void **state)
{
    struct world *world = *state;
    struct agent *a = world_agent(world, "a", 10);
    char before[ID_SIZE];
    memcpy(before, a->boot, sizeof(before));
    agent_restart(world, a);
    agent_beat(world, a);
    memcpy(a->heartbeat.boot, before, sizeof(before));
    agent_beat_again(world, a);
    assert_int_equal(world->problem, PROBLEM_STALE_BOOT);
    static struct assignment assignment;
    assert_false(core_assignment(world->core, a->id.text, before, &assignment));
    assert_true(core_assignment(world->core, a->id.text, a->boot, &assignment));
}

static void an_unknown_device_enrols_again(void **state)
{
    struct world *world = *state;
    struct agent *a = world_agent(world, "a", 10);
    struct device_id before = a->id;
    world_device_verb(world, a, DEVICE_DELETE);
    assert_int_equal(world->status, 204);
    agent_beat(world, a);
    assert_string_not_equal(a->id.text, before.text);
    assert_non_null(core_device(world->core, a->id.text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_new_boot_in_a_plan_is_a_new_generation),
        STORY(the_same_boot_may_enrol_again),
        STORY(an_older_boot_is_fenced),
        STORY(an_unknown_device_enrols_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
