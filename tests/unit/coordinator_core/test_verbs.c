/* Pause, resume and cancel in every state of a job. */
#include <string.h>

#include "tests/unit/coordinator_core/story.h"

static void a_pause_brings_the_state_into_the_center_and_a_resume_takes_it_from_there(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 10);
    world_verb(world, id, JOB_PAUSE);
    assert_int_equal(world->status, 202);
    assert_state(world, id, JOB_PAUSING);
    world_verb(world, id, JOB_PAUSE); /* once more: it is so already */
    assert_int_equal(world->status, 202);
    world_settle(world);
    assert_state(world, id, JOB_PAUSED);
    int64_t version = world_job(world, id)->version;
    assert_true(version >= 8);
    assert_int_equal(world_units(world, id), 5);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(core_device(world->core, world->agent[i].id.text)->job.text, "");
        assert_int_equal(world->agent[i].held_count, 0);
    }
    world_verb(world, id, JOB_RESUME);
    assert_int_equal(world->status, 202);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_RESUMED);
    assert_int_equal(world_plan(world, id, 2)->resume_version, version);
    world_train(world, 10);
    world_verb(world, id, JOB_PAUSE);
    world_settle(world);
    assert_true(world_job(world, id)->version > version);
    assert_int_equal(world_units(world, id), 5); /* the older version is forgotten */
    assert_int_equal(world->deleted, 5);
    world_verb(world, id, JOB_RESUME);
    world_train(world, 200);
    world_exported(world, false);
    assert_state(world, id, JOB_SUCCEEDED);
}

static void a_pause_before_the_first_step_needs_no_center(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 100);
    world_verb(world, id, JOB_PAUSE);
    world_settle(world);
    assert_state(world, id, JOB_PAUSED);
    assert_int_equal(world_job(world, id)->version, 0);
    assert_int_equal(world_units(world, id), 0);
    world_verb(world, id, JOB_RESUME);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

static void a_pause_while_preparing_is_remembered(void **state)
{
    struct world *world = *state;
    story_devices(world);
    struct job_spec spec = world_spec("j", 100);
    char id[ID_SIZE];
    story_submit(world, id, &spec);
    world_verb(world, id, JOB_PAUSE);
    assert_int_equal(world->status, 202);
    assert_state(world, id, JOB_PAUSING);
    world_settle(world);
    assert_state(world, id, JOB_PAUSED);
    assert_int_equal(world_plan(world, id, 1)->state, PLAN_DONE);
}

static void a_pause_overtakes_a_replan(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    story_replan(world, id, 2, 3);
    world_verb(world, id, JOB_PAUSE);
    assert_int_equal(world->status, 202);
    world_settle(world);
    assert_state(world, id, JOB_PAUSED);
    assert_int_equal(world_job(world, id)->generation, 1);
}

static void the_end_overtakes_a_pause(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 4);
    while (agent_step(world, &world->agent[0])) {
    }
    world_verb(world, id, JOB_PAUSE); /* stage 0 has begun the last step already */
    world_train(world, 10);
    assert_int_equal(world->exports, 1);
    world_verb(world, id, JOB_REPLAN);
    assert_int_equal(world->problem, PROBLEM_WRONG_STATE);
    world_exported(world, false);
    assert_state(world, id, JOB_SUCCEEDED);
}

static void resume_is_for_paused_jobs_only(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 100);
    world_verb(world, id, JOB_RESUME);
    assert_int_equal(world->problem, PROBLEM_WRONG_STATE);
    world_verb(world, "job_nobody", JOB_RESUME);
    assert_int_equal(world->problem, PROBLEM_UNKNOWN_JOB);
    struct event event = {.type = EVENT_JOB_VERB,
                          .job_verb = {.verb = JOB_PAUSE, .if_revision = 1}};
    memcpy(event.job_verb.job.text, id, ID_SIZE);
    world_send(world, &event);
    assert_int_equal(world->problem, PROBLEM_REVISION_MISMATCH);
}

