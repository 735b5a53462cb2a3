/* Changes that a job makes by itself: what is looked at, what is not tried again, and what follows
 * when a device has left. */
#include "coordinator/core/generation/drift.h"
#include "coordinator/core/placement/placement.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "tests/unit/coordinator_core/story.h"

/* The agent reports the times of its units, which are equal but for the last two: of two equal
 * devices, the first has three units. */
static void measure(struct world *world, struct agent *agent, double seconds)
{
    struct heartbeat *heartbeat = &agent->heartbeat;
    agent_beat(world, agent);
    for (int64_t u = agent->assignment.run.first; u < agent->assignment.run.end; u++) {
        const double unit = u < 3 ? seconds : 1.5 * seconds;
        heartbeat->unit_seconds[heartbeat->unit_seconds_count++] =
            (struct unit_seconds){.unit = u, .forward_seconds = unit, .backward_seconds = unit};
    }
    agent_beat_again(world, agent);
}

/* a runs a job alone, 4.8 s a step. */
static struct agent *train_alone(struct world *world, char id[ID_SIZE])
{
    struct agent *a = world_agent(world, "a", 10);
    struct job_spec spec = world_spec("j", 100000);
    story_submit(world, id, &spec);
    world_train(world, 3);
    measure(world, a, 0.1);
    story_report_steps(world, a, 8, 4.8);
    return a;
}

static struct agent *first_agent(struct world *world, const char *id)
{
    return world_agent_of(world, core_job_plan(world->core, id)->stage[0].device.text);
}

/* An idle device repeats its probe at `speed` times the speed of its enrolment. */
static void probe(struct world *world, struct agent *agent, double speed)
{
    const struct device_probe *enrolled = &core_device(world->core, agent->id.text)->probe;
    world_live(world, 30000);
    agent->heartbeat.has_probe = true;
    agent->heartbeat.probe =
        (struct idle_probe){.gemm_gflops = speed * enrolled->gemm_gflops,
                            .memory_bytes_per_second = speed * enrolled->memory_bytes_per_second};
    agent_beat_again(world, agent);
    agent->heartbeat.has_probe = false;
}

static int last_verdict(const struct world *world, const char *id)
{
    return core_job(world->core, id)->last_check.verdict;
}

/* ---- rejected stages ---- */

/* b joins a, steps take longer, and the job goes back to a. Then the step changes for other
 * reasons, which ends the doubt of predictions. */
static void reject_two_stages(struct world *world, char id[ID_SIZE], bool b_reports)
{
    struct agent *a = train_alone(world, id), *b = world_agent(world, "b", 10);
    world_settle(world);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_DEVICE_JOINED);
    assert_int_equal(world_plan(world, id, 2)->stage_count, 2);
    measure(world, a, 0.1);
    if (b_reports) {
        measure(world, b, 0.1);
    }
    story_report_steps(world, first_agent(world, id), 20, 5.3);
    world_settle(world);
    assert_int_equal(world_plan(world, id, 3)->reason, PLAN_ROLLED_BACK);
    measure(world, a, 0.1);
    story_report_steps(world, a, 8, 4.8);
    world_live(world, DRIFT_COOL_MS);
    story_report_steps(world, a, 8, 9);
    world_live(world, DRIFT_WINDOW_MS + 1000);
    assert_true(world_job(world, id)->doubt == 0);
}

static void rejected_stages_wait_for_a_change_of_speed(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    reject_two_stages(world, id, true);
    struct agent *a = &world->agent[0], *b = &world->agent[1];
    assert_int_equal(last_verdict(world, id), CHECK_REJECTED);
    measure(world, a, 0.12); /* by less than a quarter */
    probe(world, b, 1);
    assert_int_equal(last_verdict(world, id), CHECK_REJECTED);
    assert_int_equal(world_job(world, id)->generation, 3);
    measure(world, a, 0.2);
    probe(world, b, 0.5);
    world_settle(world);
    const struct plan *first = world_plan(world, id, 2), *again = world_plan(world, id, 4);
    assert_non_null(again);
    assert_int_equal(again->stage_count, 2);
    assert_int_equal(again->stage[0].end, first->stage[0].end);
    assert_string_equal(again->stage[0].device.text, first->stage[0].device.text);
    assert_false(world_job(world, id)->has_rejected);
}

/* Old agents report no times of units. */
static void stages_that_were_never_measured_are_rejected_too(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    reject_two_stages(world, id, false);
    assert_int_equal(last_verdict(world, id), CHECK_REJECTED);
    assert_int_equal(world_job(world, id)->generation, 3);
}

/* ---- back, without a device of the plan before ---- */

static void a_change_is_not_undone_onto_a_device_that_has_left(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct agent *a = train_alone(world, id), *b = world_agent(world, "b", 1000);
    world_settle(world);
    const struct plan *second = world_plan(world, id, 2);
    assert_int_equal(second->stage_count, 1);
    assert_string_equal(second->stage[0].device.text, b->id.text);
    a->up = false;
    world_live(world, 6000);
    assert_int_equal(core_device(world->core, a->id.text)->state, DEVICE_LOST);
    const struct agent *c = world_agent(world, "c", 1000);
    measure(world, b, 0.11);
    assert_int_equal(world_job(world, id)->generation, 2); /* it cools down */
    story_report_steps(world, b, 20, 5.3);
    world_settle(world);
    world_live(world, 1000);
    world_settle(world);
    const struct plan *third = world_plan(world, id, 3);
    assert_non_null(third);
    assert_int_equal(third->reason, PLAN_DRIFT);
    assert_int_equal(third->stage_count, 2);
    assert_string_equal(core_device(world->core, c->id.text)->job.text, id);
    assert_int_equal(core_job(world->core, id)->last_check.trigger, CHECK_SLOWER);
    assert_int_equal(world_plan(world, id, 2)->verdict, VERDICT_ROLLED_BACK);
    assert_state(world, id, JOB_RUNNING);
}

