/* Errors reported by devices and the store, and phases that take too long. */
#include <string.h>

#include "tests/unit/coordinator_core/story.h"

static bool has_stage(const struct world *world, const char *id, const struct agent *agent)
{
    const struct plan *plan = core_job_plan(world->core, id);
    for (size_t s = 0; s < plan->stage_count; s++) {
        if (id_equal(plan->stage[s].device.text, agent->id.text)) {
            return true;
        }
    }
    return false;
}

static void a_device_that_fails_in_prepare_is_excluded(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("j", 50);
    story_submit(world, id, &spec);
    story_report(world, &world->agent[0], "data");
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_false(has_stage(world, id, &world->agent[0]));
    const struct incident *incident = core_job_incident(world->core, id);
    assert_int_equal(incident->device_count, 1);
    assert_string_equal(incident->device[0].name, "a");
    story_finish(world, id);
    assert_int_equal(world_job(world, id)->generation, 2);
}

static void a_device_that_fails_again_is_excluded_for_twice_as_long(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    int64_t last_ms = 0;
    story_devices(world);
    struct job_spec spec = world_spec("j", 50);
    story_submit(world, id, &spec);
    for (int i = 0; i < 3; i++) {
        story_report(world, &world->agent[0], "data");
        int64_t since_ms = world->now_ms;
        while (!has_stage(world, id, &world->agent[0])) {
            agent_restart(world,
                          &world->agent[1 + (world->now_ms / 1000) % 2]); /* no step completes */
            world_live(world, 1000);
            assert_true(world->now_ms - since_ms < 200000);
        }
        assert_in_range(world->now_ms - since_ms, 3 * last_ms / 2, 5 * last_ms / 2 + 35000);
        last_ms = world->now_ms - since_ms;
    }
    assert_true(last_ms > 100000);
}

static void one_failure_of_three_devices_before_the_first_step_fails_the_job(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("j", 50);
    story_submit(world, id, &spec);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(world_job(world, id)->generation, i + 1);
        story_report(world, &world->agent[i], "format");
    }
    assert_state(world, id, JOB_FAILED);
    assert_string_equal(world_job(world, id)->state_reason, "no_progress");
    assert_string_equal(world_job(world, id)->message, "device 'c': format: it went wrong");
    world_settle(world);
    assert_string_equal(core_device(world->core, world->agent[0].id.text)->job.text, "");
}

static void failures_of_different_kinds_do_not_fail_the_job(void **state)
{
    static const char *const codes[] = {"data", "memory", "internal"};
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("j", 50);
    story_submit(world, id, &spec);
    for (size_t i = 0; i < 3; i++) {
        story_report(world, &world->agent[i], codes[i]);
    }
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    world_live(world, 6000);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    story_finish(world, id);
}

/* Three devices fail at step 20 in the same way, each time the job has got there. */
static void fail_all(struct world *world, const char *id)
{
    for (size_t i = 0; i < 3; i++) {
        struct agent *agent = &world->agent[i];
        world_settle(world);
        assert_state(world, id, JOB_RUNNING);
        assert_true(has_stage(world, id, agent));
        for (int round = 0; round < 100 && agent->step < 20; round++) {
            world_train(world, 1);
        }
        assert_int_equal(agent->step, 20);
        story_report(world, agent, "internal");
    }
}

static void a_job_that_has_trained_waits_and_is_tried_again(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 50);
    fail_all(world, id);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    assert_string_equal(world_job(world, id)->state_reason, "no_progress");
    assert_non_null(strstr(world_job(world, id)->message,
                           "device 'c': internal: it went wrong; next attempt from step "));
    assert_non_null(strstr(world_job(world, id)->message, " in 5.0 s"));
    int64_t generation = world_job(world, id)->generation;
    world_live(world, 4500);
    assert_int_equal(world_job(world, id)->generation, generation);
    world_live(world, 1000);
    assert_int_equal(world_job(world, id)->generation, generation + 1);
    story_finish(world, id);
}

