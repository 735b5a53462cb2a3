/* The life of a job of servers and workers: its generations, losses, restarts of the coordinator.
 */
#include <stdio.h>

#include "tests/unit/coordinator_core/servers_story.h"

#define LIFE(function) cmocka_unit_test_setup_teardown(function, story_setup, story_teardown)

static struct job_spec copied_spec(int64_t steps)
{
    struct job_spec spec = servers_spec(steps);
    spec.neighbor_every = 5;
    spec.center_every = 0;
    return spec;
}

static void trained(struct world *world, char id[ID_SIZE], int64_t steps)
{
    const struct job_spec spec = copied_spec(100);
    servers_run(world, id, &spec);
    world_train(world, steps);
    assert_true(world_job(world, id)->progress.step >= steps - 1);
}

/* The job resumed from the newest step. */
static void assert_nothing_redone(struct world *world, const char *id, int64_t step, int reason)
{
    const struct plan *plan = core_job_plan(world->core, id);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(plan->generation, 2);
    assert_int_equal(plan->reason, reason);
    assert_true(plan->resume_version >= step);
    assert_int_equal(world_plan(world, id, 1)->failure[0], '\0');
    assert_int_equal(world->rows.incident_count, 1);
    assert_int_equal(world->rows.incident[0].steps_redone, 0);
    world_train(world, 2);
    assert_true(world_job(world, id)->progress.step > step);
    assert_int_equal(world->rows.incident[0].state, INCIDENT_RESOLVED);
    assert_int_equal(world->rows.incident[0].steps_redone, 0);
}

/* ---- without failures ---- */

static void it_trains_copies_and_succeeds(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct job_spec spec = copied_spec(40);
    spec.center_every = 10;
    servers_run(world, id, &spec);
    world_train(world, 25);
    assert_true(world_job(world, id)->neighbor_version >= 20);
    assert_true(world_job(world, id)->version >= 10);
    assert_int_equal(world->agent[2].held_count, 0);
    story_finish(world, id);
    assert_int_equal(world_job(world, id)->generation, 1);
    for (size_t i = 0; i < 4; i++) {
        assert_false(story_assignment(world, &world->agent[i])->has_run);
    }
}

static void it_pauses_and_resumes(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    trained(world, id, 7);
    const int64_t step = world_job(world, id)->progress.step;
    world_verb(world, id, JOB_PAUSE);
    story_work(world, 3000);
    assert_state(world, id, JOB_PAUSED);
    assert_true(world_job(world, id)->version >= step);
    world_verb(world, id, JOB_RESUME);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(core_job_plan(world->core, id)->resume_version, world_job(world, id)->version);
    story_finish(world, id);
}

static void the_norm_is_clipped_across_servers(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct job_spec spec = servers_spec(20);
    spec.optimizer.clip_norm = 1;
    servers_run(world, id, &spec);
    story_finish(world, id);
}

/* ---- a device that keeps no units ---- */

static void the_loss_of_a_worker_costs_no_step(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    trained(world, id, 12);
    const int64_t step = world_job(world, id)->progress.step;
    agent_kill(&world->agent[2]);
    world_live(world, 6000);
    world_settle(world);
    assert_nothing_redone(world, id, step, PLAN_DEVICE_LOST);
    assert_null(servers_stage(world, id, &world->agent[2]));
    story_finish(world, id);
}

static void the_restart_of_a_worker_costs_no_step(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    trained(world, id, 12);
    const int64_t step = world_job(world, id)->progress.step;
    agent_restart(world, &world->agent[2]);
    assert_int_equal(core_job_plan(world->core, id)->state, PLAN_STOPPING);
    assert_false(story_assignment(world, &world->agent[2])->has_run);
    assert_true(story_assignment(world, &world->agent[0])->has_run);
    world_settle(world);
    assert_nothing_redone(world, id, step, PLAN_RESTARTED);
    story_finish(world, id);
}

static void the_error_of_a_worker_costs_no_step(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    trained(world, id, 12);
    const int64_t step = world_job(world, id)->progress.step;
    story_report(world, &world->agent[2], "internal");
    agent_beat_again(world, &world->agent[2]); /* it repeats it until the next generation */
    world_settle(world);
    assert_nothing_redone(world, id, step, PLAN_RESTARTED);
    assert_null(servers_stage(world, id, &world->agent[2]));
}

