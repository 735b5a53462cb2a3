/* Damage in the center's blobs, and in the copies that a device keeps itself. */
#include "tests/unit/coordinator_core/story.h"

static int64_t start_of(const struct world *world, const char *id)
{
    return core_job_plan(world->core, id)->resume_version;
}

static void damage_unit(struct world *world, int64_t version, int64_t unit)
{
    struct event event = {.type = EVENT_BLOB_DAMAGED, .blob_damaged = {.message = "a unit"}};
    unit_sha256(event.blob_damaged.sha256, version, unit);
    world_send(world, &event);
}

/* A unit of the job's whole version. */
static void damage(struct world *world, const char *id)
{
    damage_unit(world, world_job(world, id)->version, 1);
}

/* ---- a whole version ---- */

static void a_damaged_version_in_the_center_is_not_held_and_the_devices_are_asked(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 8);
    world_train(world, 20);
    const int64_t center = world_job(world, id)->version,
                  neighbor = world_job(world, id)->neighbor_version;
    assert_true(center >= 8 && center < neighbor);
    damage(world, id);
    assert_int_equal(world_job(world, id)->version, 0);
    assert_state(world, id, JOB_RUNNING);
    for (size_t i = 0; i < world->rows.unit_count; i++) {
        assert_true(world->rows.unit[i].version > center);
    }
    agent_kill(&world->agent[1]);
    world_live(world, 6000);
    assert_int_equal(start_of(world, id), neighbor);
}

static void a_paused_job_with_a_damaged_version_says_so_and_restarts(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 30, 5);
    world_verb(world, id, JOB_PAUSE);
    world_train(world, 10);
    world_settle(world);
    assert_state(world, id, JOB_PAUSED);
    assert_true(world_job(world, id)->version > 0);
    damage(world, id);
    assert_state(world, id, JOB_PAUSED);
    assert_int_equal(world_job(world, id)->version, 0);
    assert_holds(world_job(world, id)->message, "in the center is damaged");
    world_verb(world, id, JOB_RESUME);
    story_finish(world, id);
    assert_int_equal(world_job(world, id)->progress.step, 30);
}

static void
a_version_that_is_being_loaded_from_the_center_is_given_up_when_it_is_damaged(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 30, 5);
    world_verb(world, id, JOB_PAUSE);
    world_settle(world);
    world_verb(world, id, JOB_RESUME);
    assert_state(world, id, JOB_PREPARING);
    assert_true(start_of(world, id) > 0);
    damage(world, id);
    assert_int_equal(start_of(world, id), 0);
    world_settle(world);
    story_finish(world, id);
    assert_int_equal(world_job(world, id)->progress.step, 30);
}

/* ---- a version on its way ---- */

/* The newest unit row, of a version that is not whole yet. */
static const struct center_unit *coming_unit(const struct world *world)
{
    assert_true(world->rows.unit_count > 0);
    return &world->rows.unit[world->rows.unit_count - 1];
}

static void a_round_with_a_damaged_unit_is_abandoned_and_the_next_is_stored(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 0, 8);
    for (int i = 0; i < 100 && world->rows.unit_count == 0; i++) {
        for (size_t k = 0; k < 3; k++) { /* a alone stores a unit */
            agent_follow(world, &world->agent[k]);
            (void)agent_step(world, &world->agent[k]);
            (void)(k == 0 && agent_replicate(world, &world->agent[k]));
            agent_beat(world, &world->agent[k]);
        }
    }
    const struct center_unit unit = *coming_unit(world);
    assert_int_equal(world_job(world, id)->version, 0);
    damage_unit(world, unit.version, unit.unit);
    assert_int_equal(world_units(world, id), 0);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 1);
    world_train(world, 20);
    assert_true(world_job(world, id)->version > unit.version);
    story_finish(world, id);
}

static void the_last_version_is_stored_again_when_a_unit_of_it_is_damaged(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_half_stored(world, id);
    const struct center_unit unit = *coming_unit(world);
    damage_unit(world, unit.version, unit.unit);
    assert_int_equal(world_units(world, id), 0);
    assert_int_equal(start_of(world, id), 3); /* nothing is trained again */
    story_finish(world, id);
}

/* ---- an export ---- */