/* ---- when a plan is looked at ---- */

static void the_first_check_waits_ten_seconds_for_the_times_of_all_stages(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 1000, 12);
    const int64_t began_ms = slots_job(world->core, id)->drift.began_ms;
    story_measure(world, &world->agent[0], 0.1);
    story_measure(world, &world->agent[1], 0.1);
    world_live(world, began_ms + DRIFT_STAGES_MS - 1000 - world->now_ms);
    assert_false(core_job(world->core, id)->has_last_check);
    world_live(world, 2000);
    assert_true(core_job(world->core, id)->has_last_check);
}

static void an_idle_device_joins_when_it_has_become_faster(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    (void)train_alone(world, id);
    struct agent *b = world_agent(world, "b", 1);
    probe(world, b, 1);
    assert_int_equal(world_job(world, id)->generation, 1);
    const uint64_t questions = world->core->asking.last;
    probe(world, b, 1.2);
    assert_int_equal(world->core->asking.last, questions); /* by less than a quarter */
    probe(world, b, 100);
    assert_true(world->core->asking.last > questions);
    world_settle(world);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_DEVICE_JOINED);
    assert_string_equal(core_device(world->core, b->id.text)->job.text, id);
}

static void a_job_whose_checks_are_turned_off_during_the_search_keeps_its_plan(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    (void)train_alone(world, id);
    world->plans_wait = true;
    (void)world_agent(world, "b", 10);
    assert_int_not_equal(world->core->asking.number, 0);
    struct event event = {.type = EVENT_JOB_PATCH};
    (void)snprintf(event.job_patch.job.text, ID_SIZE, "%s", id);
    world_send(world, &event);
    assert_int_equal(world->status, 200);
    world->plans_wait = false;
    world_planned(world);
    assert_state(world, id, JOB_RUNNING);
    world_settle(world);
    assert_int_equal(world_job(world, id)->generation, 1);
}

/* ---- margins ---- */

/* The question of a new plan for the job. */
static struct planning *ask(struct world *world, const char *id)
{
    world->plans_wait = true;
    world_verb(world, id, JOB_REPLAN);
    assert_true(core_planning(world->core, world->question, world->planning));
    return world->planning;
}

static void the_search_has_margins_for_units_that_a_device_never_ran(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    (void)train_alone(world, id);
    (void)world_agent(world, "b", 1);
    const struct planning *planning = ask(world, id);
    const size_t units = planning->model->unit_count;
    const size_t a = planning_find(planning, world->agent[0].id.text);
    const size_t b = planning_find(planning, world->agent[1].id.text);
    for (size_t u = 0; u < units; u++) {
        const double *expected = planning->expected_forward_seconds;
        const double *assumed = planning->forward_seconds;
        assert_true(assumed[a * units + u] == expected[a * units + u]);
        assert_true(assumed[b * units + u] > 1.1 * expected[b * units + u]);
        assert_true(planning->backward_seconds[b * units + u] >
                    1.1 * planning->expected_backward_seconds[b * units + u]);
    }
}

/* b would be the fastest by the means, not with the margins. */
static void margins_choose_the_plan_and_means_are_shown(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct err err = {0};
    (void)train_alone(world, id);
    (void)world_agent(world, "b", 1);
    struct planning *planning = ask(world, id);
    const size_t units = planning->model->unit_count;
    for (size_t d = 0; d < 2; d++) {
        bool is_b = d == planning_find(planning, world->agent[1].id.text);
        for (size_t u = d * units; u < (d + 1) * units; u++) {
            planning->forward_seconds[u] = planning->backward_seconds[u] = is_b ? 10 : 0.1;
            planning->expected_forward_seconds[u] = is_b ? 0.001 : 0.05;
            planning->expected_backward_seconds[u] = is_b ? 0.001 : 0.05;
        }
    }
    assert_ok(placement_solve(planning, &world->planned, &err), &err);
    assert_int_equal(world->planned.stage_count, 1);
    assert_string_equal(world->planned.stage[0].device.text, world->agent[0].id.text);
    const double forward = 0.05 * (double)units;
    assert_close(&world->planned.stage[0].predicted_forward_seconds, &forward, 1, 1e-9);
    assert_close(&world->planned.expected_seconds, &(double){4 * 2 * forward}, 1, 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(rejected_stages_wait_for_a_change_of_speed),
        STORY(stages_that_were_never_measured_are_rejected_too),
        STORY(a_change_is_not_undone_onto_a_device_that_has_left),
        STORY(the_first_check_waits_ten_seconds_for_the_times_of_all_stages),
        STORY(an_idle_device_joins_when_it_has_become_faster),
        STORY(a_job_whose_checks_are_turned_off_during_the_search_keeps_its_plan),
        STORY(the_search_has_margins_for_units_that_a_device_never_ran),
        STORY(margins_choose_the_plan_and_means_are_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
