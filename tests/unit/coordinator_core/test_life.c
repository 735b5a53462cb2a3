/* The life of a job: events in, actions out. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/coordinator_core/story.h"

static void a_device_enrols(void **state)
{
    struct world *world = *state;
    (void)world_agent(world, "a", 10);
    assert_trace(world, "publish device_enrolled\n"
                        "reply 201 enroll_reply\n"
                        "persist device a online\n"
                        "wake assignment of a\n"
                        "reply 200 heartbeat_reply\n");
}

static void trace_of_ready_and_run(struct world *world)
{
    agent_follow(world, &world->agent[0]);
    agent_follow(world, &world->agent[1]);
    agent_follow(world, &world->agent[2]);
    agent_beat(world, &world->agent[0]);
    agent_beat(world, &world->agent[1]);
    assert_trace(world, "reply 200 heartbeat_reply\n" /* a prepares */
                        "reply 200 heartbeat_reply\n" /* a is ready */
                        "reply 200 heartbeat_reply\n"
                        "reply 200 heartbeat_reply\n");
    agent_beat(world, &world->agent[2]);
    assert_trace(world, "reply 200 heartbeat_reply\n"
                        "publish job_running\n"
                        "reply 200 heartbeat_reply\n"
                        "wake assignment of a\n"
                        "wake assignment of b\n"
                        "wake assignment of c\n"
                        "persist plan g1 running first from 0: a[0,1) b[1,2) c[2,5)\n"
                        "persist job j running\n");
}

static void trace_of_the_last_step(struct world *world, const char *id)
{
    for (int step = 0; step < 3; step++) {
        for (size_t i = 0; i < 3; i++) {
            agent_follow(world, &world->agent[i]);
            (void)agent_step(world, &world->agent[i]);
        }
    }
    agent_beat(world, &world->agent[0]);
    agent_beat(world, &world->agent[1]);
    world_clear(world);
    agent_beat(world, &world->agent[2]);
    assert_trace(world, "reply 200 heartbeat_reply\n" /* c has begun to run */
                        "reply 200 heartbeat_reply\n" /* c has stopped */
                        "wake assignment of a\n"
                        "wake assignment of b\n"
                        "wake assignment of c\n"
                        "persist plan g1 stopping first from 0: a[0,1) b[1,2) c[2,5)\n"
                        "persist job j running\n");
    assert_int_equal(world_job(world, id)->progress.step, 2);
}

static void trace_of_the_end(struct world *world, const char *id)
{
    agent_follow(world, &world->agent[0]);
    assert_true(agent_upload(world, &world->agent[0]));
    assert_trace(world, "persist center_unit\n"
                        "reply 204 nothing\n");
    assert_int_equal(world->exports, 0);
    world_settle(world);
    assert_int_equal(world->exports, 1);
    assert_int_equal(world->export_version, 2);
    assert_int_equal(world_units(world, id), 5);
    world_clear(world);
    world_exported(world, false);
    assert_trace(world, "persist checkpoint\n"
                        "publish checkpoint_stored\n"
                        "forget center_unit of j\n"
                        "delete blob state-2-of\n"
                        "delete blob state-2-of\n"
                        "delete blob state-2-of\n"
                        "delete blob state-2-of\n"
                        "delete blob state-2-of\n"
                        "publish job_succeeded\n"
                        "persist device a online\n"
                        "wake assignment of a\n"
                        "persist device b online\n"
                        "wake assignment of b\n"
                        "persist device c online\n"
                        "wake assignment of c\n"
                        "persist plan g1 done first from 0: a[0,1) b[1,2) c[2,5)\n"
                        "persist job j succeeded\n");
}

/* Enrol three devices, submit, ready, run, end, export, succeeded. */
static void a_job_lives_from_submission_to_success(void **state)
{
    struct world *world = *state;
    story_devices(world);
    world_clear(world);
    struct job_spec spec = story_spec(2);
    char id[ID_SIZE];
    story_submit(world, id, &spec);
    assert_trace(world, "publish job_queued\n"
                        "reply 201 job\n"
                        "plan j\n"
                        "publish job_planning\n"
                        "persist job j planning\n"
                        "publish job_preparing\n"
                        "publish plan_made\n"
                        "persist device a online in a job\n"
                        "wake assignment of a\n"
                        "persist device b online in a job\n"
                        "wake assignment of b\n"
                        "persist device c online in a job\n"
                        "wake assignment of c\n"
                        "persist plan g1 preparing first from 0: a[0,1) b[1,2) c[2,5)\n"
                        "persist job j preparing\n");
    trace_of_ready_and_run(world);
    trace_of_the_last_step(world, id);
    trace_of_the_end(world, id);
    assert_null(core_job(world->core, id));
    const struct job *row = world_job(world, id);
    assert_int_equal(row->version, 2);
    assert_string_equal(row->checkpoint.text, world->rows.checkpoint[0].id.text);
    assert_true(row->progress.fraction == 1);
    world_settle(world);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(world->agent[i].held_count, 0); /* dropped */
        assert_int_equal(agent_phase(&world->agent[i]), PHASE_IDLE);
    }
    world_clear(world);
    world_exported(world, false); /* reported twice */
    assert_trace(world, "");
    assert_int_equal(world->rows.checkpoint_count, 1);
}

