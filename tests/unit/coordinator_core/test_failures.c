/* After every failure the job continues with a new generation, or states why it cannot. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/coordinator_core/story.h"

/* The device dies without a word; its lease runs out. */
static void lose(struct world *world, struct agent *agent)
{
    agent->up = false;
    world_live(world, 6000);
    assert_int_equal(core_device(world->core, agent->id.text)->state, DEVICE_LOST);
}

static void a_silent_device_is_suspect_then_lost_then_online_again(void **state)
{
    struct world *world = *state;
    struct agent *a = world_agent(world, "a", 10);
    world_pass(world, 2400);
    assert_int_equal(core_device(world->core, a->id.text)->state, DEVICE_ONLINE);
    world_pass(world, 200);
    assert_int_equal(core_device(world->core, a->id.text)->state, DEVICE_SUSPECT);
    agent_beat(world, a);
    assert_int_equal(core_device(world->core, a->id.text)->state, DEVICE_ONLINE);
    world_pass(world, 4999);
    assert_int_equal(core_device(world->core, a->id.text)->state, DEVICE_SUSPECT);
    world_pass(world, 1);
    assert_int_equal(core_device(world->core, a->id.text)->state, DEVICE_LOST);
    assert_true(core_deadline_ms(world->core) >
                world->now_ms + 60000); /* nothing is left to wait for but its removal */
    agent_beat(world, a);
    assert_int_equal(core_device(world->core, a->id.text)->state, DEVICE_ONLINE);
}

static void a_late_turn_extends_the_leases(void **state)
{
    struct world *world = *state;
    struct agent *a = world_agent(world, "a", 10);
    int64_t due = core_deadline_ms(world->core);
    world->now_ms = due + 60000; /* the machine slept */
    struct event event = {.type = EVENT_TICK};
    world_send(world, &event);
    assert_int_equal(core_device(world->core, a->id.text)->state, DEVICE_ONLINE);
    world_pass(world, 4999);
    assert_int_equal(core_device(world->core, a->id.text)->state, DEVICE_SUSPECT);
    world_pass(world, 1);
    assert_int_equal(core_device(world->core, a->id.text)->state, DEVICE_LOST);
}

static void a_device_lost_while_running_is_excluded(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 10);
    lose(world, &world->agent[1]);
    assert_state(world, id, JOB_RECOVERING);
    const struct plan *plan = world_plan(world, id, 2);
    assert_int_equal(plan->reason, PLAN_DEVICE_LOST);
    assert_int_equal(plan->stage_count, 2);
    assert_int_equal(plan->resume_version, 0); /* nothing newer was kept */
    assert_int_equal(world_plan(world, id, 1)->state, PLAN_DONE);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    story_finish(world, id);
}

static void after_a_pause_a_loss_costs_the_steps_since(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 10);
    world_verb(world, id, JOB_PAUSE);
    world_settle(world);
    int64_t version = world_job(world, id)->version;
    world_verb(world, id, JOB_RESUME);
    world_settle(world);
    world_train(world, 10);
    int64_t committed = world_job(world, id)->neighbor_version;
    assert_int_equal(committed, version + 1); /* redundancy comes back at once */
    lose(world, &world->agent[0]);
    assert_int_equal(world_plan(world, id, 3)->resume_version, committed);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    story_finish(world, id);
}

static void the_version_of_the_last_replan_is_a_start_while_it_is_held(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 10);
    world_verb(world, id, JOB_REPLAN);
    world_settle(world);
    int64_t version = world_plan(world, id, 2)->resume_version;
    assert_true(version > 0);
    agent_fail(world, &world->agent[2], "data");
    agent_beat(world, &world->agent[2]);
    assert_int_equal(world_plan(world, id, 3)->resume_version, version);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    story_finish(world, id);
}