static void a_bad_link_of_a_worker_costs_no_step(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    trained(world, id, 12);
    const int64_t step = world_job(world, id)->progress.step;
    world->reports = true;
    world->agent[2].apart = &world->agent[1];
    for (int round = 0; round < 200 && world_job(world, id)->generation == 1; round++) {
        world_pass(world, 100);
        story_round(world, false);
    }
    world_settle(world);
    assert_nothing_redone(world, id, step, PLAN_LINK);
    assert_null(servers_stage(world, id, &world->agent[2]));
}

static void a_worker_lost_while_its_plan_stops_changes_nothing(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    trained(world, id, 12);
    world_verb(world, id, JOB_REPLAN);
    assert_int_equal(core_job_plan(world->core, id)->state, PLAN_STOPPING);
    const int64_t step = world_job(world, id)->progress.step;
    agent_kill(&world->agent[2]);
    agent_beat(world, &world->agent[0]); /* it has not heard of the stop yet */
    world_live(world, 6000);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(core_job_plan(world->core, id)->generation, 2);
    assert_true(core_job_plan(world->core, id)->resume_version >= step);
    assert_int_equal(world->rows.incident_count, 0);
    assert_null(servers_stage(world, id, &world->agent[2]));
}

static void it_starts_without_a_worker_that_is_lost_before_it_runs(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    const struct job_spec spec = copied_spec(100);
    story_devices(world);
    world->agent[2].stuck = true;
    story_submit(world, id, &spec);
    world_settle(world);
    assert_state(world, id, JOB_PREPARING);
    agent_kill(&world->agent[2]);
    world_live(world, 6000);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_null(servers_stage(world, id, &world->agent[2]));
    story_finish(world, id);
}

/* ---- a server ---- */

static void lose_server(struct world *world, size_t agent)
{
    char id[ID_SIZE];
    trained(world, id, 12);
    const int64_t committed = world_job(world, id)->neighbor_version;
    assert_true(committed >= 5);
    agent_kill(&world->agent[agent]);
    world_live(world, 6000);
    world_settle(world);
    const struct plan *plan = core_job_plan(world->core, id);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(plan->generation, 2);
    assert_int_equal(plan->resume_version, committed);
    assert_true(world_plan(world, id, 1)->failure[0] != '\0');
    assert_true(world->rows.incident[0].steps_redone > 0);
    story_finish(world, id);
}

static void the_lead_is_recovered_from_its_copies(void **state)
{
    lose_server(*state, 0);
}

static void a_server_that_works_is_recovered_from_its_copies(void **state)
{
    lose_server(*state, 1);
}

/* a works, and is found lost before b. */
static void a_server_and_a_worker_that_are_lost_together_fail_the_plan(void **state)
{
    static const struct servers_stage_of stage[] = {
        {1, 0, 2, 0, 0}, {2, 2, 5, 2, 4}, {0, 0, 0, 0, 2}};
    struct world *world = *state;
    char id[ID_SIZE];
    const struct job_spec spec = copied_spec(100);
    story_devices(world);
    (void)world_agent(world, "d", 10);
    world->plans_wait = true;
    story_submit(world, id, &spec);
    servers_answer(world, stage, 3);
    world->plans_wait = false;
    world_train(world, 12);
    const int64_t committed = world_job(world, id)->neighbor_version;
    assert_true(committed >= 5);
    agent_kill(&world->agent[0]);
    agent_kill(&world->agent[1]);
    world_live(world, 6000);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(core_job_plan(world->core, id)->resume_version, committed);
    assert_true(world_plan(world, id, 1)->failure[0] != '\0');
    story_finish(world, id);
}

/* All workers compute the evaluation after the last step. */
static void a_worker_lost_in_the_last_evaluation_costs_no_step(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct job_spec spec = copied_spec(20);
    (void)snprintf(spec.dataset_test, sizeof(spec.dataset_test), "test");
    spec.evaluate_every_epochs = 1;
    servers_run(world, id, &spec);
    world_train(world, 12);
    struct agent *lead = &world->agent[0];
    agent_beat(world, lead);
    lead->heartbeat.step = 20;
    agent_beat_again(world, lead);
    agent_restart(world, &world->agent[2]);
    assert_int_equal(core_job_plan(world->core, id)->generation, 1);
    assert_int_equal(core_job_plan(world->core, id)->state, PLAN_STOPPING);
    assert_int_equal(world_plan(world, id, 1)->failure[0], '\0');
}

