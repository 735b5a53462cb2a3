/* The devices of a job's first plan measure the kernels of its convolutions; from then on the
 * kernels are part of the job's model. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/coordinator_core/story.h"

#define CHOOSES "avx512/onednn-2.6.3"

/* Three devices that have a choice; a job on all of them, cut at 1 and 2, is submitted. */
static void choosers(struct world *world, char id[ID_SIZE], int64_t steps)
{
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++) {
        struct agent *agent = world_agent(world, names[i], 10);
        agent->numeric_class = CHOOSES;
        agent_restart(world, agent);
        agent_beat(world, agent);
    }
    struct job_spec spec = story_spec(steps);
    spec.cut[0] = 1;
    spec.cut[1] = 2;
    spec.cut_count = 2;
    story_submit(world, id, &spec);
}

static void a_job_is_measured_once_and_then_trains_with_its_kernels(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    choosers(world, id, 3);
    assert_true(story_assignment(world, &world->agent[1])->run.tune);
    assert_non_null(strstr(world_job(world, id)->message, "to measure kernels"));
    world_settle(world);
    assert_string_equal(world->tune_job, id);
    assert_state(world, id, JOB_PREPARING);
    assert_int_equal(world_plan(world, id, 1)->state, PLAN_PREPARING);
    assert_string_equal(world_job(world, id)->spec.model.sha256, "");
    world_tuned(world, false);
    assert_string_equal(world_job(world, id)->spec.model.sha256, "tuned");
    assert_int_equal(world_plan(world, id, 1)->state, PLAN_DISCARDED);
    const struct plan *plan = world_plan(world, id, 2);
    assert_int_equal(plan->reason, PLAN_TUNED);
    assert_int_equal(plan->stage_count, 3); /* cut as the first one was */
    assert_int_equal(plan->stage[0].end, 1);
    assert_int_equal(plan->stage[1].end, 2);
    assert_state(world, id, JOB_PREPARING);
    assert_false(story_assignment(world, &world->agent[1])->run.tune);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    story_finish(world, id);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_int_equal(world->rows.incident_count, 0);
    assert_true(world_job(world, id)->exact);
}

static void own_kernels_and_stated_ones_are_not_measured(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 3);
    assert_string_equal(world->tune_job, "");
    assert_int_equal(world_job(world, id)->generation, 1);
    struct agent *d = world_agent(world, "d", 10);
    d->numeric_class = CHOOSES;
    agent_restart(world, d);
    agent_beat(world, d);
    struct job_spec spec = world_spec("stated", 3);
    const struct job_data data = {
        .train_sha256 = "train", .test_sha256 = "test", .train_samples = 1000, .test_samples = 100};
    struct event event = {.type = EVENT_JOB_SUBMIT,
                          .job_submit = {.spec = &spec, .data = &data, .model = world->model}};
    world_send(world, &event);
    assert_false(story_assignment(world, d)->run.tune);
    assert_string_equal(story_assignment(world, d)->run.job.text, world->job.id.text);
}

static void a_device_that_is_lost_while_measuring_costs_a_generation_and_nothing_else(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    choosers(world, id, 3);
    agent_follow(world, &world->agent[0]);
    agent_beat(world, &world->agent[0]);
    agent_kill(&world->agent[2]);
    world_live(world, 3 * world->config.lease_ms);
    world_settle(world);
    assert_string_equal(world->tune_job, id); /* two measure all of it */
    world_tuned(world, false);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    story_finish(world, id);
}

static void kernels_are_reported_again_to_a_restarted_coordinator(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    choosers(world, id, 3);
    world_settle(world);
    assert_string_equal(world->tune_job, id);
    world->tune_job[0] = '\0';
    world_restart(world);
    assert_null(core_job_kernels(world->core, id, &(int64_t){0}));
    world_live(world, 2000);
    world_settle(world);
    assert_string_equal(world->tune_job, id);
    world_tuned(world, false);
    world_restart(world); /* the kernels are in its row */
    world_live(world, 2000);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_string_equal(world_job(world, id)->spec.model.sha256, "tuned");
    story_finish(world, id);
}