static void a_device_lost_while_preparing_is_excluded(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("j", 50);
    story_submit(world, id, &spec);
    agent_follow(world, &world->agent[0]);
    agent_beat(world, &world->agent[0]);
    lose(world, &world->agent[2]);
    assert_state(world, id, JOB_RECOVERING);
    assert_int_equal(world_plan(world, id, 1)->state, PLAN_DISCARDED);
    assert_int_equal(world_job(world, id)->generation, 2);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

static void a_device_lost_while_stopping_discards_the_replan(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 10);
    story_replan(world, id, 2, 3);
    lose(world, &world->agent[2]);
    assert_state(world, id, JOB_RECOVERING);
    assert_int_equal(world_plan(world, id, 2)->stage_count, 2);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

static void a_device_lost_while_pausing_does_not_undo_the_pause(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 10);
    world_verb(world, id, JOB_PAUSE);
    lose(world, &world->agent[2]);
    assert_state(world, id, JOB_PAUSING);
    assert_int_equal(world_job(world, id)->generation, 2);
    world_settle(world);
    assert_state(world, id, JOB_PAUSED);
}

static void a_device_that_has_stored_its_units_is_not_missed(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_half_stored(world, id);
    lose(world, &world->agent[0]);
    world_settle(world);
    assert_int_equal(world->exports, 1);
    assert_int_equal(world_job(world, id)->generation, 1);
    world_exported(world, false);
    assert_state(world, id, JOB_SUCCEEDED);
}

static void a_device_lost_before_it_stored_its_units_costs_a_generation(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_half_stored(world, id);
    assert_int_equal(world_units(world, id), 1);
    lose(world, &world->agent[1]);
    assert_int_equal(world_units(world, id), 0);
    assert_int_equal(world->deleted, 1);
    assert_state(world, id, JOB_RECOVERING);
    story_finish(world, id);
}

static void with_too_few_devices_the_job_waits_for_more(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("j", 100);
    spec.devices_min = 3;
    story_submit(world, id, &spec);
    world_settle(world);
    world_train(world, 5);
    struct agent *b = &world->agent[1];
    b->up = false;
    world_live(world, 6000);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    assert_string_equal(world_job(world, id)->state_reason, "waiting_for_devices");
    assert_string_equal(world_job(world, id)->message,
                        "waits for 1 more device: 2 of 3 are available (1 not online)");
    agent_restart(world, b);
    assert_state(world, id, JOB_RECOVERING);
    story_finish(world, id);
}

/* Patient: a slow step is not blamed on a device. */
static void run_replicated(struct world *world, char id[ID_SIZE])
{
    struct job_spec spec = story_spec(100);
    spec.neighbor_every = 3;
    story_devices(world);
    story_submit(world, id, &spec);
    world_train(world, 20);
}

static void the_steps_redone_after_a_loss_are_reported(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE], expected[MESSAGE_SIZE];
    run_replicated(world, id);
    for (int i = 0; i < 3 && world->agent[0].step < world_job(world, id)->neighbor_version + 2;
         i++) {
        world_train(world, 1);
    }
    int64_t committed = world_job(world, id)->neighbor_version;
    agent_kill(&world->agent[2]);
    world_live(world, 6000);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    const struct incident *incident = core_job_incident(world->core, id);
    assert_non_null(incident);
    assert_true(incident->steps_redone > 1);
    (void)snprintf(
        expected, sizeof(expected),
        "runs generation 2 on 2 devices; device 'c' was lost, %d steps to retrain from step %d",
        (int)incident->steps_redone, (int)committed);
    assert_string_equal(world_job(world, id)->message, expected);
    assert_string_equal(world_plan(world, id, 1)->failure, incident->message);
    assert_int_equal(world_plan(world, id, 1)->state, PLAN_DONE);
    assert_string_equal(world_plan(world, id, 2)->failure, "");
    story_finish(world, id);
}

