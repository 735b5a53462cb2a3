/* Places in the table of devices: which devices keep theirs. */
#include <string.h>

#include "coordinator/core/state/state.h"
#include "tests/unit/coordinator_core/story.h"

static const struct device *find(const struct world *world, const struct agent *agent)
{
    return core_device(world->core, agent->id.text);
}

static void assert_lost(const struct world *world, const struct agent *agent)
{
    assert_non_null(find(world, agent));
    assert_int_equal(find(world, agent)->state, DEVICE_LOST);
}

static void a_lost_device_that_never_worked_is_removed_after_an_hour(void **state)
{
    struct world *world = *state;
    struct agent *idle = world_agent(world, "idle", 10);
    agent_kill(idle);
    world_pass(world, DEVICE_FORGET_MS);
    assert_lost(world, idle);
    world_clear(world);
    world_pass(world, world->config.lease_ms);
    assert_null(find(world, idle));
    assert_int_equal(world->rows.device_count, 0);
    assert_non_null(strstr(world->trace.data, "forget device of idle\npublish device_removed\n"));
}

static void every_loss_restart_and_cordon_restarts_the_hour(void **state)
{
    struct world *world = *state;
    struct agent *idle = world_agent(world, "idle", 10);
    agent_kill(idle);
    world_pass(world, DEVICE_FORGET_MS / 2);
    agent_restart(world, idle);
    agent_kill(idle);
    world_pass(world, DEVICE_FORGET_MS);
    assert_lost(world, idle);
    world_restart(world);
    world_pass(world, DEVICE_FORGET_MS - 1);
    assert_lost(world, idle);
    world_device_verb(world, idle, DEVICE_CORDON);
    world_pass(world, 3 * DEVICE_FORGET_MS);
    assert_lost(world, idle);
    world_device_verb(world, idle, DEVICE_UNCORDON);
    world_pass(world, DEVICE_FORGET_MS - 1);
    assert_lost(world, idle);
    world_pass(world, 1);
    assert_null(find(world, idle));
}

static void a_device_that_has_worked_stays_through_a_restart(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 2);
    story_finish(world, id);
    for (size_t i = 0; i < world->agent_count; i++) {
        agent_kill(&world->agent[i]);
    }
    world_pass(world, 2 * DEVICE_FORGET_MS);
    world_restart(world);
    world_pass(world, 2 * DEVICE_FORGET_MS);
    for (size_t i = 0; i < world->agent_count; i++) {
        assert_lost(world, &world->agent[i]);
    }
}

static void a_removed_device_that_comes_back_enrols_as_another(void **state)
{
    struct world *world = *state;
    struct agent *idle = world_agent(world, "idle", 10);
    const struct device_id before = idle->id;
    agent_kill(idle);
    world_pass(world, 2 * DEVICE_FORGET_MS);
    assert_null(find(world, idle));
    agent_restart(world, idle);
    assert_non_null(find(world, idle));
    assert_string_not_equal(idle->id.text, before.text);
    assert_int_equal(find(world, idle)->state, DEVICE_ONLINE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_lost_device_that_never_worked_is_removed_after_an_hour),
        STORY(every_loss_restart_and_cordon_restarts_the_hour),
        STORY(a_device_that_has_worked_stays_through_a_restart),
        STORY(a_removed_device_that_comes_back_enrols_as_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
