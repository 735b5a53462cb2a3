/* The rows of a dead coordinator, fed to a new one, give the same durable state, and every job
 * continues. The world checks after every event that rows and state are equal. */
#include "tests/unit/coordinator_core/story.h"

static void an_empty_coordinator_restarts(void **state)
{
    struct world *world = *state;
    world_restart(world);
    assert_int_equal(core_dataset_count(world->core), 2);
    assert_non_null(core_dataset(world->core, "train"));
    assert_true(core_deadline_ms(world->core) == INT64_MAX);
}

static void a_running_job_runs_on(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    int64_t revision = core_job(world->core, id)->revision;
    world_restart(world);
    assert_state(world, id, JOB_RUNNING);
    assert_true(core_job(world->core, id)->revision > revision);
    world_settle(world);
    world_train(world, 5);
    assert_int_equal(world_job(world, id)->generation, 1);
    assert_int_equal(core_job(world->core, id)->progress.step, world->agent[0].step);
    story_finish(world, id);
    assert_int_equal(world_job(world, id)->generation, 1);
}

static void leases_restart_full(void **state)
{
    struct world *world = *state;
    struct agent *a = world_agent(world, "a", 10);
    world_pass(world, 4900);
    world_restart(world);
    assert_int_equal(core_device(world->core, a->id.text)->state, DEVICE_SUSPECT);
    world_pass(world, 4900);
    assert_int_equal(core_device(world->core, a->id.text)->state, DEVICE_SUSPECT);
    world_pass(world, 200);
    assert_int_equal(core_device(world->core, a->id.text)->state, DEVICE_LOST);
}

static void assignments_of_another_life_are_never_taken_for_new_ones(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 100);
    world_settle(world);
    struct agent *a = &world->agent[0];
    int64_t revision = core_assignment_revision(world->core, a->id.text);
    world_restart(world);
    assert_true(core_assignment_revision(world->core, a->id.text) > revision);
    agent_beat(world, a);
    a->heartbeat.revision += 1000000; /* the clock was set back */
    agent_beat_again(world, a);
    assert_true(core_assignment_revision(world->core, a->id.text) > a->heartbeat.revision);
    assert_int_equal(world->heartbeat_reply.revision,
                     core_assignment_revision(world->core, a->id.text));
}

static void a_queue_is_restored_in_its_order(void **state)
{
    struct world *world = *state;
    char running[ID_SIZE], old[ID_SIZE], urgent[ID_SIZE];
    (void)world_agent(world, "a", 10);
    struct job_spec spec = world_spec("running", 5);
    story_submit(world, running, &spec);
    spec = world_spec("old", 5);
    story_submit(world, old, &spec);
    spec.priority = 1;
    story_submit(world, urgent, &spec);
    world_restart(world);
    world_train(world, 10);
    world_exported(world, false);
    assert_state(world, urgent, JOB_PREPARING);
    assert_state(world, old, JOB_QUEUED);
}

static void a_first_prepare_continues(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("j", 20);
    story_submit(world, id, &spec);
    agent_follow(world, &world->agent[0]);
    agent_beat(world, &world->agent[0]);
    world_restart(world);
    assert_state(world, id, JOB_PREPARING);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 1);
}

/* The state of a replan lies on the devices alone: the new life asks them first. */
static void a_replan_under_way_restarts_from_the_devices_snapshots(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 10);
    story_replan(world, id, 2, 3);
    story_next(world, id);
    int64_t version = world_plan(world, id, 2)->resume_version;
    assert_true(version > 0);
    world_restart(world);
    assert_state(world, id, JOB_REPLANNING);
    assert_int_equal(world_plan(world, id, 2)->state, PLAN_DISCARDED);
    assert_true(core_job(world->core, id)->has_wish);
    for (size_t k = 0; k < 3; k++) {
        agent_beat(world,
                   &world->agent[k]); /* it is asked to enrol again and then lists what it holds */
    }
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_plan(world, id, 3)->resume_version, version);
    assert_int_equal(world_plan(world, id, 3)->reason, PLAN_RESTARTED);
    assert_int_equal(world_plan(world, id, 3)->stage[0].end, 2); /* as asked */
    assert_int_equal(world_plan(world, id, 3)->stage[1].end, 3);
    assert_false(world_job(world, id)->has_wish);
    story_finish(world, id);
}

static void a_replan_that_stops_keeps_its_stage_boundaries(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 10);
    story_replan(world, id, 2, 3);
    assert_int_equal(world_plan(world, id, 1)->state, PLAN_STOPPING);
    world_restart(world);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_plan(world, id, 2)->stage[0].end, 2);
    assert_int_equal(world_plan(world, id, 2)->stage[1].end, 3);
    assert_false(world_job(world, id)->has_wish);
    story_finish(world, id);
}

static void a_replan_whose_devices_are_gone_starts_from_the_center(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 10);
    world_verb(world, id, JOB_REPLAN);
    story_next(world, id);
    world_restart(world);
    world->agent[1].up = false;
    world_live(world, 8000);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_plan(world, id, 3)->resume_version, 0);
    assert_int_equal(world_plan(world, id, 3)->stage_count, 2);
}