/* The last stage measures, and evaluates the version. */
static void measure_steps(struct world *world, int64_t step)
{
    struct heartbeat *heartbeat = &world->agent[2].heartbeat;
    agent_beat(world, &world->agent[2]);
    heartbeat->metric_count = 4;
    heartbeat->metric[0] = (struct metric){.step = step, .name = METRIC_STEP_SECONDS, .value = 0.5};
    heartbeat->metric[1] = (struct metric){.step = step, .name = METRIC_LOSS, .value = 2};
    heartbeat->metric[2] =
        (struct metric){.step = step, .name = METRIC_TEST_ACCURACY, .value = 0.5};
    heartbeat->metric[3] = (struct metric){.step = step, .name = METRIC_RECALL, .value = 0.25};
    agent_beat_again(world, &world->agent[2]);
    agent_beat(world, &world->agent[0]);
}

static void steps_that_a_rollback_discards_are_no_longer_shown(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run_replicated(world, id);
    const struct job_progress *progress = &core_job(world->core, id)->progress;
    int64_t committed = world_job(world, id)->neighbor_version;
    measure_steps(world, committed);
    agent_kill(&world->agent[1]);
    world_live(world, 6000);
    assert_int_equal(progress->step, committed);
    assert_true(progress->samples_per_second == 0 && progress->eta_seconds == 0);
    assert_false(progress->has_loss);    /* of a later step */
    assert_true(progress->has_accuracy); /* of this version */
    assert_true(progress->has_recall && progress->recall == 0.25);
    world_settle(world);
    world_train(world, 20);
    assert_true(progress->step > committed + 1);
    measure_steps(world, progress->step);
    assert_true(progress->samples_per_second > 0 && progress->eta_seconds > 0);
    agent_kill(&world->agent[0]);
    agent_kill(&world->agent[2]);
    world_live(world, 6000);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    /* A holder of the committed version may return with it. */
    assert_int_equal(progress->step, world_job(world, id)->neighbor_version);
    assert_true(progress->samples_per_second == 0 && progress->eta_seconds == 0);
    assert_int_equal(world_job(world, id)->progress.step, progress->step);
    for (size_t k = 0; k < 3; k++) {
        agent_restart(world, &world->agent[k]);
    }
    world_settle(world);
    assert_int_equal(core_job_plan(world->core, id)->resume_version, 0);
    assert_int_equal(progress->step, 0);
    assert_false(progress->has_loss || progress->has_accuracy || progress->has_recall);
    story_finish(world, id);
}

static void reports_of_an_older_generation_decide_nothing(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    struct agent *old = &world->agent[0];
    agent_restart(world, &world->agent[1]);
    assert_int_equal(world_job(world, id)->generation, 2);
    agent_fail(world, old, "data");
    agent_beat(world, old); /* generation 1 */
    assert_int_equal(old->heartbeat.generation, 1);
    old->heartbeat.has_error = false;
    old->heartbeat.phase = PHASE_READY;
    agent_beat_again(world, old);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_state(world, id, JOB_RECOVERING);
    struct event event = {.type = EVENT_BLOB_STORED, .blob_stored = {.device = old->id}};
    event.blob_stored.unit = (struct center_unit){.version = 5, .generation = 1};
    memcpy(event.blob_stored.unit.job.text, id, ID_SIZE);
    world_send(world, &event);
    assert_int_equal(world->problem, PROBLEM_STALE_GENERATION);
    assert_int_equal(world_units(world, id), 0);
}

static void a_device_that_has_seen_a_later_generation_is_overtaken(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 100);
    story_claim(world, &world->agent[0], 41);
    assert_int_equal(world_job(world, id)->generation, 42);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    story_claim(world, &world->agent[0], INT64_MAX); /* not credible */
    assert_int_equal(world_job(world, id)->generation, 42);
}

static void devices_that_stopped_without_their_coordinator_go_on(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    pipeline_stop(world->agent[0].pipeline); /* nobody has asked for it */
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_true(world_plan(world, id, 2)->resume_version >= 4);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_RESTARTED);
}