/* Bring a fresh job into the state. */
static void reach(struct world *world, char id[ID_SIZE], enum job_state state)
{
    struct job_spec spec = world_spec("j", 100);
    spec.devices_min = state == JOB_QUEUED ? 4 : 1;
    story_submit(world, id, &spec);
    if (state == JOB_QUEUED || state == JOB_PREPARING) {
        return;
    }
    world_settle(world);
    world_train(world, 3);
    if (state == JOB_PAUSING || state == JOB_PAUSED) {
        world_verb(world, id, JOB_PAUSE);
    }
    if (state == JOB_PAUSED) {
        world_settle(world);
    }
    if (state == JOB_REPLANNING) {
        world_verb(world, id, JOB_REPLAN);
    }
    if (state == JOB_RECOVERING) {
        agent_restart(world, &world->agent[1]);
    }
    if (state == JOB_WAITING_FOR_DEVICES) {
        for (size_t i = 0; i < 3; i++) {
            world_device_verb(world, &world->agent[i], DEVICE_CORDON);
        }
        agent_restart(world, &world->agent[1]);
    }
}

static void a_job_can_be_cancelled_in_every_state(void **state)
{
    (void)state;
    static const enum job_state states[] = {JOB_QUEUED,     JOB_PREPARING,          JOB_RUNNING,
                                            JOB_REPLANNING, JOB_RECOVERING,         JOB_PAUSING,
                                            JOB_PAUSED,     JOB_WAITING_FOR_DEVICES};
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        struct world *world = world_new();
        char id[ID_SIZE];
        story_devices(world);
        reach(world, id, states[i]);
        assert_state(world, id, states[i]);
        world_verb(world, id, JOB_CANCEL);
        assert_int_equal(world->status, 202);
        assert_state(world, id, JOB_CANCELLED);
        assert_null(core_job(world->core, id));
        assert_int_equal(world_units(world, id), 0);
        world_settle(world);
        for (size_t k = 0; k < 3; k++) {
            assert_string_equal(core_device(world->core, world->agent[k].id.text)->job.text, "");
            assert_int_equal(world->agent[k].held_count, 0);
            assert_int_equal(agent_phase(&world->agent[k]), PHASE_IDLE);
        }
        world_free(world);
    }
}

static void every_verb_has_an_answer_in_every_state(void **state)
{
    (void)state;
    static const struct {
        enum job_state state;
        int pause, resume, replan; /* statuses; cancel is 202 everywhere, to keep or export 409
                                      without a version */
    } table[] = {
        {JOB_QUEUED, 202, 409, 409},     {JOB_PREPARING, 202, 409, 409},
        {JOB_RUNNING, 202, 409, 202},    {JOB_REPLANNING, 202, 409, 409},
        {JOB_RECOVERING, 202, 409, 409}, {JOB_PAUSING, 202, 409, 409},
        {JOB_PAUSED, 202, 202, 409},     {JOB_WAITING_FOR_DEVICES, 202, 202, 409},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const int expected[] = {[JOB_PAUSE] = table[i].pause,
                                [JOB_RESUME] = table[i].resume,
                                [JOB_REPLAN] = table[i].replan,
                                [JOB_CANCEL_KEEP] = table[i].state == JOB_PAUSED ? 202 : 409,
                                [JOB_EXPORT] = table[i].state == JOB_PAUSED ? 202 : 409};
        static const enum job_verb verbs[] = {JOB_PAUSE, JOB_RESUME, JOB_REPLAN, JOB_CANCEL_KEEP,
                                              JOB_EXPORT};
        for (size_t v = 0; v < sizeof(verbs) / sizeof(verbs[0]); v++) {
            struct world *world = world_new();
            char id[ID_SIZE];
            story_devices(world);
            reach(world, id, table[i].state);
            assert_state(world, id, table[i].state);
            world_verb(world, id, verbs[v]);
            assert_int_equal(world->status, expected[verbs[v]]);
            world_free(world);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_pause_brings_the_state_into_the_center_and_a_resume_takes_it_from_there),
        STORY(a_pause_before_the_first_step_needs_no_center),
        STORY(a_pause_while_preparing_is_remembered),
        STORY(a_pause_overtakes_a_replan),
        STORY(the_end_overtakes_a_pause),
        STORY(resume_is_for_paused_jobs_only),
        cmocka_unit_test(a_job_can_be_cancelled_in_every_state),
        cmocka_unit_test(every_verb_has_an_answer_in_every_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
