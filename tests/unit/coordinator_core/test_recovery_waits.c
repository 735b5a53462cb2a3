/* How long a job waits for holdings of devices that may return before it retrains steps. */
#include "tests/unit/coordinator_core/story.h"

static int64_t start_of(const struct world *world, const char *id)
{
    return core_job_plan(world->core, id)->resume_version;
}

/* Steps take so long; then all devices lose power, and a is the first to return. Returns the
 * version that was committed: a alone has not all of it. */
static int64_t cut_power(struct world *world, char id[ID_SIZE], double step_seconds)
{
    story_replicated(world, id, 3, 0);
    for (size_t k = 0; k < 3; k++) {
        world->agent[k].disk = true;
    }
    world_train(world, 20);
    story_measure_step(world, step_seconds);
    int64_t committed = world_job(world, id)->neighbor_version;
    assert_true(committed > 10);
    for (size_t k = 0; k < 3; k++) {
        agent_kill(&world->agent[k]);
    }
    world_live(world, 6000);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    agent_restart(world, &world->agent[0]);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    assert_string_equal(world_job(world, id)->message,
                        "waits for its devices to report their snapshots");
    agent_beat(world, &world->agent[0]);
    return committed;
}

static void a_job_waits_for_holdings_of_the_next_device(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    int64_t committed = cut_power(world, id, 1);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    assert_string_equal(world_job(world, id)->state_reason, "gathering");
    assert_string_equal(world_job(world, id)->message,
                        "waits for absent devices that may hold a version newer than step 0");
    world_live(world, 2000);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    agent_restart(world, &world->agent[1]);
    agent_beat(world, &world->agent[1]); /* c is away still, and not missed */
    assert_state(world, id, JOB_RECOVERING);
    assert_int_equal(start_of(world, id), committed);
    agent_restart(world, &world->agent[2]);
    story_finish(world, id);
}

/* The wait is at most the time to retrain the steps, and at most a lease. */
static void waiting_for_more_holdings_takes_at_most_the_time_to_retrain(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    int64_t wait_ms = 100 * cut_power(world, id, 0.1);
    assert_true(wait_ms < 5000);
    world_pass(world, wait_ms - 1);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    world_pass(world, 2);
    assert_state(world, id, JOB_RECOVERING);
    assert_int_equal(start_of(world, id), 0);
}

static void waiting_for_more_holdings_takes_at_most_a_lease(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    (void)cut_power(world, id, 10);
    world_live(world, 4500);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    world_live(world, 500);
    assert_state(world, id, JOB_RECOVERING);
    assert_int_equal(start_of(world, id), 0);
}

/* Those that did not lose power, but were cut off all at once, come back one by one as well. */
static int64_t cut_off(struct world *world, char id[ID_SIZE], double step_seconds)
{
    story_replicated(world, id, 3, 0);
    world_train(world, 20);
    story_measure_step(world, step_seconds);
    int64_t committed = world_job(world, id)->neighbor_version;
    world_pass(world, 6000);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    agent_beat(world, &world->agent[0]);
    assert_string_equal(world_job(world, id)->state_reason, "gathering");
    return committed;
}

static void a_job_waits_for_unreachable_devices_too(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    int64_t committed = cut_off(world, id, 1);
    agent_beat(world, &world->agent[1]);
    assert_state(world, id, JOB_RECOVERING);
    assert_true(start_of(world, id) >= committed);
    story_finish(world, id);
}

static void waiting_for_unreachable_devices_takes_at_most_a_lease(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    (void)cut_off(world, id, 10);
    agent_kill(&world->agent[1]);
    agent_kill(&world->agent[2]);
    world_live(world, 4500);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    world_live(world, 500);
    assert_state(world, id, JOB_RECOVERING);
    assert_int_equal(start_of(world, id), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_job_waits_for_holdings_of_the_next_device),
        STORY(waiting_for_more_holdings_takes_at_most_the_time_to_retrain),
        STORY(waiting_for_more_holdings_takes_at_most_a_lease),
        STORY(a_job_waits_for_unreachable_devices_too),
        STORY(waiting_for_unreachable_devices_takes_at_most_a_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
