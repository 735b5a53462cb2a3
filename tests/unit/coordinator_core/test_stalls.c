/* Stalled jobs: the challenge of their devices, the next plan, and the deadline of a step. */
#include "tests/unit/coordinator_core/story.h"

static void a_stalled_job_challenges_all_its_devices(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    assert_int_equal(world_job(world, id)->deadlines.step_ms, 2000);
    world->reports = false;
    story_others_beat(world, NULL, 1900);
    assert_false(world_job(world, id)->stalled);
    world_pass(world, 200);
    assert_true(world_job(world, id)->stalled);
    for (size_t i = 0; i < 3; i++) {
        assert_true(story_assignment(world, &world->agent[i])->challenge[0] != '\0');
    }
    assert_true(agent_step(world, &world->agent[0]));
    story_others_beat(world, NULL, 50);
    assert_false(world_job(world, id)->stalled);
    story_others_beat(world, NULL, 1500);
    assert_int_equal(world_job(world, id)->generation, 1);
}

static void the_stage_that_holds_work_is_excluded(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    struct agent *b = &world->agent[1];
    /* Twice the deadline of a step, and a heartbeat after the task took as long. */
    for (int i = 0; i < 105 && world_job(world, id)->generation == 1; i++) {
        b->busy_ms += 50;
        story_others_beat(world, NULL, 50);
    }
    const struct plan *plan = world_plan(world, id, 2);
    assert_non_null(plan);
    assert_int_equal(plan->reason, PLAN_STALLED);
    assert_excluded(plan, b);
    assert_false(world_job(world, id)->stalled);
    assert_int_equal(core_job_incident(world->core, id)->cause, INCIDENT_STALLED);
}

static void when_no_stage_holds_work_all_are_planned_again(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    story_others_beat(world, NULL, 4200); /* a tensor got lost */
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_STALLED);
    assert_int_equal(world_plan(world, id, 2)->stage_count, 3);
}

/* Its tasks take long, and end. */
static void a_device_that_ends_tasks_is_slow_and_not_stalled(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    world->config.heartbeat_ms = 100;
    world_restart(world);
    story_committed(world, id);
    struct agent *b = &world->agent[1];
    for (int task_ms = 500; task_ms < 2000; task_ms += 300) {
        for (int i = 0; i < 2000; i++) { /* 100 s without a step of at most 2 s */
            b->busy_ms = b->busy_ms < task_ms ? b->busy_ms + 50 : 50;
            story_others_beat(world, NULL, 50);
            assert_false(world_job(world, id)->stalled);
        }
    }
    assert_int_equal(world_job(world, id)->generation, 1);
    assert_int_equal(world->rows.incident_count, 0);
}

/* A prediction that was far too hopeful must not end a job. */
static void a_job_that_stalls_again_gets_more_time(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    int64_t generation = 1, last_ms = 0;
    for (int i = 0; i < 5; i++) {
        int64_t since_ms = world->now_ms;
        while (world_job(world, id)->generation == generation) {
            story_others_beat(world, NULL, 500);
            assert_true(world->now_ms - since_ms < 200000);
        }
        generation++;
        assert_true(i < 2 || world->now_ms - since_ms > last_ms);
        last_ms = world->now_ms - since_ms;
        world_settle(world);
        assert_state(world, id, JOB_RUNNING);
    }
    assert_true(last_ms > 30000);
}

/* One absurd prediction must not make everybody wait for hours. */
static void measured_step_times_bound_the_deadlines(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    world->reports = false;
    struct agent *a = &world->agent[0], *b = &world->agent[1];
    for (size_t i = 0; i < 3; i++) { /* a unit takes 100 s */
        story_measure(world, &world->agent[i], 100);
    }
    for (int i = 0; i < 3; i++) {
        agent_beat(world, a);
        a->heartbeat.metric_count = 1;
        a->heartbeat.metric[0] = (struct metric){.step = ++a->step,
                                                 .name = METRIC_STEP_SECONDS,
                                                 .value = 0.01}; /* and yet steps are fast */
        agent_beat_again(world, a);
    }
    agent_restart(world, b);
    agent_beat(world, b);
    assert_true(core_job_plan(world->core, id)->predicted_step_seconds > 100);
    assert_int_equal(world_job(world, id)->deadlines.step_ms, 2000);
    assert_int_equal(world_job(world, id)->deadlines.peer_ms, 500);
}