static void the_losses_that_may_come_are_told(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    trained(world, id, 12);
    assert_true(core_replicas(world->core, id, world->replicas));
    assert_int_equal(world->replicas->single_count, 3);
    assert_true(world->replicas->single[0].steps_lost > 0);
    assert_true(world->replicas->single[1].steps_lost > 0);
    assert_int_equal(world->replicas->single[2].steps_lost, 0);
}

/* ---- units of workers ---- */

/* A worker loads what servers keep, from them or from where they take it. */
static void a_worker_takes_units_from_those_that_keep_them(void **state)
{
    static const struct servers_stage_of moved[] = {
        {0, 0, 2, 0, 0}, {3, 2, 5, 0, 1}, {2, 0, 0, 1, 3}, {1, 0, 0, 3, 4}};
    struct world *world = *state;
    char id[ID_SIZE];
    trained(world, id, 12);
    world->plans_wait = true;
    world_verb(world, id, JOB_REPLAN);
    servers_answer(world, moved, 4);
    world->plans_wait = false;
    for (int i = 0; i < 2; i++) {
        agent_follow(world, &world->agent[i]);
        agent_beat(world, &world->agent[i]);
    }
    assert_int_equal(core_job_plan(world->core, id)->generation, 2);
    /* Units 2 to 4 move to d; d and b load 0 and 1, c loads all. */
    assert_int_equal(core_job_plan(world->core, id)->bytes_moved, (3 + 2 + 2 + 5) * SNAPSHOT_BYTES);
    const struct assignment *c = story_assignment(world, &world->agent[2]);
    assert_int_equal(c->run.source_count, 5);
    for (size_t u = 0; u < 5; u++) {
        assert_int_equal(c->run.source[u].from, SOURCE_DEVICE);
        assert_string_equal(c->run.source[u].device.text, world->agent[u < 2 ? 0 : 1].id.text);
        assert_true(c->run.source[u].url[0] != '\0' && c->run.source[u].sha256[0] != '\0');
    }
    const struct assignment *b = story_assignment(world, &world->agent[1]);
    assert_int_equal(b->run.source_count, 5);
    assert_int_equal(b->run.source[0].from, SOURCE_DEVICE);
    assert_int_equal(b->run.source[2].from, SOURCE_SELF); /* d takes it from here */
    assert_int_equal(b->caller_count, 3);                 /* the lead, and c and d for units */
    const struct assignment *a = story_assignment(world, &world->agent[0]);
    assert_int_equal(a->run.source_count, 2);
    assert_int_equal(a->run.source[0].from, SOURCE_SELF);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world->agent[2].held_count, 0);
    story_finish(world, id);
}

static void after_a_pause_all_units_come_from_the_center(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    trained(world, id, 7);
    world_verb(world, id, JOB_PAUSE);
    story_work(world, 3000);
    assert_state(world, id, JOB_PAUSED);
    world_verb(world, id, JOB_RESUME);
    for (size_t s = 0; s < core_job_plan(world->core, id)->stage_count; s++) {
        const struct plan *plan = core_job_plan(world->core, id);
        struct agent *agent = world_agent_of(world, plan->stage[s].device.text);
        const struct assignment *desired = story_assignment(world, agent);
        for (size_t i = 0; i < desired->run.source_count; i++) {
            assert_int_equal(desired->run.source[i].from, SOURCE_CENTER);
            assert_true(
                core_may_read_blob(world->core, agent->id.text, desired->run.source[i].sha256));
        }
    }
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

/* ---- restarts of the coordinator ---- */

static void a_restart_while_it_runs_goes_on(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    trained(world, id, 12);
    const int64_t step = world->agent[0].step;
    world_restart(world);
    story_work(world, 5000);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 1);
    assert_true(world->agent[0].step > step);
    const struct plan_stage *c = servers_stage(world, id, &world->agent[2]);
    assert_int_equal(c->share_end, 2);
    story_finish(world, id);
}

static void a_restart_while_it_prepares_goes_on(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    const struct job_spec spec = copied_spec(200);
    story_devices(world);
    world->agent[1].stuck = true;
    story_submit(world, id, &spec);
    world_settle(world);
    assert_state(world, id, JOB_PREPARING);
    world_restart(world);
    world->agent[1].stuck = false;
    story_work(world, 5000);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 1);
    story_finish(world, id);
}

