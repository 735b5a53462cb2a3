/* When a plan is checked, and whether a change of it pays. */
#include "coordinator/core/generation/drift.h"

#include <stdlib.h>

#include "coordinator/core/state/state.h"
#include "tests/unit/coordinator_core/story.h"

static int weigh(double present, double planned, double steps_left, double move)
{
    const struct drift_change change = {.present_step = present,
                                        .planned_step = planned,
                                        .steps_left = steps_left,
                                        .move = move,
                                        .prepare = 1};
    double gain, cost;
    return (int)drift_weigh(&change, &gain, &cost);
}

static void a_change_gains_a_twentieth_and_more_than_it_costs(void **state)
{
    (void)state;
    assert_int_equal(weigh(1, 0.96, 1e6, 0), CHECK_TOO_LITTLE_GAIN);
    assert_int_equal(weigh(1, 0.94, 1e6, 0), CHECK_REPLANS);
    assert_int_equal(weigh(1, 2, 1e6, 0), CHECK_TOO_LITTLE_GAIN);
    /* Cost: a step to drain, 1 s to prepare, 10 s to move; half a second a step is gained. */
    assert_int_equal(weigh(1, 0.5, 36, 10), CHECK_TOO_DEAR);
    assert_int_equal(weigh(1, 0.5, 37, 10), CHECK_REPLANS);
}

static void a_doubted_gain_must_be_larger_than_the_doubt(void **state)
{
    (void)state;
    struct drift_change change = {
        .present_step = 1, .planned_step = 0.8, .steps_left = 1e6, .doubt = 0.25};
    double gain, cost;
    assert_int_equal(drift_weigh(&change, &gain, &cost), CHECK_TOO_LITTLE_GAIN);
    change.planned_step = 0.7;
    assert_int_equal(drift_weigh(&change, &gain, &cost), CHECK_REPLANS);
}

static void checks_are_due_at_the_first_step_and_then_at_every_period(void **state)
{
    (void)state;
    struct job_spec spec = {.replan_first = 10, .replan_every = 100};
    assert_int_equal(drift_next_step(&spec, 0), 10);
    assert_int_equal(drift_next_step(&spec, 10), 110);
    assert_int_equal(drift_next_step(&spec, 109), 110);
    assert_int_equal(drift_next_step(&spec, 250), 310);
    spec.replan_every = 0;
    assert_int_equal(drift_next_step(&spec, 10), INT64_MAX);
    spec.replan_first = 0;
    assert_int_equal(drift_next_step(&spec, 5), INT64_MAX);
    spec.replan_every = 50;
    assert_int_equal(drift_next_step(&spec, 0), 50);
}

/* A change on trial: 2 s a step before, 0.5 s predicted, 1 s measured. */
static struct job_slot *slow_change(void)
{
    struct job_slot *job = calloc(1, sizeof(*job));
    assert_non_null(job);
    job->plan.generation = 2;
    job->plan.reason = PLAN_DRIFT;
    job->plan.predicted_step_seconds = 0.5;
    job->job.has_trial = true;
    job->job.trial = (struct job_trial){.generation = 2, .step_seconds = 2};
    job->progress.step_count = DRIFT_RECENT_STEPS;
    for (size_t i = 0; i < DRIFT_RECENT_STEPS; i++) {
        job->progress.step_seconds[i] = 1;
    }
    return job;
}

static void a_change_that_gains_less_than_predicted_may_be_corrected_once(void **state)
{
    (void)state;
    struct job_slot *job = slow_change();
    assert_true(drift_may_correct(job));
    job->plan.predicted_step_seconds = 0.81;
    assert_false(drift_may_correct(job));
    job->plan.predicted_step_seconds = 0.5;
    job->plan.reason = PLAN_REQUESTED;
    assert_false(drift_may_correct(job));
    job->plan.reason = PLAN_DEVICE_JOINED;
    job->progress.step_count = DRIFT_RECENT_STEPS - 1;
    assert_false(drift_may_correct(job));
    job->progress.step_count = DRIFT_RECENT_STEPS;
    job->drift.tried = true;
    assert_false(drift_may_correct(job));
    job->drift.tried = false;
    assert_true(drift_may_correct(job));
    job->job.corrected = true;
    assert_false(drift_may_correct(job));
    free(job);
}

static void neither_a_slower_change_nor_one_after_a_setback_is_corrected(void **state)
{
    (void)state;
    struct job_slot *job = slow_change();
    job->job.trial.step_seconds = 0.99;
    assert_false(drift_may_correct(job));
    job->job.has_trial = false;
    assert_false(drift_may_correct(job));
    job->plan.verdict = VERDICT_KEPT;
    assert_true(drift_may_correct(job));
    job->job.setbacks = 1;
    assert_false(drift_may_correct(job));
    free(job);
}

/* Whether a check is noted when a plan for this reason begins to run. */
static bool is_checked_at_once(enum plan_reason reason, bool optimal)
{
    struct core *core = calloc(1, sizeof(*core));
    struct job_slot *job = calloc(1, sizeof(*job));
    assert_non_null(core);
    assert_non_null(job);
    job->job.spec.replan_every = 100;
    job->plan.reason = (int)reason;
    job->plan.optimal = optimal;
    drift_begin(core, job);
    const bool due = job->drift.due && job->drift.trigger == CHECK_RECOVERED && core->joinable;
    assert_int_equal(job->drift.due, due);
    job->job.spec.replan_every = 0;
    drift_begin(core, job);
    assert_false(job->drift.due);
    free(job);
    free(core);
    return due;
}

