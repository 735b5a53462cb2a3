/* Drops: versions that assignments let devices discard. No decision relies on them afterwards. */
#include "tests/unit/coordinator_core/story.h"

static void a_job_that_ends_is_dropped_until_it_is_gone(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    world_verb(world, id, JOB_REPLAN);
    world_settle(world);
    struct agent *a = &world->agent[0];
    assert_true(a->held_count > 0);
    assert_int_equal(story_assignment(world, a)->drop_count, 0);
    world_verb(world, id, JOB_CANCEL);
    const struct assignment *desired = story_assignment(world, a);
    assert_false(desired->has_run);
    assert_int_equal(desired->drop_count, 1);
    assert_string_equal(desired->drop[0].job.text, id);
    assert_true(desired->drop[0].below_version == INT64_MAX);
    agent_beat_again(world, a); /* it has not seen the order yet */
    assert_int_equal(story_assignment(world, a)->drop_count, 1);
    agent_follow(world, a);
    agent_beat(world, a);
    assert_int_equal(story_assignment(world, a)->drop_count, 0);
}

static void a_running_plan_keeps_its_start_and_drops_older_versions(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 100);
    for (int i = 0; i < 3; i++) {
        world_train(world, 5);
        world_verb(world, id, JOB_REPLAN);
        world_settle(world);
    }
    int64_t start = core_job_plan(world->core, id)->resume_version,
            committed = world_job(world, id)->neighbor_version;
    assert_true(0 < committed &&
                committed < start); /* a stop leaves one copy: the version before it stays */
    for (size_t i = 0; i < 3; i++) {
        assert_true(world->agent[i].held_count > 0);
        for (size_t k = 0; k < world->agent[i].held_count; k++) {
            assert_true(world->agent[i].held[k].version >= committed);
        }
    }
    world_train(world, 5);
    assert_int_equal(world_job(world, id)->neighbor_version, start + 1);
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < world->agent[i].held_count; k++) {
            assert_int_equal(world->agent[i].held[k].version, start + 1);
        }
    }
}

static void nothing_is_dropped_while_a_generation_is_prepared(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    story_replan(world, id, 2, 4);
    world_settle(world);
    agent_restart(world, &world->agent[1]);
    assert_state(world, id, JOB_RECOVERING);
    assert_int_equal(story_assignment(world, &world->agent[0])->drop_count, 0);
    assert_int_equal(story_assignment(world, &world->agent[2])->drop_count, 0);
}

/* After a pause devices drop the version; a resume must not take it from them, whether they have
 * said so or not. */
static void a_resume_does_not_rely_on_versions_that_a_pause_dropped(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    world_verb(world, id, JOB_PAUSE);
    while (core_job(world->core, id)->state != JOB_PAUSED) {
        story_round(world, true);
    }
    agent_follow(world, &world->agent[0]); /* drops, and says nothing yet */
    world_verb(world, id, JOB_RESUME);
    for (size_t k = 0; k < 3; k++) {
        const struct assignment *desired = story_assignment(world, &world->agent[k]);
        for (size_t i = 0; i < desired->run.source_count; i++) {
            assert_int_equal(desired->run.source[i].from, SOURCE_CENTER);
        }
    }
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

/* b leaves the plan, drops what it held without having said so, and is needed again. */
static void a_device_that_dropped_its_snapshots_fetches_them(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    struct agent *a = &world->agent[0], *b = &world->agent[1], *c = &world->agent[2];
    world_device_verb(world, b, DEVICE_CORDON);
    world_verb(world, id, JOB_REPLAN);
    while (core_job_plan(world->core, id)->generation == 1 ||
           core_job(world->core, id)->neighbor_version <=
               core_job_plan(world->core, id)->resume_version) {
        story_round(world, false);
    }
    agent_follow(world, b);
    assert_int_equal(b->held_count, 0);
    world_device_verb(world, b, DEVICE_UNCORDON);
    int64_t version = core_job(world->core, id)->neighbor_version;
    story_claim(world, c, 3);
    assert_int_equal(core_job_plan(world->core, id)->stage_count, 3);
    assert_int_equal(core_job_plan(world->core, id)->resume_version,
                     version); /* a and c hold all of it */
    const struct assignment *desired = story_assignment(world, b);
    assert_true(desired->has_run);
    for (size_t i = 0; i < desired->run.source_count; i++) {
        assert_int_equal(desired->run.source[i].from, SOURCE_DEVICE);
    }
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(a->generation, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_job_that_ends_is_dropped_until_it_is_gone),
        STORY(a_running_plan_keeps_its_start_and_drops_older_versions),
        STORY(nothing_is_dropped_while_a_generation_is_prepared),
        STORY(a_resume_does_not_rely_on_versions_that_a_pause_dropped),
        STORY(a_device_that_dropped_its_snapshots_fetches_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