static void a_restart_while_it_stops_goes_on(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    trained(world, id, 12);
    const int64_t step = world_job(world, id)->progress.step;
    world_verb(world, id, JOB_PAUSE);
    world_restart(world);
    story_work(world, 6000);
    assert_state(world, id, JOB_PAUSED);
    assert_true(world_job(world, id)->version >= step);
    assert_int_equal(world_job(world, id)->generation, 1);
}

static void a_restart_while_it_is_stored_goes_on(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    trained(world, id, 12);
    world_verb(world, id, JOB_PAUSE);
    for (int round = 0; round < 20 && core_job_plan(world->core, id)->last_version == 0; round++) {
        story_round(world, false);
    }
    agent_follow(world, &world->agent[0]);
    assert_true(agent_upload(world, &world->agent[0]));
    assert_true(world_units(world, id) < 5);
    agent_kill(&world->agent[2]); /* it owes no unit */
    world_restart(world);
    story_work(world, 6000);
    assert_state(world, id, JOB_PAUSED);
    assert_int_equal(world_units(world, id), 5);
}

static void a_restart_after_the_stop_for_a_lost_worker_goes_on(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    trained(world, id, 12);
    const int64_t step = world_job(world, id)->progress.step;
    agent_restart(world, &world->agent[2]);
    world_restart(world);
    story_work(world, 7000);
    assert_state(world, id, JOB_RUNNING);
    assert_true(core_job_plan(world->core, id)->resume_version >= step);
    assert_int_equal(world->rows.incident[0].steps_redone, 0);
    story_finish(world, id);
}

/* The agent has stopped at the last step of its job, before the evaluation, and says so. */
static void abandon_evaluation(struct world *world, struct agent *lead, const char *id)
{
    lead->heartbeat.unevaluated = true;
    agent_beat_again(world, lead);
    world_verb(world, id, JOB_PAUSE);
}

static void a_restart_after_an_abandoned_evaluation_does_not_end_the_job(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    const struct job_spec spec = copied_spec(20);
    servers_run(world, id, &spec);
    for (int round = 0; round < 500 && core_job_plan(world->core, id)->last_version == 0; round++) {
        for (size_t i = 0; i < 3; i++) {
            struct agent *agent = &world->agent[i];
            agent_follow(world, agent);
            (void)agent_step(world, agent);
            agent_beat(world, agent);
            if (i == 0 && agent->heartbeat.stopped_version == 20) {
                abandon_evaluation(world, agent, id);
            }
        }
    }
    assert_int_equal(core_job_plan(world->core, id)->last_version, 20);
    assert_true(core_job_plan(world->core, id)->unevaluated);
    world_restart(world); /* the lead's agent has started again, too, and says it no more */
    story_work(world, 6000);
    assert_state(world, id, JOB_PAUSED);
    assert_int_equal(world_job(world, id)->version, 20);
    world_verb(world, id, JOB_RESUME);
    story_finish(world, id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIFE(it_trains_copies_and_succeeds),
        LIFE(it_pauses_and_resumes),
        LIFE(the_norm_is_clipped_across_servers),
        LIFE(the_loss_of_a_worker_costs_no_step),
        LIFE(the_restart_of_a_worker_costs_no_step),
        LIFE(the_error_of_a_worker_costs_no_step),
        LIFE(a_bad_link_of_a_worker_costs_no_step),
        LIFE(a_worker_lost_while_its_plan_stops_changes_nothing),
        LIFE(it_starts_without_a_worker_that_is_lost_before_it_runs),
        LIFE(the_lead_is_recovered_from_its_copies),
        LIFE(a_server_that_works_is_recovered_from_its_copies),
        LIFE(a_server_and_a_worker_that_are_lost_together_fail_the_plan),
        LIFE(a_worker_lost_in_the_last_evaluation_costs_no_step),
        LIFE(the_losses_that_may_come_are_told),
        LIFE(a_worker_takes_units_from_those_that_keep_them),
        LIFE(after_a_pause_all_units_come_from_the_center),
        LIFE(a_restart_while_it_runs_goes_on),
        LIFE(a_restart_while_it_prepares_goes_on),
        LIFE(a_restart_while_it_stops_goes_on),
        LIFE(a_restart_while_it_is_stored_goes_on),
        LIFE(a_restart_after_the_stop_for_a_lost_worker_goes_on),
        LIFE(a_restart_after_an_abandoned_evaluation_does_not_end_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