static void a_resume_retries_at_once(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 50);
    fail_all(world, id);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    world_verb(world, id, JOB_RESUME);
    assert_int_equal(world->status, 202);
    assert_int_equal(core_job_plan(world->core, id)->stage_count,
                     3); /* no device is excluded any more */
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    story_finish(world, id);
}

/* For example its disk is full: the job waits for it, with growing pauses, and continues when there
 * is room again. */
static void the_only_device_is_tried_again_with_longer_pauses(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct agent *a = world_agent(world, "a", 10);
    struct job_spec spec = world_spec("j", 50);
    story_submit(world, id, &spec);
    int64_t since_ms = world->now_ms;
    for (int i = 0; i < 6; i++) {
        int64_t generation = world_job(world, id)->generation;
        story_report(world, a, "data");
        assert_state(world, id, JOB_WAITING_FOR_DEVICES);
        assert_string_equal(world_job(world, id)->state_reason, "device_failed");
        assert_non_null(strstr(world_job(world, id)->message, "device 'a': data: it went wrong"));
        for (since_ms = world->now_ms; world_job(world, id)->generation == generation;) {
            world_live(world, 500);
        }
        assert_in_range(world->now_ms - since_ms, 4500 << i, (5000 << i) + 1000);
    }
    story_finish(world, id);
}

static void the_job_resumes_as_soon_as_another_device_enrols(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct agent *a = world_agent(world, "a", 10);
    struct job_spec spec = world_spec("j", 50);
    story_submit(world, id, &spec);
    story_report(world, a, "data");
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    (void)world_agent(world, "b", 10);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_false(has_stage(world, id, a));
    story_finish(world, id);
}

/* Another program held its memory, and has ended. */
static void the_only_device_is_given_its_memory_again(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct agent *a = world_agent(world, "a", 10);
    struct job_spec spec = world_spec("j", 50);
    story_submit(world, id, &spec);
    for (int i = 0; i < 3; i++) {
        story_report(world, a, "memory");
        assert_state(world, id, JOB_WAITING_FOR_DEVICES);
        assert_string_equal(world_job(world, id)->state_reason, "device_failed");
        world_live(world, (5000 << i) + 1000);
    }
    story_finish(world, id);
}

/* An operating system ends its process at every start. */
static void a_device_that_restarts_repeatedly_is_excluded(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 50);
    agent_restart(world, &world->agent[1]);
    assert_true(has_stage(world, id, &world->agent[1]));
    agent_restart(world, &world->agent[1]);
    assert_false(has_stage(world, id, &world->agent[1]));
    story_finish(world, id);
}

static void a_device_that_is_late_in_prepare_is_named_and_excluded(void **state)
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
    assert_false(has_stage(world, id, &world->agent[1]));
    const struct incident *incident = core_job_incident(world->core, id);
    assert_int_equal(incident->device_count, 1);
    assert_string_equal(incident->device[0].name, "b");
    assert_string_equal(
        incident->message,
        "phase prepare timed out 60 s after the plan was made: waited for device 'b'");
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

static void when_all_devices_are_late_none_is_excluded(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    for (size_t i = 0; i < 3; i++) {
        world->agent[i].stuck = true;
    }
    struct job_spec spec = world_spec("j", 50);
    story_submit(world, id, &spec);
    world_settle(world);
    world_live(world, 61000);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_int_equal(core_job_plan(world->core, id)->stage_count, 3);
    world_live(world, 122000 + 242000); /* a fourth one is not made at once */
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    assert_string_equal(world_job(world, id)->state_reason, "no_progress");
    for (size_t i = 0; i < 3; i++) {
        world->agent[i].stuck = false;
    }
    story_finish(world, id);
}