/* All three stages have applied step `version`, and evaluate it: 50 steps are an epoch. */
static void evaluate(struct world *world, char id[ID_SIZE], const struct job_spec *spec,
                     int64_t version)
{
    story_devices(world);
    story_submit(world, id, spec);
    world_settle(world);
    world->reports = false;
    for (int i = 0; i < 200 && world->agent[2].step < version; i++) {
        for (size_t k = 0; k < 3; k++) {
            if (world->agent[k].step < version) {
                (void)agent_step(world, &world->agent[k]);
            }
            agent_beat(world, &world->agent[k]);
        }
    }
    assert_int_equal(world->agent[2].step, version);
}

static struct job_spec evaluated_spec(int64_t steps, int64_t every_epochs)
{
    struct job_spec spec = story_spec(steps);
    spec.expected_step_seconds = 0;
    spec.evaluate_every_epochs = every_epochs;
    return spec;
}

static void an_evaluation_is_not_a_stall(void **state)
{
    static const struct {
        int64_t steps, every_epochs, version;
    } cases[] = {
        {.steps = 100, .every_epochs = 1, .version = 50},
        {.steps = 30, .every_epochs = 1, .version = 30}, /* inside the first epoch */
        {.steps = 70, .every_epochs = 1, .version = 70}, /* inside the second */
        {.steps = 100,
         .every_epochs = 3,
         .version = 100}, /* two epochs, every third is evaluated */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char id[ID_SIZE];
        struct job_spec spec = evaluated_spec(cases[i].steps, cases[i].every_epochs);
        evaluate(*state, id, &spec, cases[i].version);
        story_others_beat(*state, NULL, 6000);
        assert_false(world_job(*state, id)->stalled);
        assert_int_equal(world_job(*state, id)->generation, 1);
        (void)story_teardown(state);
        (void)story_setup(state);
    }
}

static void a_job_that_is_never_evaluated_gets_no_time_for_it(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct job_spec spec = evaluated_spec(100, 0);
    evaluate(world, id, &spec, 50);
    assert_int_equal(world_job(world, id)->deadlines.evaluation_ms, 0);
    story_others_beat(world, NULL, 2500);
    assert_true(world_job(world, id)->stalled);
}

/* Its steps say 30 s; it took 20 s, so that 130 s are allowed for the next. */
static void an_evaluation_that_was_measured_makes_its_own_deadline(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct job_spec spec = evaluated_spec(100, 1);
    evaluate(world, id, &spec, 50);
    assert_in_range(world_job(world, id)->deadlines.evaluation_ms, 30000, 31000);
    story_others_beat(world, NULL, 20000);
    struct agent *c = &world->agent[2];
    c->heartbeat.metric_count = 1;
    c->heartbeat.metric[0] =
        (struct metric){.step = 50, .name = METRIC_TEST_ACCURACY, .value = 0.5};
    agent_beat_again(world, c);
    agent_restart(world, c);
    assert_in_range(world_job(world, id)->deadlines.evaluation_ms, 129000, 131000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_stalled_job_challenges_all_its_devices),
        STORY(the_stage_that_holds_work_is_excluded),
        STORY(when_no_stage_holds_work_all_are_planned_again),
        STORY(a_device_that_ends_tasks_is_slow_and_not_stalled),
        STORY(a_job_that_stalls_again_gets_more_time),
        STORY(measured_step_times_bound_the_deadlines),
        STORY(an_evaluation_is_not_a_stall),
        STORY(a_job_that_is_never_evaluated_gets_no_time_for_it),
        STORY(an_evaluation_that_was_measured_makes_its_own_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