static void the_last_version_is_stored_again_when_its_export_finds_damage(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 3, 6);
    assert_int_equal(world->exports, 1);
    damage(world, id);
    world_exported(world, true);
    assert_int_equal(start_of(world, id), 3); /* nothing is trained again */
    world_settle(world);
    assert_int_equal(world->exports, 2);
    world_exported(world, false);
    assert_state(world, id, JOB_SUCCEEDED);
    assert_int_equal(world_job(world, id)->progress.step, 3);
}

/* Its devices have left and lost their copies since. */
static void a_job_whose_last_version_is_lost_retrains_it(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 3, 6);
    world_exported(world, true);
    for (size_t i = 0; i < 3; i++) {
        agent_restart(world, &world->agent[i]);
    }
    damage(world, id);
    assert_int_equal(world_job(world, id)->version, 0);
    world_live(world, 6000);
    assert_int_equal(start_of(world, id), 0);
    story_finish(world, id);
    assert_int_equal(world_job(world, id)->progress.step, 3);
}

static void an_export_is_not_repeated_after_its_version_was_lost(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 3, 6);
    world_exported(world, true);
    for (size_t i = 0; i < 3; i++) {
        agent_kill(&world->agent[i]);
    }
    damage(world, id);
    world_live(world, 400000);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    assert_int_equal(world->exports, 1);
    for (size_t i = 0; i < 3; i++) {
        agent_restart(world, &world->agent[i]);
    }
    world_live(world, 6000);
    story_finish(world, id);
    assert_int_equal(world_job(world, id)->progress.step, 3);
}

static void a_cancelled_job_that_cannot_keep_its_damaged_version_fails(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 0, 2);
    world_train(world, 10);
    assert_true(world_job(world, id)->version > 0);
    world_verb(world, id, JOB_CANCEL_KEEP);
    assert_state(world, id, JOB_CANCELLING);
    damage(world, id);
    assert_state(world, id, JOB_FAILED);
    assert_string_equal(world_job(world, id)->state_reason, "export_failed");
    assert_holds(world_job(world, id)->message, "is damaged in the center");
}

/* ---- a device's own copy ---- */

/* The device finds that its copy of a unit is damaged, drops it and reports it. */
static void find_damage(struct world *world, struct agent *agent)
{
    agent_follow(world, agent);
    agent_beat(world, agent);
    world->commit_count = 0; /* no promise holds against damage */
    agent->held_count = 0;
    agent_tell_holdings(agent);
    agent_fail(world, agent, "snapshot");
    agent_beat(world, agent);
}

static void a_device_whose_own_copy_is_damaged_is_not_excluded(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 8);
    world_train(world, 20);
    agent_restart(world, &world->agent[2]);
    agent_beat(world, &world->agent[2]);
    const int64_t start = start_of(world, id);
    assert_true(start > world_job(world, id)->version);
    find_damage(world, &world->agent[0]);
    const struct plan *plan = core_job_plan(world->core, id);
    assert_int_equal(plan->stage_count, 3);
    assert_true(plan->resume_version <= start);
    assert_true(plan->resume_version >= world_job(world, id)->version);
    story_finish(world, id);
}

/* A device that reports it repeatedly counts like any other failing one. */
static void a_device_that_finds_damage_repeatedly_is_excluded(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 8);
    world_train(world, 20);
    agent_restart(world, &world->agent[2]);
    agent_beat(world, &world->agent[2]);
    find_damage(world, &world->agent[0]);
    find_damage(world, &world->agent[0]);
    assert_int_equal(core_job_plan(world->core, id)->stage_count, 2);
    story_finish(world, id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_damaged_version_in_the_center_is_not_held_and_the_devices_are_asked),
        STORY(a_paused_job_with_a_damaged_version_says_so_and_restarts),
        STORY(a_version_that_is_being_loaded_from_the_center_is_given_up_when_it_is_damaged),
        STORY(a_round_with_a_damaged_unit_is_abandoned_and_the_next_is_stored),
        STORY(the_last_version_is_stored_again_when_a_unit_of_it_is_damaged),
        STORY(the_last_version_is_stored_again_when_its_export_finds_damage),
        STORY(a_job_whose_last_version_is_lost_retrains_it),
        STORY(an_export_is_not_repeated_after_its_version_was_lost),
        STORY(a_cancelled_job_that_cannot_keep_its_damaged_version_fails),
        STORY(a_device_whose_own_copy_is_damaged_is_not_excluded),
        STORY(a_device_that_finds_damage_repeatedly_is_excluded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
