/* A plan with a stage that keeps no units: its device works for the job and owes no copy. The
 * strategy of these jobs is the pipeline's row, without its demand that every stage keeps units;
 * the program has this table in place of that of strategy.c. */
#include "coordinator/core/state/keepers.h"

#include "coordinator/core/placement/pipeline.h"
#include "coordinator/core/placement/placement.h"
#include "tests/unit/coordinator_core/story.h"

/* ---- the strategy ---- */

static struct strategy row;

const struct strategy *strategy_of(enum job_strategy strategy)
{
    (void)strategy;
    return &row;
}

static bool covers(const struct plan *plan, size_t unit_count)
{
    return keepers_cover(plan, unit_count);
}

static bool survives_workers(const struct plan *plan, size_t stage)
{
    return !keepers_has(&plan->stage[stage]);
}

static int setup(void **state)
{
    row = pipeline_strategy;
    row.all_keep = false;
    row.plan_fits = covers;
    return story_setup(state);
}
#define KEEPERS(function) cmocka_unit_test_setup_teardown(function, setup, story_teardown)

/* ---- the stages of a plan ---- */

/* Stages by the units that they keep, in their order. */
static struct plan of(const size_t *units, size_t count)
{
    struct plan plan = {.stage_count = count};
    int64_t first = 0;
    for (size_t s = 0; s < count; s++) {
        plan.stage[s].first = first;
        plan.stage[s].end = first = first + (int64_t)units[s];
    }
    return plan;
}
#define PLAN(...)                                                                                  \
    of((const size_t[]){__VA_ARGS__}, sizeof((const size_t[]){__VA_ARGS__}) / sizeof(size_t))

static void keepers_are_found_in_their_order(void **state)
{
    (void)state;
    const struct plan plan = PLAN(0, 2, 0, 0, 3, 0);
    assert_int_equal(keepers_count(&plan), 2);
    assert_int_equal(keepers_first(&plan), 1);
    assert_int_equal(keepers_next(&plan, 1), 4);
    assert_int_equal(keepers_next(&plan, 4), 6);
    const struct plan none = PLAN(0, 0);
    assert_int_equal(keepers_first(&none), 2);
    assert_int_equal(keepers_count(&none), 0);
}

static void the_ring_goes_from_keeper_to_keeper(void **state)
{
    (void)state;
    const struct plan plan = PLAN(0, 2, 0, 1, 3, 0);
    assert_int_equal(keepers_holder(plan.stage, 6, 1), 3);
    assert_int_equal(keepers_holder(plan.stage, 6, 4), 1);
    assert_int_equal(keepers_held(plan.stage, 6, 1), 4);
    assert_int_equal(keepers_held(plan.stage, 6, 3), 1);
    const struct plan alone = PLAN(0, 5, 0);
    assert_int_equal(keepers_holder(alone.stage, 3, 1), 2);
    assert_int_equal(keepers_held(alone.stage, 3, 2), 1);
    assert_int_equal(keepers_held(alone.stage, 3, 1), 1);
    assert_int_equal(keepers_holder(alone.stage, 3, 2), 2);
    const struct plan single = PLAN(5);
    assert_int_equal(keepers_holder(single.stage, 1, 0), 0);
    assert_int_equal(keepers_held(single.stage, 1, 0), 0);
}

static void keepers_cover_every_unit_once(void **state)
{
    (void)state;
    struct plan plan = PLAN(2, 0, 3);
    assert_true(keepers_cover(&plan, 5));
    assert_false(keepers_cover(&plan, 6));
    plan.stage[1].first = plan.stage[1].end = 0; /* where a stage without units stands is free */
    assert_true(keepers_cover(&plan, 5));
    plan.stage[2].first = 1; /* unit 1 twice */
    assert_false(keepers_cover(&plan, 5));
    plan.stage[2].first = 3; /* unit 2 never */
    assert_false(keepers_cover(&plan, 5));
}

static void every_stage_of_a_pipeline_keeps_units(void **state)
{
    (void)state;
    const struct plan whole = PLAN(2, 1, 2), worker = PLAN(2, 0, 3);
    assert_true(pipeline_strategy.plan_fits(&whole, 5));
    assert_false(pipeline_strategy.plan_fits(&whole, 4));
    assert_false(pipeline_strategy.plan_fits(&worker, 5));
    assert_int_equal(strategy_stages_max(&pipeline_strategy, 5), 5);
    assert_int_equal(strategy_stages_max(&pipeline_strategy, UNITS_MAX), STAGES_MAX);
}

/* ---- a job ---- */

/* Answer the open question by three stages that keep so many units. Boundary tensors pass a stage
 * that keeps none. */
