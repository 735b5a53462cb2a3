/* Failed exports, and the blobs of failed jobs. */
#include "tests/unit/coordinator_core/story.h"

static void an_export_that_fails_is_tried_again(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 3, 6);
    assert_int_equal(world->exports, 1);
    world_exported(world, true);
    assert_state(world, id, JOB_RUNNING);
    world_exported(world, true); /* reported twice: one attempt */
    world_live(world, 11000);
    assert_int_equal(world->exports, 2);
    world_exported(world, false);
    assert_state(world, id, JOB_SUCCEEDED);
}

/* The trained version is whole in the center, and stays there. */
static void an_export_that_does_not_work_is_tried_with_longer_pauses(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 3, 6);
    for (int i = 0; i < 8; i++) {
        size_t exports = world->exports;
        world_exported(world, true);
        assert_state(world, id, JOB_RUNNING);
        assert_string_equal(world_job(world, id)->state_reason, "export_failed");
        assert_string_equal(core_device(world->core, world->agent[0].id.text)->job.text,
                            ""); /* no job waits for it */
        world_live(world, i < 5 ? 9500 << i : 300000);
        assert_int_equal(world->exports, exports);
        world_live(world, 22000);
        assert_int_equal(world->exports, exports + 1);
    }
    world_exported(world, false);
    assert_state(world, id, JOB_SUCCEEDED);
}

static void an_export_is_tried_as_soon_as_the_disk_has_room(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 3, 6);
    world_exported(world, true);
    struct event event = {.type = EVENT_DISK, .disk = {.nearly_full = false}};
    world_send(world, &event);
    world_pass(world, 1);
    assert_int_equal(world->exports, 2);
    world_exported(world, false);
    assert_state(world, id, JOB_SUCCEEDED);
}

/* Training cannot resume from half a version. */
static void a_partly_stored_version_of_a_failed_job_is_forgotten(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_half_stored(world, id);
    agent_fail(world, &world->agent[2], "diverged");
    agent_beat(world, &world->agent[2]);
    assert_state(world, id, JOB_FAILED);
    assert_int_equal(world_units(world, id), 0);
    assert_int_equal(world->deleted, 1);
}

/* Train a job, pause it, and let it go on: the version of the pause is in the center. */
static int64_t pause_and_resume(struct world *world, char id[ID_SIZE])
{
    story_run(world, id, 20);
    world_train(world, 4);
    world_verb(world, id, JOB_PAUSE);
    world_settle(world);
    assert_state(world, id, JOB_PAUSED);
    world_verb(world, id, JOB_RESUME);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    return world_job(world, id)->version;
}

/* An equal job that ends well must not take the blobs of one that failed with it, in this life or
 * the next. */
static void blobs_of_a_failed_job_outlive_an_equal_job(void **state)
{
    struct world *world = *state;
    char failed[ID_SIZE], again[ID_SIZE];
    story_devices(world);
    int64_t version = pause_and_resume(world, failed);
    assert_true(version > 0);
    story_report(world, &world->agent[2], "diverged");
    assert_state(world, failed, JOB_FAILED);
    world_settle(world);
    for (int life = 0; life < 2; life++) {
        assert_int_equal(pause_and_resume(world, again), version);
        story_finish(world, again); /* the world checks that no row loses its blob */
        world_restart(world);
    }
    assert_int_equal(world_units(world, failed), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(an_export_that_fails_is_tried_again),
        STORY(an_export_that_does_not_work_is_tried_with_longer_pauses),
        STORY(an_export_is_tried_as_soon_as_the_disk_has_room),
        STORY(a_partly_stored_version_of_a_failed_job_is_forgotten),
        STORY(blobs_of_a_failed_job_outlive_an_equal_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