static void progress_is_reported_at_once_but_rows_are_written_seldom(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    struct job_spec spec = story_spec(1000);
    spec.replan_first = spec.replan_every = 0;
    story_submit(world, id, &spec);
    world_settle(world);
    world_clear(world);
    int64_t revision = world_job(world, id)->revision;
    size_t stored = 0, shown = 0;
    for (int second = 0; second < 20; second++) {
        world_train(world, 3);
        world_live(world, 1000);
        int64_t now = core_job(world->core, id)->revision;
        shown += now > revision;
        assert_true(now <= revision + 2);
        revision = now;
        assert_int_equal(core_job(world->core, id)->progress.step, world->agent[0].step);
    }
    for (const char *at = world->trace.data; (at = strstr(at, "persist job")) != NULL; at++) {
        stored++;
    }
    assert_in_range(stored, 2, 6);
    assert_in_range(shown, 15, 20);
    assert_true(world->metrics >= 40);
    assert_true(core_job(world->core, id)->progress.has_loss);
}

/* The device repeats its last heartbeat with the losses of the steps [first, last], as measured in
 * that generation. */
static size_t tell_losses(struct world *world, struct agent *agent, const char *job,
                          int64_t generation, int64_t first, int64_t last)
{
    struct heartbeat *heartbeat = &agent->heartbeat;
    const size_t before = world->metrics;
    (void)snprintf(heartbeat->metrics_job.text, sizeof(heartbeat->metrics_job), "%s", job);
    heartbeat->metrics_generation = generation;
    heartbeat->metric_count = 0;
    for (int64_t step = first; step <= last; step++) {
        heartbeat->metric[heartbeat->metric_count++] =
            (struct metric){.step = step, .name = METRIC_LOSS, .value = 2};
    }
    agent_beat_again(world, agent);
    return world->metrics - before;
}

/* A device was silent while it trained. When it reports again it works for the next generation, or
 * for no job. */
static void metrics_of_steps_that_were_kept_may_come_late(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 0);
    world_train(world, 20);
    const int64_t before = world_job(world, id)->generation;
    agent_kill(&world->agent[1]);
    world_live(world, 6000);
    world_settle(world);
    const int64_t kept = core_job_plan(world->core, id)->resume_version;
    assert_true(world_job(world, id)->generation > before && kept > 10);
    struct agent *c = &world->agent[2];
    assert_int_equal(tell_losses(world, c, id, before, kept - 5, kept), 6);
    /* Others have reported later steps meanwhile. */
    assert_int_equal(tell_losses(world, &world->agent[0], id, before, kept - 8, kept - 6), 3);
    world_verb(world, id, JOB_PAUSE);
    world_settle(world);
    assert_int_equal(tell_losses(world, c, id, before + 1, kept - 3, kept - 3), 1);
}

static void metrics_of_abandoned_steps_and_strangers_are_not_taken(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 0);
    world_train(world, 20);
    const int64_t before = world_job(world, id)->generation;
    agent_kill(&world->agent[1]);
    world_live(world, 6000);
    world_settle(world);
    const int64_t kept = core_job_plan(world->core, id)->resume_version;
    struct agent *c = &world->agent[2];
    assert_int_equal(tell_losses(world, c, id, before, kept + 1, kept + 5), 0);
    assert_int_equal(tell_losses(world, c, id, before + 100, 1, 5), 0);
    assert_int_equal(tell_losses(world, c, "job_00000000000000000000000000", before, 1, 5), 0);
    assert_int_equal(tell_losses(world, world_agent(world, "stranger", 100), id, before, 1, 5), 0);
}

/* A coordinator that was killed may not have stored them, although it acknowledged them. */
static void repeated_metrics_are_stored_again_and_measure_nothing(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 3);
    assert_true(agent_step(world, &world->agent[0]));
    agent_beat(world, &world->agent[2]);
    const size_t metrics = world->metrics;
    const int64_t steps = core_job_plan(world->core, id)->measured_steps;
    agent_beat_again(world, &world->agent[0]);
    agent_beat_again(world, &world->agent[2]);
    assert_true(world->metrics > metrics);
    assert_int_equal(core_job_plan(world->core, id)->measured_steps, steps);
}