static void a_plan_after_a_failure_is_checked_unless_it_is_optimal(void **state)
{
    (void)state;
    assert_true(is_checked_at_once(PLAN_DEVICE_LOST, false));
    assert_true(is_checked_at_once(PLAN_STALLED, false));
    assert_false(is_checked_at_once(PLAN_DEVICE_LOST, true));
    assert_false(is_checked_at_once(PLAN_FIRST, false));
    assert_false(is_checked_at_once(PLAN_DRIFT, false));
}

static void the_answer_to_the_last_check_is_kept_in_the_job(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 1000, 12);
    for (size_t i = 0; i < 3; i++) {
        story_measure(world, &world->agent[i], 0.1);
    }
    world_live(world, 1000);
    const struct job *job = core_job(world->core, id);
    assert_true(job->has_last_check);
    assert_true(job->last_check.step >= 10);
    world_restart(world);
    assert_true(core_job(world->core, id)->has_last_check);
}

/* b joins a, and the step becomes `seconds` long instead of 4. */
static void let_join(struct world *world, char id[ID_SIZE], double seconds)
{
    struct agent *a = world_agent(world, "a", 10);
    struct job_spec spec = world_spec("j", 100000);
    story_submit(world, id, &spec);
    world_train(world, 3);
    story_measure(world, a, 0.1);
    story_report_steps(world, a, 8, 4);
    (void)world_agent(world, "b", 10);
    world_settle(world);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_DEVICE_JOINED);
    assert_true(core_job(world->core, id)->has_trial);
    story_report_steps(world, a, 20, seconds);
}

static void a_change_that_made_the_job_slower_is_undone_and_not_tried_again(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    let_join(world, id, 4.4);
    assert_string_equal(world_job(world, id)->state_reason, "rolled_back");
    world_settle(world);
    assert_int_equal(world_plan(world, id, 3)->reason, PLAN_ROLLED_BACK);
    assert_int_equal(world_plan(world, id, 3)->stage_count, 1);
    assert_int_equal(world_plan(world, id, 2)->verdict, VERDICT_ROLLED_BACK);
    assert_true(world_job(world, id)->has_rejected);
    assert_false(world_job(world, id)->has_trial);
}

static void a_change_that_made_the_job_no_slower_is_kept(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    let_join(world, id, 4.1);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_int_equal(core_job_plan(world->core, id)->verdict, VERDICT_KEPT);
}

/* The agent of stage 0. */
static struct agent *first_agent(struct world *world, const char *id)
{
    return world_agent_of(world, core_job_plan(world->core, id)->stage[0].device.text);
}

/* c joins a, as b did before; the step becomes `seconds` long. */
static void let_next_join(struct world *world, const char *id, double seconds)
{
    const int64_t generation = world_job(world, id)->generation;
    world_live(world, DRIFT_COOL_MS);
    (void)world_agent(world, "c", 1000);
    world_settle(world);
    assert_int_equal(world_plan(world, id, generation + 1)->reason, PLAN_DEVICE_JOINED);
    story_report_steps(world, first_agent(world, id), 20, seconds);
    world_settle(world);
}

static void each_setback_in_a_row_doubles_the_pause(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    let_join(world, id, 4.4);
    world_settle(world);
    assert_int_equal(world_job(world, id)->cooldown_ms, DRIFT_COOL_MS);
    story_report_steps(world, first_agent(world, id), 8, 4);
    let_next_join(world, id, 4.4);
    assert_int_equal(core_job_plan(world->core, id)->reason, PLAN_ROLLED_BACK);
    assert_int_equal(world_job(world, id)->setbacks, 2);
    assert_int_equal(world_job(world, id)->cooldown_ms, 2 * DRIFT_COOL_MS);
    assert_true(world_job(world, id)->doubt > 0);
}

static void a_change_that_is_kept_ends_the_setbacks(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    let_join(world, id, 4.4);
    world_settle(world);
    assert_int_equal(world_job(world, id)->setbacks, 1);
    story_report_steps(world, first_agent(world, id), 8, 4);
    let_next_join(world, id, 3.9);
    assert_int_equal(world_job(world, id)->setbacks, 0);
    assert_true(world_job(world, id)->doubt == 0);
}

/* Two setbacks, then the step leaves what was measured, not only what was predicted. */
static void a_measured_change_of_speed_ends_the_doubled_pause(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    let_join(world, id, 4.4);
    world_settle(world);
    story_report_steps(world, first_agent(world, id), 8, 4);
    let_next_join(world, id, 4.4);
    story_report_steps(world, first_agent(world, id), 8, 4);
    world_live(world, DRIFT_WINDOW_MS + 1000);
    assert_int_equal(world_job(world, id)->setbacks, 2);
    story_report_steps(world, first_agent(world, id), 8, 8);
    world_live(world, DRIFT_WINDOW_MS + 1000);
    assert_int_equal(world_job(world, id)->setbacks, 0);
    assert_true(world_job(world, id)->cooldown_ms < DRIFT_COOL_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_gains_a_twentieth_and_more_than_it_costs),
        cmocka_unit_test(a_doubted_gain_must_be_larger_than_the_doubt),
        cmocka_unit_test(checks_are_due_at_the_first_step_and_then_at_every_period),
        cmocka_unit_test(a_change_that_gains_less_than_predicted_may_be_corrected_once),
        cmocka_unit_test(neither_a_slower_change_nor_one_after_a_setback_is_corrected),
        cmocka_unit_test(a_plan_after_a_failure_is_checked_unless_it_is_optimal),
        STORY(a_change_that_made_the_job_slower_is_undone_and_not_tried_again),
        STORY(a_change_that_made_the_job_no_slower_is_kept),
        STORY(each_setback_in_a_row_doubles_the_pause),
        STORY(a_change_that_is_kept_ends_the_setbacks),
        STORY(a_measured_change_of_speed_ends_the_doubled_pause),
        STORY(the_answer_to_the_last_check_is_kept_in_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