/* Its link is slow, and no other device can take its stage. */
static void a_late_device_gets_twice_the_time_next(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct agent *a = world_agent(world, "a", 10);
    a->stuck = true;
    struct job_spec spec = world_spec("j", 50);
    story_submit(world, id, &spec);
    for (int i = 0; i < 6; i++) {
        while (world_job(world, id)->state == JOB_WAITING_FOR_DEVICES) {
            world_live(world, 500);
            agent_follow(world, a);
        }
        int64_t since_ms = world->now_ms;
        while (world_job(world, id)->state != JOB_WAITING_FOR_DEVICES) {
            world_live(world, 500);
            agent_follow(world, a);
        }
        int64_t expected_ms = 60000 << (i < 4 ? i : 4);
        assert_in_range(world->now_ms - since_ms, expected_ms - 1000, expected_ms + 2000);
    }
    a->stuck = false;
    world_live(world, 301000);
    story_finish(world, id);
}

static void a_stop_that_takes_too_long_fails(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 50, 4);
    world_verb(world, id, JOB_PAUSE);
    world_live(world, 29000); /* no agent follows */
    assert_int_equal(world_job(world, id)->generation, 1);
    world_live(world, 2000);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_state(world, id, JOB_PAUSING);
    world_settle(world);
    assert_state(world, id, JOB_PAUSED);
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
    agent_fail(world, &world->agent[2], "diverged");
    agent_beat(world, &world->agent[2]);
    assert_state(world, id, JOB_FAILED);
    assert_string_equal(world_job(world, id)->state_reason, "diverged");
    world_settle(world);
    assert_int_equal(agent_phase(&world->agent[2]), PHASE_IDLE);
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
    agent_fail(world, &world->agent[2], "memory");
    agent_beat(world, &world->agent[2]);
    const struct plan *plan = world_plan(world, id, 2);
    for (size_t s = 0; s < plan->stage_count; s++) {
        if (id_equal(plan->stage[s].device.text, world->agent[2].id.text)) {
            assert_true(plan->stage[s].memory_bytes <=
                        before / 10 * 9); /* what it holds for others included */
        }
    }
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

/* Peers report a killed neighbour at once; the job must not fail before the lease shows which
 * device it was. */
static void an_error_with_a_peer_waits_for_the_lease(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 50, 5);
    world->agent[1].up = false;
    agent_fail(world, &world->agent[0], "peer");
    agent_fail(world, &world->agent[2], "peer");
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
    struct agent *a = &world->agent[0];
    agent_beat(world, a);
    a->heartbeat.has_error = true;
    (void)snprintf(a->heartbeat.error.code, sizeof(a->heartbeat.error.code), "peer");
    agent_beat_again(world, a); /* it goes again */
    world_live(world, 30000);
    assert_int_equal(world_job(world, id)->generation, 1);
    agent_fail(world, a, "peer");
    world_live(world, 30000);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_RESTARTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_device_that_fails_in_prepare_is_excluded),
        STORY(a_device_that_fails_again_is_excluded_for_twice_as_long),
        STORY(one_failure_of_three_devices_before_the_first_step_fails_the_job),
        STORY(failures_of_different_kinds_do_not_fail_the_job),
        STORY(a_job_that_has_trained_waits_and_is_tried_again),
        STORY(a_resume_retries_at_once),
        STORY(the_only_device_is_tried_again_with_longer_pauses),
        STORY(the_job_resumes_as_soon_as_another_device_enrols),
        STORY(the_only_device_is_given_its_memory_again),
        STORY(a_device_that_restarts_repeatedly_is_excluded),
        STORY(a_device_that_is_late_in_prepare_is_named_and_excluded),
        STORY(when_all_devices_are_late_none_is_excluded),
        STORY(a_late_device_gets_twice_the_time_next),
        STORY(a_stop_that_takes_too_long_fails),
        STORY(losses_with_progress_in_between_never_end_the_job),
        STORY(a_job_that_diverges_fails_at_once),
        STORY(a_device_out_of_memory_gets_less),
        STORY(an_error_with_a_peer_waits_for_the_lease),
        STORY(an_error_with_a_peer_that_lives_is_the_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