/* Rows of a backup may not know that the job has trained, with kernels that were measured then. */
static void training_does_not_resume_from_versions_before_the_measurement(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    choosers(world, id, 3);
    struct agent *a = &world->agent[0];
    agent_beat(world, a);
    a->heartbeat.all_holdings = true;
    for (int64_t u = 0; u < 5; u++) {
        struct holding *holding = &a->heartbeat.holding[a->heartbeat.holding_count++];
        *holding = (struct holding){.generation = 1, .version = 2, .unit = u, .bytes = 1000};
        memcpy(holding->job.text, id, ID_SIZE);
        memset(holding->sha256, 'a', SHA256_SIZE - 1);
    }
    agent_beat_again(world, a);
    world_settle(world);
    world_tuned(world, false);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_TUNED);
    assert_int_equal(world_plan(world, id, 2)->resume_version, 0);
}

static void kernels_that_do_not_fit_the_units_fail_the_generation(void **state)
{
    static const char *const wrong[] = {"", "NDc", "NDcNDcNDcNDc", "ND-", "NDw", "zzz"};
    struct world *world = *state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct agent *agent = i == 0 ? world_agent(world, "a", 10) : &world->agent[0];
        agent->numeric_class = CHOOSES;
        agent_restart(world, agent);
        agent_beat(world, agent);
        char id[ID_SIZE];
        struct job_spec spec = world_spec("j", 3);
        story_submit(world, id, &spec);
        agent_follow(world, agent);
        assert_int_equal(agent_phase(agent), PHASE_READY);
        agent_beat(world, agent);
        world->tune_job[0] = '\0';
        assert_int_equal(world_job(world, id)->generation, 1);
        agent_restart(world, agent); /* measured again, by a faulty agent */
        agent_beat(world, agent);
        world_live(world, 1000);
        agent_follow(world, agent);
        int64_t generation = world_job(world, id)->generation;
        (void)snprintf(agent->heartbeat.kernels, KERNEL_TEXT_SIZE, "%s", wrong[i]);
        agent->heartbeat.phase = PHASE_READY;
        agent->heartbeat.generation = generation;
        memcpy(agent->heartbeat.job.text, id, ID_SIZE);
        agent->heartbeat.plan = core_job_plan(world->core, id)->id;
        agent_beat_again(world, agent);
        assert_state(world, id, JOB_WAITING_FOR_DEVICES); /* there is no other device */
        assert_string_equal(world_job(world, id)->state_reason, "device_failed");
        assert_string_equal(world->tune_job, "");
        world_verb(world, id, JOB_CANCEL);
    }
}

static void kernels_that_cannot_be_stored_are_measured_again(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    choosers(world, id, 3);
    world_settle(world);
    world_tuned(world, true);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_true(story_assignment(world, &world->agent[0])->run.tune);
    world_settle(world);
    world_tuned(world, false);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_plan(world, id, 3)->reason, PLAN_TUNED);
}

static void a_pause_that_is_asked_for_meanwhile_is_kept(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    choosers(world, id, 3);
    world_verb(world, id, JOB_PAUSE);
    assert_state(world, id, JOB_PAUSING);
    world_settle(world);
    world_tuned(world, false);
    assert_state(world, id, JOB_PAUSING);
    world_settle(world);
    assert_state(world, id, JOB_PAUSED);
    world_verb(world, id, JOB_RESUME);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_string_equal(world->tune_job, "");
}

/* Its kernels are not a requirement: better inexact than not at all. */
static void a_measured_job_runs_on_devices_of_another_class(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    choosers(world, id, 100);
    world_settle(world);
    world_tuned(world, false);
    world_settle(world);
    world_train(world, 3);
    assert_true(world_job(world, id)->exact);
    for (size_t i = 0; i < 3; i++) {
        agent_kill(&world->agent[i]);
    }
    struct agent *d = world_agent(world, "d", 10);
    (void)world_agent(world, "e", 10);
    assert_string_equal(d->numeric_class, "avx2");
    world_live(world, 10 * world->config.lease_ms);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_string_equal(world_job(world, id)->spec.model.sha256, "tuned");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_job_is_measured_once_and_then_trains_with_its_kernels),
        STORY(own_kernels_and_stated_ones_are_not_measured),
        STORY(a_device_that_is_lost_while_measuring_costs_a_generation_and_nothing_else),
        STORY(kernels_are_reported_again_to_a_restarted_coordinator),
        STORY(training_does_not_resume_from_versions_before_the_measurement),
        STORY(kernels_that_do_not_fit_the_units_fail_the_generation),
        STORY(kernels_that_cannot_be_stored_are_measured_again),
        STORY(a_pause_that_is_asked_for_meanwhile_is_kept),
        STORY(a_measured_job_runs_on_devices_of_another_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