static void every_report_may_come_twice(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("j", 12);
    story_submit(world, id, &spec);
    for (int round = 0; round < 200 && world->exports == 0; round++) {
        for (size_t i = 0; i < 3; i++) {
            agent_follow(world, &world->agent[i]);
            (void)agent_step(world, &world->agent[i]);
            (void)agent_upload(world, &world->agent[i]);
            agent_beat(world, &world->agent[i]);
            agent_beat_again(world, &world->agent[i]);
            agent_enroll(world, &world->agent[i]);
        }
    }
    assert_int_equal(world->exports, 1);
    world_exported(world, false);
    world_exported(world, false);
    assert_state(world, id, JOB_SUCCEEDED);
    assert_int_equal(world_job(world, id)->generation, 1);
}

static void an_address_that_changes_reaches_the_neighbours(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 100);
    struct agent *b = &world->agent[1];
    int64_t revision = core_assignment_revision(world->core, world->agent[0].id.text);
    (void)snprintf(b->heartbeat.address, URL_SIZE, "http://10.0.0.9:7411");
    agent_beat_again(world, b);
    assert_true(core_assignment_revision(world->core, world->agent[0].id.text) > revision);
    agent_follow(world, &world->agent[0]);
    assert_string_equal(world->agent[0].assignment.run.next.url, "http://10.0.0.9:7411");
    assert_state(world, id, JOB_RUNNING);
}

/* The lease of c and the deadline of b end in the same turn. */
static void a_device_is_not_named_late_when_another_is_lost(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    world->agent[1].stuck = true;
    struct job_spec spec = world_spec("j", 50);
    story_submit(world, id, &spec);
    int64_t prepare_ms = world_job(world, id)->deadlines.prepare_ms;
    world_settle(world);
    world_live(world, 54000);
    world_pass(world, prepare_ms - 54000 - world->config.lease_ms);
    agent_beat(world, &world->agent[2]);
    agent_kill(&world->agent[2]);
    world_live(world, 5500);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_DEVICE_LOST);
    const struct incident *incident = core_job_incident(world->core, id);
    assert_int_equal(incident->device_count, 1);
    assert_string_equal(incident->device[0].name, "c");
}

static void a_job_whose_only_device_stalls_waits_in_the_end(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct agent *a = world_agent(world, "a", 10);
    struct job_spec spec = world_spec("j", 100);
    spec.expected_step_seconds = 0;
    story_submit(world, id, &spec);
    world_train(world, 12);
    for (int i = 0; i < 6000 && world_job(world, id)->state != JOB_WAITING_FOR_DEVICES; i++) {
        a->busy_ms = 1000000; /* at one task without end */
        world_live(world, 500);
        agent_follow(world, a);
    }
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    assert_string_equal(world_job(world, id)->state_reason, "no_progress");
    a->busy_ms = 0;
    world_live(world, 6000);
    story_finish(world, id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_silent_device_is_suspect_then_lost_then_online_again),
        STORY(a_late_turn_extends_the_leases),
        STORY(a_device_lost_while_running_is_excluded),
        STORY(after_a_pause_a_loss_costs_the_steps_since),
        STORY(the_version_of_the_last_replan_is_a_start_while_it_is_held),
        STORY(a_device_lost_while_preparing_is_excluded),
        STORY(a_device_lost_while_stopping_discards_the_replan),
        STORY(a_device_lost_while_pausing_does_not_undo_the_pause),
        STORY(a_device_that_has_stored_its_units_is_not_missed),
        STORY(a_device_lost_before_it_stored_its_units_costs_a_generation),
        STORY(with_too_few_devices_the_job_waits_for_more),
        STORY(the_steps_redone_after_a_loss_are_reported),
        STORY(steps_that_a_rollback_discards_are_no_longer_shown),
        STORY(reports_of_an_older_generation_decide_nothing),
        STORY(a_device_that_has_seen_a_later_generation_is_overtaken),
        STORY(devices_that_stopped_without_their_coordinator_go_on),
        STORY(every_report_may_come_twice),
        STORY(an_address_that_changes_reaches_the_neighbours),
        STORY(a_device_is_not_named_late_when_another_is_lost),
        STORY(a_job_whose_only_device_stalls_waits_in_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