static void answer(struct world *world, const size_t units[3])
{
    struct err err = {0};
    const struct plan plan = of(units, 3);
    struct event event = {.type = EVENT_PLANNED};
    const uint64_t question = world->question;
    world->question = 0;
    assert_true(core_planning(world->core, question, world->planning));
    assert_ok(placement_solve(world->planning, &world->planned, &err), &err);
    assert_int_equal(world->planned.stage_count, 3);
    for (size_t s = 0; s < 3; s++) {
        world->planned.stage[s].device = world->agent[s].id;
        world->planned.stage[s].first = plan.stage[s].first;
        world->planned.stage[s].end = plan.stage[s].end;
    }
    event.planned = (struct event_planned){.planned = &world->planned, .question = question};
    world_send(world, &event);
}

/* Devices a, b and c run a job whose stages keep so many units. */
static void run(struct world *world, char id[ID_SIZE], const size_t units[3],
                int64_t neighbor_every, int64_t center_every)
{
    struct job_spec spec = story_spec(100);
    spec.neighbor_every = neighbor_every;
    spec.center_every = center_every;
    story_devices(world);
    world->plans_wait = true;
    story_submit(world, id, &spec);
    answer(world, units);
    world->plans_wait = false;
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(core_job_plan(world->core, id)->stage_count, 3);
}

static const size_t middle[] = {2, 0, 3}, last[] = {2, 3, 0}, first[] = {0, 2, 3};

static void a_stage_without_units_is_outside_of_the_ring(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run(world, id, middle, 5, 0);
    const struct assignment *a = story_assignment(world, &world->agent[0]);
    assert_string_equal(a->run.neighbor.device.text, world->agent[2].id.text);
    assert_string_equal(a->run.next.device.text, world->agent[1].id.text);
    const struct assignment *b = story_assignment(world, &world->agent[1]);
    assert_false(b->run.has_neighbor);
    assert_int_equal(b->run.source_count, 0);
    const struct assignment *c = story_assignment(world, &world->agent[2]);
    assert_string_equal(c->run.neighbor.device.text, world->agent[0].id.text);
    assert_int_equal(c->caller_count, 2); /* b, whose tensors it gets, and a, whose copies */
}

static void a_round_waits_for_no_copy_of_it(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run(world, id, middle, 5, 0);
    world_train(world, 12);
    assert_true(world_job(world, id)->neighbor_version >= 5);
    assert_int_equal(world->agent[1].held_count, 0);
}

static void the_stage_after_the_only_keeper_holds_its_copies(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    const size_t one[] = {0, 5, 0};
    run(world, id, one, 5, 0);
    const struct assignment *b = story_assignment(world, &world->agent[1]);
    assert_string_equal(b->run.neighbor.device.text, world->agent[2].id.text);
    const struct assignment *c = story_assignment(world, &world->agent[2]);
    assert_false(c->run.has_neighbor);
    struct agent *keeper = &world->agent[1];
    agent_beat(world, keeper);
    keeper->heartbeat.round_neighbor = 5;
    agent_beat_again(world, keeper);
    assert_int_equal(world->heartbeat_reply.neighbor.state, ROUND_OPEN);
}

static void the_first_keeper_opens_rounds(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run(world, id, first, 5, 0);
    struct agent *a = &world->agent[0], *b = &world->agent[1];
    agent_beat(world, a);
    a->heartbeat.round_neighbor = 5;
    agent_beat_again(world, a);
    assert_int_equal(world->heartbeat_reply.neighbor.state, ROUND_ABANDONED);
    agent_beat(world, b);
    b->heartbeat.round_neighbor = 5;
    agent_beat_again(world, b);
    assert_int_equal(world->heartbeat_reply.neighbor.state, ROUND_OPEN);
}

static void a_round_to_the_center_stores_the_units_of_keepers(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run(world, id, middle, 0, 5);
    world_train(world, 12);
    assert_true(world_job(world, id)->version >= 5);
    assert_int_equal(world_units(world, id), 5);
    for (size_t i = 0; i < 3; i++) {
        const struct assignment *desired = story_assignment(world, &world->agent[i]);
        for (size_t d = 0; d < desired->drop_count; d++) {
            assert_true(desired->drop[d].below_version <= world_job(world, id)->version);
        }
    }
}