/* What only devices hold outlives a pause, also where a device was away and has not reported to
 * this life of the coordinator. */
static void a_pause_keeps_what_only_devices_hold(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct agent *a = world_agent(world, "a", 10);
    struct job_spec spec = world_spec("j", 100);
    story_submit(world, id, &spec);
    world_train(world, 10);
    world_verb(world, id, JOB_REPLAN);
    story_next(world, id);
    const int64_t version = world_plan(world, id, 2)->resume_version;
    assert_true(version > 0);
    agent_tell_holdings(a); /* the report got lost */
    world_restart(world);
    world_verb(world, id, JOB_PAUSE);
    world_pass(world, 6000);
    assert_state(world, id, JOB_PAUSED);
    agent_beat(world, a);
    world_restart(world);
    assert_state(world, id, JOB_PAUSED);
    world_verb(world, id, JOB_RESUME);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    agent_beat(world, a);
    assert_int_equal(world_plan(world, id, 3)->reason, PLAN_RESUMED);
    assert_int_equal(world_plan(world, id, 3)->resume_version, version);
    story_finish(world, id);
}

/* Devices train on without the coordinator: a paused job keeps also the steps that nobody has
 * reported. */
static void a_pause_keeps_what_lost_devices_bring_back(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct agent *a = world_agent(world, "a", 10);
    struct job_spec spec = world_spec("j", 100);
    story_submit(world, id, &spec);
    world_train(world, 10);
    world_pass(world, 6000);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    world_verb(world, id, JOB_PAUSE);
    assert_state(world, id, JOB_PAUSED);
    for (int i = 0; i < 5; i++) {
        (void)agent_step(world, a);
    }
    const struct round_mark none = {0};
    const int64_t version = a->step;
    assert_true(version > 10);
    agent_snapshot(a, version, &none);
    agent_beat(world, a);
    agent_follow(world, a);
    world_verb(world, id, JOB_RESUME);
    agent_beat(world, a);
    assert_int_equal(world_plan(world, id, 2)->resume_version, version);
    story_finish(world, id);
}

static void a_pause_under_way_is_brought_to_its_end(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 10);
    world_verb(world, id, JOB_PAUSE);
    world_restart(world);
    assert_state(world, id, JOB_PAUSING);
    for (int i = 0; i < 30 && world_units(world, id) < 2; i++) {
        story_round(world, true);
    }
    assert_state(world, id, JOB_PAUSING);
    assert_true(world_units(world, id) >= 2);
    world_restart(world);
    assert_true(world_units(world, id) >= 2);
    world_settle(world);
    assert_state(world, id, JOB_PAUSED);
    int64_t version = world_job(world, id)->version;
    assert_true(version > 0);
    world_restart(world);
    assert_state(world, id, JOB_PAUSED);
    world_verb(world, id, JOB_RESUME);
    world_settle(world);
    assert_int_equal(world_plan(world, id, 2)->resume_version, version);
    story_finish(world, id);
}

static void an_export_under_way_is_asked_for_again(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 3, 10);
    assert_int_equal(world->exports, 1);
    world_restart(world);
    assert_int_equal(world->exports, 2);
    world_exported(world, false);
    assert_state(world, id, JOB_SUCCEEDED);
    assert_int_equal(world_units(world, id), 0);
}

static void a_remembered_pause_survives(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("j", 20);
    story_submit(world, id, &spec);
    world_verb(world, id, JOB_PAUSE);
    world_restart(world);
    assert_state(world, id, JOB_PAUSING);
    world_settle(world);
    assert_state(world, id, JOB_PAUSED);
}

static void devices_that_are_missing_from_the_rows_are_replaced(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 100);
    world->rows.device_count--; /* a damaged store */
    world->agent[2].up = false;
    world_restart(world);
    world_live(world, 6000);
    assert_int_equal(world_job(world, id)->generation, 2);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_plan(world, id, 2)->stage_count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(an_empty_coordinator_restarts),
        STORY(a_running_job_runs_on),
        STORY(leases_restart_full),
        STORY(assignments_of_another_life_are_never_taken_for_new_ones),
        STORY(a_queue_is_restored_in_its_order),
        STORY(a_first_prepare_continues),
        STORY(a_replan_under_way_restarts_from_the_devices_snapshots),
        STORY(a_replan_that_stops_keeps_its_stage_boundaries),
        STORY(a_replan_whose_devices_are_gone_starts_from_the_center),
        STORY(a_pause_keeps_what_only_devices_hold),
        STORY(a_pause_keeps_what_lost_devices_bring_back),
        STORY(a_pause_under_way_is_brought_to_its_end),
        STORY(an_export_under_way_is_asked_for_again),
        STORY(a_remembered_pause_survives),
        STORY(devices_that_are_missing_from_the_rows_are_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
