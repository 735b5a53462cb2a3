/* What a user changes of a job that runs: its periods, and back to an earlier plan. */
#include "tests/unit/coordinator_core/story.h"

static void patch(struct world *world, const char *id, int64_t neighbor_every, int64_t replan_every)
{
    struct event event = {.type = EVENT_JOB_PATCH,
                          .job_patch = {.replication = {.neighbor_every = neighbor_every},
                                        .replan_every = replan_every}};
    (void)snprintf(event.job_patch.job.text, ID_SIZE, "%s", id);
    world_send(world, &event);
    assert_int_equal(world->status, 200);
}

static void periods_of_copies_change_with_the_next_plan_and_outlive_a_restart(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    patch(world, id, 0, 7);
    assert_int_equal(world_job(world, id)->spec.replan_every, 7);
    assert_int_equal(world_job(world, id)->spec.neighbor_every, 5);
    world_restart(world);
    world_live(world, 3000);
    assert_state(world, id, JOB_RUNNING);
    assert_true(story_assignment(world, &world->agent[0])->run.has_neighbor);
    world_verb(world, id, JOB_REPLAN);
    world_settle(world);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_int_equal(world_job(world, id)->spec.neighbor_every, 0);
    assert_false(world_job(world, id)->has_next_replication);
    assert_false(story_assignment(world, &world->agent[0])->run.has_neighbor);
    story_finish(world, id);
}

static void periods_that_change_back_leave_nothing_to_change(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    patch(world, id, 3, 7);
    assert_true(world_job(world, id)->has_next_replication);
    patch(world, id, 5, 7);
    assert_false(world_job(world, id)->has_next_replication);
}

static void take(struct world *world, const char *id, const struct plan *plan)
{
    const struct replan_request request = {.generation = plan->generation};
    struct event event = {.type = EVENT_JOB_VERB,
                          .job_verb = {.verb = JOB_REPLAN, .replan = &request, .plan = plan}};
    (void)snprintf(event.job_verb.job.text, ID_SIZE, "%s", id);
    world_send(world, &event);
}

static void again(struct world *world, const char *id, int64_t generation)
{
    take(world, id, world_plan(world, id, generation));
}

static void an_earlier_plan_is_taken_with_its_cuts_and_devices(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    story_replan(world, id, 1, 3);
    world_settle(world);
    assert_int_equal(world_job(world, id)->generation, 2);
    again(world, id, 2);
    assert_int_equal(world->problem, PROBLEM_WRONG_STATE); /* the present one */
    again(world, id, 1);
    assert_int_equal(world->status, 202);
    world_settle(world);
    const struct plan *first = world_plan(world, id, 1), *third = world_plan(world, id, 3);
    for (size_t s = 0; s < 3; s++) {
        assert_int_equal(third->stage[s].end, first->stage[s].end);
        assert_string_equal(third->stage[s].device.text, first->stage[s].device.text);
    }
    assert_false(world_job(world, id)->has_wish);
}

static void a_plan_whose_device_is_away_is_rejected_and_nothing_stops(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    world_device_verb(world, &world->agent[1], DEVICE_CORDON);
    world_verb(world, id, JOB_REPLAN);
    world_settle(world);
    assert_int_equal(world_job(world, id)->generation, 2);
    again(world, id, 1);
    assert_int_equal(world->problem, PROBLEM_NOT_ENOUGH_DEVICES);
    assert_string_equal(world->text, "device 'b' of generation 1 is cordoned");
    world_device_verb(world, &world->agent[1], DEVICE_DRAIN);
    world_device_verb(world, &world->agent[1], DEVICE_UNCORDON);
    again(world, id, 1);
    assert_string_equal(world->text, "device 'b' of generation 1 is draining");
    world_device_verb(world, &world->agent[1], DEVICE_DELETE);
    again(world, id, 1);
    assert_int_equal(world->problem, PROBLEM_NOT_ENOUGH_DEVICES);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 2);
}

static void a_plan_of_other_units_or_that_never_trained_is_rejected(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    story_replan(world, id, 1, 3);
    world_settle(world);
    struct plan plan = *world_plan(world, id, 1);
    plan.stage[plan.stage_count - 1].end--;
    take(world, id, &plan);
    assert_int_equal(world->problem, PROBLEM_WRONG_STATE);
    assert_string_equal(world->text, "generation 1 is of a model with other units");
    plan = *world_plan(world, id, 1);
    plan.started_ms = 0;
    take(world, id, &plan);
    assert_int_equal(world->problem, PROBLEM_WRONG_STATE);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(periods_of_copies_change_with_the_next_plan_and_outlive_a_restart),
        STORY(periods_that_change_back_leave_nothing_to_change),
        STORY(an_earlier_plan_is_taken_with_its_cuts_and_devices),
        STORY(a_plan_whose_device_is_away_is_rejected_and_nothing_stops),
        STORY(a_plan_of_other_units_or_that_never_trained_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