static void a_lost_stage_without_units_takes_no_version_along(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run(world, id, middle, 5, 0);
    world_train(world, 12);
    const int64_t committed = world_job(world, id)->neighbor_version;
    assert_true(core_replicas(world->core, id, world->replicas));
    assert_int_equal(world->replicas->single_count, 3);
    assert_true(world->replicas->single[1].resume_version >= committed);
    assert_true(world->replicas->single[1].resume_version >=
                world->replicas->single[0].resume_version);
    agent_kill(&world->agent[1]);
    world_live(world, 6000);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_true(core_job_plan(world->core, id)->resume_version >= committed);
    assert_int_equal(core_job_plan(world->core, id)->stage_count, 2);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

static void a_bad_link_to_it_is_avoided_like_any_other(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run(world, id, middle, 5, 0);
    world_train(world, 12);
    world->reports = true;
    world->agent[1].apart = &world->agent[2];
    for (int round = 0; round < 200 && world_job(world, id)->generation == 1; round++) {
        world_pass(world, 100);
        story_round(world, false);
    }
    assert_int_equal(core_job_plan(world->core, id)->reason, PLAN_LINK);
    world->agent[1].apart = NULL;
    story_work(world, 20000);
    assert_state(world, id, JOB_RUNNING);
}

static void it_ends_with_the_job(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run(world, id, last, 5, 10);
    story_finish(world, id);
    for (size_t i = 0; i < 3; i++) {
        assert_false(story_assignment(world, &world->agent[i])->has_run);
    }
}

static void a_restart_goes_on_with_the_plan(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run(world, id, middle, 5, 0);
    world_train(world, 12);
    const int64_t step = world->agent[0].step;
    world_restart(world);
    story_work(world, 5000);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 1);
    assert_true(world->agent[0].step > step);
    story_finish(world, id);
}

/* Its row is none of a pipeline. What the devices hold counts all the same. */
static void a_restart_without_the_plan_resumes_what_keepers_hold(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run(world, id, middle, 5, 5);
    world_train(world, 12);
    const int64_t stored = world_job(world, id)->version;
    assert_true(stored >= 5);
    row.plan_fits = pipeline_strategy.plan_fits;
    world_restart(world);
    story_work(world, 7000);
    assert_state(world, id, JOB_RUNNING);
    assert_true(world_job(world, id)->generation > 1);
    assert_true(core_job_plan(world->core, id)->resume_version >= stored);
    story_finish(world, id);
}

static void a_pause_stores_the_version_of_keepers(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run(world, id, middle, 5, 0);
    world_train(world, 7);
    world_verb(world, id, JOB_PAUSE);
    story_work(world, 10000);
    assert_state(world, id, JOB_PAUSED);
    assert_int_equal(world_units(world, id), 5);
    assert_int_equal(world_job(world, id)->version, world_job(world, id)->progress.step);
}

/* ---- a strategy that can do without a stage ---- */

static void a_plan_that_survives_a_loss_stops_and_trains_no_step_again(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run(world, id, last, 50, 0);
    row.survives = survives_workers;
    world_train(world, 12);
    const int64_t step = world_job(world, id)->progress.step;
    assert_true(core_replicas(world->core, id, world->replicas));
    assert_int_equal(world->replicas->single[2].steps_lost, 0);
    assert_true(world->replicas->single[0].steps_lost > 0);
    agent_kill(&world->agent[2]);
    world_live(world, 6000);
    world_settle(world);
    const struct plan *plan = core_job_plan(world->core, id);
    assert_int_equal(plan->generation, 2);
    assert_int_equal(plan->reason, PLAN_DEVICE_LOST);
    assert_true(plan->resume_version >= step);
    assert_int_equal(world_plan(world, id, 1)->failure[0], '\0');
    assert_int_equal(world->rows.incident_count, 1);
    assert_int_equal(world->rows.incident[0].steps_redone, 0);
    assert_state(world, id, JOB_RUNNING);
}

static void the_loss_of_a_keeper_fails_such_a_plan_too(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run(world, id, last, 5, 0);
    row.survives = survives_workers;
    world_train(world, 12);
    const int64_t committed = world_job(world, id)->neighbor_version;
    agent_kill(&world->agent[1]);
    world_live(world, 6000);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_int_equal(core_job_plan(world->core, id)->resume_version, committed);
    assert_true(world_plan(world, id, 1)->failure[0] != '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keepers_are_found_in_their_order),
        cmocka_unit_test(the_ring_goes_from_keeper_to_keeper),
        cmocka_unit_test(keepers_cover_every_unit_once),
        cmocka_unit_test(every_stage_of_a_pipeline_keeps_units),
        KEEPERS(a_stage_without_units_is_outside_of_the_ring),
        KEEPERS(a_round_waits_for_no_copy_of_it),
        KEEPERS(the_stage_after_the_only_keeper_holds_its_copies),
        KEEPERS(the_first_keeper_opens_rounds),
        KEEPERS(a_round_to_the_center_stores_the_units_of_keepers),
        KEEPERS(a_lost_stage_without_units_takes_no_version_along),
        KEEPERS(a_bad_link_to_it_is_avoided_like_any_other),
        KEEPERS(it_ends_with_the_job),
        KEEPERS(a_restart_goes_on_with_the_plan),
        KEEPERS(a_restart_without_the_plan_resumes_what_keepers_hold),
        KEEPERS(a_pause_stores_the_version_of_keepers),
        KEEPERS(a_plan_that_survives_a_loss_stops_and_trains_no_step_again),
        KEEPERS(the_loss_of_a_keeper_fails_such_a_plan_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
