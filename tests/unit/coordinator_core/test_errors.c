/* What devices and the store report as errors, and phases that take too long. */
#include <string.h>

#include "tests/unit/coordinator_core/story.h"

static void three_failures_in_prepare_end_the_job(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("j", 50);
    story_submit(world, id, &spec);
    for (int generation = 1; generation <= 3; generation++) {
        assert_int_equal(world_job(world, id)->generation, generation);
        agent_follow(world, &world->agent[0]);
        agent_fail(&world->agent[0], "data");
        agent_beat(world, &world->agent[0]);
    }
    assert_state(world, id, JOB_FAILED);
    assert_string_equal(world_job(world, id)->state_reason, "no_progress");
    assert_string_equal(world_job(world, id)->message, "device 'a': data: it went wrong");
    world_settle(world);
    assert_string_equal(core_device(world->core, world->agent[0].id.text)->job, "");
}

static void a_prepare_that_takes_too_long_fails(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    world->agent[1].stuck = true;
    struct job_spec spec = world_spec("j", 50);
    story_submit(world, id, &spec);
    world_settle(world);
    world_live(world, 59000);
    assert_int_equal(world_job(world, id)->generation, 1);
    world_live(world, 2000);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_PREPARE_FAILED);
    world->agent[1].stuck = false;
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

static void a_stop_that_takes_too_long_fails(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 50, 4);
    world_verb(world, id, JOB_PAUSE);
    world_live(world, 29000); /* nobody follows */
    assert_int_equal(world_job(world, id)->generation, 1);
    world_live(world, 2000);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_state(world, id, JOB_PAUSING);
    world_settle(world);
    assert_state(world, id, JOB_PAUSED);
}

static void an_error_at_the_same_step_every_time_ends_the_job(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 50);
    for (int i = 0; i < 4; i++) {
        world_settle(world);
        assert_state(world, id, JOB_RUNNING);
        world_train(world, 30);
        assert_true(world->agent[0].step > 20);
        for (size_t k = 0; k < 3; k++) {
            world->agent[k].step = world->agent[k].step > 20 ? 20 : world->agent[k].step;
        }
        agent_fail(&world->agent[2], "internal");
        agent_beat(world, &world->agent[2]);
    }
    assert_state(world, id, JOB_FAILED);
}

static void losses_with_progress_in_between_never_end_the_job(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 100);
    for (int i = 0; i < 10; i++) {
        world_train(world, 10);
        agent_restart(world, &world->agent[i % 3]);
        world_settle(world);
        assert_state(world, id, JOB_RUNNING);
    }
    story_finish(world, id);
}

static void a_job_that_diverges_fails_at_once(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 50, 5);
    agent_fail(&world->agent[2], "diverged");
    agent_beat(world, &world->agent[2]);
    assert_state(world, id, JOB_FAILED);
    assert_string_equal(world_job(world, id)->state_reason, "diverged");
    world_settle(world);
    assert_int_equal(world->agent[2].phase, PHASE_IDLE);
}

static void a_device_out_of_memory_gets_less(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("j", 50); /* the planner would make the same plan again */
    story_submit(world, id, &spec);
    world_settle(world);
    const struct plan_stage *stage = &world_plan(world, id, 1)->stage[2];
    int64_t before = stage->memory_bytes - stage->replica_bytes;
    agent_fail(&world->agent[2], "memory");
    agent_beat(world, &world->agent[2]);
    const struct plan *plan = world_plan(world, id, 2);
    for (size_t s = 0; s < plan->stage_count; s++) {
        if (strcmp(plan->stage[s].device.text, world->agent[2].id.text) == 0) {
            assert_true(plan->stage[s].memory_bytes <= before / 10 * 9); /* what it holds for others included */
        }
    }
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

/* A killed neighbour is told of at once by its peers; the job must not fail before the lease says who it was. */
static void an_error_with_a_peer_waits_for_the_lease(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 50, 5);
    world->agent[1].up = false;
    agent_fail(&world->agent[0], "peer");
    agent_fail(&world->agent[2], "peer");
    world_live(world, 4000);
    assert_int_equal(world_job(world, id)->generation, 1);
    world_live(world, 2000);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_DEVICE_LOST);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

static void an_error_with_a_peer_that_lives_is_the_links(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 50, 5);
    agent_fail(&world->agent[0], "peer");
    agent_beat(world, &world->agent[0]);
    world->agent[0].error[0] = '\0'; /* it goes again */
    world_live(world, 30000);
    assert_int_equal(world_job(world, id)->generation, 1);
    agent_fail(&world->agent[0], "peer");
    world_live(world, 30000);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_RESTARTED);
}

static void an_export_that_fails_is_tried_again(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 3, 6);
    assert_int_equal(world->exports, 1);
    world_exported(world, true);
    assert_state(world, id, JOB_RUNNING);
    world_exported(world, true); /* told twice: one attempt */
    world_live(world, 11000);
    assert_int_equal(world->exports, 2);
    world_exported(world, false);
    assert_state(world, id, JOB_SUCCEEDED);
}

static void an_export_that_never_works_fails_the_job(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 3, 6);
    for (int i = 0; i < 5; i++) {
        world_exported(world, true);
        world_live(world, 11000);
    }
    assert_state(world, id, JOB_FAILED);
    assert_string_equal(world_job(world, id)->state_reason, "export_failed");
    assert_int_equal(world_units(world, id), 5); /* its state is kept */
}

/* Nobody can go on from half a version. */
static void what_a_failed_job_had_only_begun_to_store_is_forgotten(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_half_stored(world, id);
    agent_fail(&world->agent[2], "diverged");
    agent_beat(world, &world->agent[2]);
    assert_state(world, id, JOB_FAILED);
    assert_int_equal(world_units(world, id), 0);
    assert_int_equal(world->deleted, 1);
}

/* An equal job that ends well must not take the blobs of one that failed with it, in this life or the next. */
static void what_a_failed_job_keeps_is_not_deleted_for_an_equal_one(void **state)
{
    struct world *world = *state;
    char failed[ID_SIZE], again[ID_SIZE];
    story_train(world, failed, 3, 6);
    for (int i = 0; i < 5; i++) {
        world_exported(world, true);
        world_live(world, 11000);
    }
    assert_state(world, failed, JOB_FAILED);
    for (int life = 0; life < 2; life++) {
        story_run(world, again, 3);
        story_finish(world, again); /* the world checks that no row loses its blob */
        world_restart(world);
    }
    assert_int_equal(world->deleted, 0);
    assert_int_equal(world_units(world, failed), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(three_failures_in_prepare_end_the_job),
        STORY(a_prepare_that_takes_too_long_fails),
        STORY(a_stop_that_takes_too_long_fails),
        STORY(an_error_at_the_same_step_every_time_ends_the_job),
        STORY(losses_with_progress_in_between_never_end_the_job),
        STORY(a_job_that_diverges_fails_at_once),
        STORY(a_device_out_of_memory_gets_less),
        STORY(an_error_with_a_peer_waits_for_the_lease),
        STORY(an_error_with_a_peer_that_lives_is_the_links),
        STORY(an_export_that_fails_is_tried_again),
        STORY(an_export_that_never_works_fails_the_job),
        STORY(what_a_failed_job_had_only_begun_to_store_is_forgotten),
        STORY(what_a_failed_job_keeps_is_not_deleted_for_an_equal_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