static void a_replan_moves_only_units_that_change_hands(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 10);
    const struct replan_request large = {.cut = {1, 2, 3, 4}, .cut_count = 4, .has_cuts = true};
    world_replan(world, id, &large);
    assert_int_equal(world->problem, PROBLEM_NOT_ENOUGH_DEVICES);
    assert_string_equal(world->text,
                        "4 stage boundaries make 5 stages; 3 devices are available to this job");
    story_replan(world, id, 2, 3);
    assert_int_equal(world->status, 202);
    assert_int_equal(world->job.state, JOB_REPLANNING);
    story_replan(world, id, 2, 3);
    assert_int_equal(world->problem, PROBLEM_WRONG_STATE);
    assert_string_equal(world->text, "a replan is in progress; retry when the job is running");
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    const struct plan *old = world_plan(world, id, 1), *new = world_plan(world, id, 2);
    assert_int_equal(old->state, PLAN_DONE);
    assert_int_equal(old->last_version, world->agent[0].step);
    assert_int_equal(new->reason, PLAN_REQUESTED);
    assert_int_equal(new->resume_version, old->last_version);
    assert_int_equal(new->stage[0].end, 2);
    assert_int_equal(new->stage[1].end, 3);
    /* a[0,1) b[1,2) c[2,5) -> a[0,2) b[2,3) c[3,5): units 1 and 2 */
    assert_int_equal(new->bytes_moved, 2000);
    world_settle(world);
    assert_int_equal(world->agent[0].held_count, 2); /* from where it resumed, as long as it runs */
    world_train(world, 200);
    world_exported(world, false);
    assert_state(world, id, JOB_SUCCEEDED);
}

static void a_replan_without_stage_boundaries_is_a_new_generation(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 4);
    for (int64_t generation = 2; generation <= 3; generation++) {
        world_verb(world, id, JOB_REPLAN);
        world_settle(world);
        assert_state(world, id, JOB_RUNNING);
        assert_int_equal(world_job(world, id)->generation, generation);
    }
    assert_int_equal(world_plan(world, id, 3)->bytes_moved, 0);
}

static void a_replan_can_name_its_devices_in_order(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 4);
    struct replan_request request = {
        .cut = {4}, .cut_count = 1, .has_cuts = true, .device_count = 2};
    request.device[0] = world->agent[2].id;
    request.device[1] = world->agent[0].id;
    world_replan(world, id, &request);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    const struct plan *plan = world_plan(world, id, 2);
    assert_int_equal(plan->stage_count, 2);
    assert_string_equal(plan->stage[0].device.text, world->agent[2].id.text);
    assert_int_equal(plan->stage[0].end, 4);
    assert_string_equal(core_device(world->core, world->agent[1].id.text)->job.text, "");
    world_train(world, 5); /* a version of the present placement is committed */
    assert_int_equal(world->agent[1].held_count, 0);
}

static void impossible_replans_are_refused(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("j", 100);
    story_submit(world, id, &spec);
    story_replan(world, id, 2, 3);
    assert_int_equal(world->problem, PROBLEM_WRONG_STATE);
    world_settle(world);
    story_replan(world, id, 2, 5);
    assert_int_equal(world->problem, PROBLEM_INVALID_FIELDS);
    const struct replan_request four = {.cut = {1, 2, 3}, .cut_count = 3, .has_cuts = true};
    world_replan(world, id, &four);
    assert_int_equal(world->problem, PROBLEM_NOT_ENOUGH_DEVICES);
    struct replan_request unknown = {.device_count = 1, .device = {{"dev_nobody"}}};
    world_replan(world, id, &unknown);
    assert_int_equal(world->problem, PROBLEM_INVALID_FIELDS);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_device_enrols),
        STORY(a_job_lives_from_submission_to_success),
        STORY(progress_is_reported_at_once_but_rows_are_written_seldom),
        STORY(repeated_metrics_are_stored_again_and_measure_nothing),
        STORY(metrics_of_steps_that_were_kept_may_come_late),
        STORY(metrics_of_abandoned_steps_and_strangers_are_not_taken),
        STORY(a_replan_moves_only_units_that_change_hands),
        STORY(a_replan_without_stage_boundaries_is_a_new_generation),
        STORY(a_replan_can_name_its_devices_in_order),
        STORY(impossible_replans_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
