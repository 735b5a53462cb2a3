/* A device that comes while a job runs joins when that is worth the move. */
#include "tests/unit/coordinator_core/story.h"

/* A job whose steps take seconds: `seconds` for each unit on a. */
static void slow_job(struct world *world, char id[ID_SIZE], int64_t steps, double seconds)
{
    struct agent *a = world_agent(world, "a", 10);
    struct job_spec spec = world_spec("j", steps);
    story_submit(world, id, &spec);
    world_train(world, 3);
    story_measure(world, a, seconds);
}

static void a_device_joins_when_it_is_worth_it(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    slow_job(world, id, 1000, 0.1);
    (void)world_agent(world, "b", 10);
    assert_state(world, id, JOB_REPLANNING);
    assert_string_equal(world_job(world, id)->state_reason, "device_joined");
    int64_t step = world->agent[0].step;
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    const struct plan *plan = world_plan(world, id, 2);
    assert_int_equal(plan->reason, PLAN_DEVICE_JOINED);
    assert_int_equal(plan->stage_count, 2);
    assert_int_equal(plan->resume_version, step); /* nothing is lost */
    assert_int_equal(world->rows.incident_count, 0);
}

static void a_joiner_that_fails_costs_one_generation(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    slow_job(world, id, 100000, 0.1);
    struct agent *b = world_agent(world, "b", 10);
    assert_state(world, id, JOB_REPLANNING);
    story_next(world, id);
    agent_follow(world, b);
    agent_fail(world, b, "disk");
    agent_beat(world, b);
    assert_int_equal(world_job(world, id)->generation, 3);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_plan(world, id, 3)->stage_count, 1);
    int64_t step = world_plan(world, id, 3)->resume_version;
    assert_int_equal(world_plan(world, id, 2)->resume_version, step);
    story_work(world, 600000);
    assert_int_equal(world_job(world, id)->generation, 3);
}

static void a_joiner_that_failed_joins_when_its_exclusion_is_over(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    slow_job(world, id, 100000, 0.1);
    struct agent *b = world_agent(world, "b", 10);
    story_next(world, id);
    agent_follow(world, b);
    agent_fail(world, b, "disk");
    agent_beat(world, b);
    story_work(world, 950000); /* 192 leases are 960 s */
    assert_int_equal(world_job(world, id)->generation, 3);
    story_work(world, 20000);
    assert_int_equal(world_job(world, id)->generation, 4);
    assert_int_equal(core_job_plan(world->core, id)->stage_count, 2);
}

/* Which devices had joined is not known after a restart: a failure weighs as much as any other. */
static void after_a_restart_no_device_counts_as_a_joiner(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    slow_job(world, id, 100000, 0.1);
    struct agent *a = &world->agent[0], *b = world_agent(world, "b", 10);
    world_settle(world);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_DEVICE_JOINED);
    world_restart(world);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 2);
    agent_fail(world, a, "disk");
    agent_beat(world, a);
    assert_int_equal(core_job_plan(world->core, id)->stage_count, 1);
    world_live(world, 35000); /* six leases, and not 192 */
    agent_restart(world, b);
    assert_int_equal(core_job_plan(world->core, id)->stage_count, 2);
}

static void a_device_that_comes_too_late_is_a_spare(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    slow_job(world, id, 5, 0.1);
    (void)world_agent(world, "b", 10);
    world_live(world, 3000);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 1);
}

static void a_move_pays_for_itself_before_the_next(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    slow_job(world, id, 100000, 0.1);
    struct agent *b = world_agent(world, "b", 10);
    world_settle(world);
    assert_int_equal(world_job(world, id)->generation, 2);
    world_train(world, 2);
    story_measure(world, b, 0.1);
    const struct agent *c = world_agent(world, "c", 1000);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_state(world, id, JOB_RUNNING);
    for (int i = 0; i < 100 && world_job(world, id)->state == JOB_RUNNING; i++) {
        world_live(world, 500);
    }
    assert_state(world, id, JOB_REPLANNING); /* it is looked at again when the cool-down is over */
    world_settle(world);
    assert_string_equal(core_device(world->core, c->id.text)->job.text, id);
}

/* An evaluation may take longer than the cool-down. */
static void a_change_waits_for_a_step_of_the_change_before(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    slow_job(world, id, 100000, 0.1);
    struct agent *b = world_agent(world, "b", 10);
    world_settle(world);
    assert_int_equal(world_job(world, id)->generation, 2);
    story_measure(world, b, 0.1);
    (void)world_agent(world, "c", 1000);
    for (int i = 0; i < 100; i++) {
        world_live(world, 500);
        assert_int_equal(world_job(world, id)->generation, 2);
        assert_state(world, id, JOB_RUNNING);
    }
}

/* Whatever is thought of its link, a plan whose steps are measured to be short gains nothing by
 * another device. */
static void a_plan_that_is_fast_is_left_alone(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct agent *a = world_agent(world, "a", 10), *b = world_agent(world, "b", 10);
    struct job_spec spec = world_spec("j", 1000);
    story_submit(world, id, &spec);
    world_train(world, 3);
    story_measure(world, a, 0.00003);
    story_measure(world, b, 0.00003);
    for (int i = 0; i < 5; i++) {
        agent_beat(world, a);
        a->heartbeat.link[0] = (struct link_report){.device = b->id,
                                                    .count = 10,
                                                    .seconds_sum = 10,
                                                    .bytes_sum = 10000,
                                                    .bytes_squared_sum = 1e7,
                                                    .bytes_seconds_sum = 1e4};
        a->heartbeat.link_count = 1;
        a->heartbeat.metric[0] =
            (struct metric){.step = ++a->step, .name = METRIC_STEP_SECONDS, .value = 0.0015};
        a->heartbeat.metric_count = 1;
        agent_beat_again(world, a);
    }
    (void)world_agent(world, "c", 1000);
    world_live(world, 3000);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 1);
}

static void a_job_with_all_the_devices_it_may_have_stays(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    (void)world_agent(world, "a", 10);
    struct job_spec spec = world_spec("j", 100000);
    spec.devices_max = 1;
    story_submit(world, id, &spec);
    world_train(world, 3);
    (void)world_agent(world, "b", 1000);
    assert_state(world, id, JOB_RUNNING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_device_joins_when_it_is_worth_it),
        STORY(a_joiner_that_fails_costs_one_generation),
        STORY(a_joiner_that_failed_joins_when_its_exclusion_is_over),
        STORY(after_a_restart_no_device_counts_as_a_joiner),
        STORY(a_device_that_comes_too_late_is_a_spare),
        STORY(a_move_pays_for_itself_before_the_next),
        STORY(a_change_waits_for_a_step_of_the_change_before),
        STORY(a_plan_that_is_fast_is_left_alone),
        STORY(a_job_with_all_the_devices_it_may_have_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
