/* Plans that are searched for outside of the step: what happens meanwhile, and which answers
 * count. */
#include <string.h>

#include "coordinator/core/placement/placement.h"
#include "tests/unit/coordinator_core/story.h"

/* A job of which the first plan is asked for. */
static void asking_job(struct world *world, char id[ID_SIZE])
{
    const struct job_spec spec = world_spec("j", 100);
    world->plans_wait = true;
    story_submit(world, id, &spec);
    assert_state(world, id, JOB_PLANNING);
    assert_true(world->question != 0);
}

/* A job that runs on a and b. */
static void running_job(struct world *world, char id[ID_SIZE])
{
    struct job_spec spec = world_spec("j", 100000);
    (void)world_agent(world, "a", 10);
    (void)world_agent(world, "b", 10);
    story_submit(world, id, &spec);
    world_train(world, 3);
    assert_state(world, id, JOB_RUNNING);
    world->plans_wait = true;
}

static void a_job_is_planning_until_the_answer_comes(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    asking_job(world, id);
    world_live(world, 3000);
    assert_state(world, id, JOB_PLANNING);
    assert_int_equal(world_job(world, id)->generation, 0);
    world_planned(world);
    assert_state(world, id, JOB_PREPARING);
    assert_int_equal(world_plan(world, id, 1)->stage_count, 3);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

static void an_answer_after_a_pause_or_a_cancellation_is_dropped(void **state)
{
    static const enum job_verb verbs[] = {JOB_PAUSE, JOB_CANCEL};
    struct world *world = *state;
    story_devices(world);
    for (size_t i = 0; i < 2; i++) {
        char id[ID_SIZE];
        asking_job(world, id);
        const uint64_t question = world->question;
        world_verb(world, id, verbs[i]);
        assert_state(world, id, i == 0 ? JOB_PAUSED : JOB_CANCELLED);
        assert_false(core_planning(world->core, question, world->planning));
        struct event event = {.type = EVENT_PLANNED,
                              .planned = {.question = question, .planned = &world->planned}};
        world_send(world, &event);
        assert_state(world, id, i == 0 ? JOB_PAUSED : JOB_CANCELLED);
        assert_int_equal(world_job(world, id)->generation, 0);
        world->question = 0;
    }
}

static void a_job_that_is_resumed_while_its_old_answer_is_under_way_asks_again(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    asking_job(world, id);
    const uint64_t question = world->question;
    world_verb(world, id, JOB_PAUSE);
    world_verb(world, id, JOB_RESUME);
    assert_state(world, id, JOB_PLANNING);
    assert_true(world->question != question);
    world_planned(world);
    assert_state(world, id, JOB_PREPARING);
}

/* The answer is found before a device of it is lost, and comes after. */
static void answer_late(struct world *world, const struct agent *agent, enum device_verb verb)
{
    struct err err = {0};
    struct event event = {.type = EVENT_PLANNED,
                          .planned = {.question = world->question, .planned = &world->planned}};
    assert_true(core_planning(world->core, world->question, world->planning));
    assert_ok(placement_solve(world->planning, &world->planned, &err), &err);
    world_device_verb(world, agent, verb);
    world_send(world, &event);
}

static void an_answer_with_a_device_that_has_left_is_asked_for_again(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    asking_job(world, id);
    const uint64_t question = world->question;
    answer_late(world, &world->agent[1], DEVICE_CORDON);
    assert_state(world, id, JOB_PLANNING);
    assert_true(world->question > question);
    world_planned(world);
    assert_state(world, id, JOB_PREPARING);
    assert_excluded(world_plan(world, id, 1), &world->agent[1]);
}

/* However often the fleet changes, the wait ends. */
static void after_three_stale_answers_the_plan_is_made_at_once(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    asking_job(world, id);
    answer_late(world, &world->agent[0], DEVICE_CORDON);
    answer_late(world, &world->agent[1], DEVICE_CORDON);
    world_device_verb(world, &world->agent[0], DEVICE_UNCORDON);
    assert_state(world, id, JOB_PLANNING);
    answer_late(world, &world->agent[2], DEVICE_CORDON);
    assert_state(world, id, JOB_PREPARING);
}

static void a_restart_asks_again(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    asking_job(world, id);
    world_restart(world);
    assert_state(world, id, JOB_PLANNING);
    world_live(world, 1000);
    assert_true(world->question != 0);
    world_planned(world);
    assert_state(world, id, JOB_PREPARING);
}

static void jobs_are_asked_for_one_after_the_other_and_share_no_device(void **state)
{
    struct world *world = *state;
    char first[ID_SIZE], second[ID_SIZE];
    story_devices(world);
    struct job_spec spec = world_spec("first", 100);
    spec.devices_max = 2;
    world->plans_wait = true;
    story_submit(world, first, &spec);
    story_submit(world, second, &spec);
    assert_state(world, first, JOB_PLANNING);
    assert_state(world, second, JOB_QUEUED);
    world_planned(world);
    assert_state(world, first, JOB_PREPARING);
    assert_state(world, second, JOB_PLANNING);
    world_planned(world);
    assert_state(world, second, JOB_PREPARING);
    assert_int_equal(world_plan(world, first, 1)->stage_count, 2);
    assert_int_equal(world_plan(world, second, 1)->stage_count, 1);
    const struct plan_stage *stage = world_plan(world, first, 1)->stage;
    const char *other = world_plan(world, second, 1)->stage[0].device.text;
    assert_string_not_equal(other, stage[0].device.text);
    assert_string_not_equal(other, stage[1].device.text);
}

static void a_failure_is_recovered_from_while_a_question_is_open(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE], other[ID_SIZE];
    running_job(world, id);
    (void)world_agent(world, "c", 10);
    struct job_spec spec = world_spec("other", 10);
    story_submit(world, other, &spec);
    agent_fail(world, &world->agent[0], "disk");
    agent_beat(world, &world->agent[0]);
    assert_int_equal(world_job(world, id)->generation, 2); /* with no answer from outside */
    while (world->question != 0) {
        world_planned(world);
    }
    const struct plan *plans[] = {core_job_plan(world->core, id),
                                  core_job_plan(world->core, other)};
    for (size_t i = 0; plans[1] && i < plans[0]->stage_count; i++) {
        for (size_t k = 0; k < plans[1]->stage_count; k++) {
            assert_string_not_equal(plans[0]->stage[i].device.text, plans[1]->stage[k].device.text);
        }
    }
}

static void a_replan_is_searched_for_while_the_plan_stops(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    running_job(world, id);
    world_verb(world, id, JOB_REPLAN);
    assert_state(world, id, JOB_REPLANNING);
    assert_true(world->question != 0);
    world_planned(world);
    assert_int_equal(world_job(world, id)->generation, 1);
    world_settle(world);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_state(world, id, JOB_RUNNING);
}

static void a_stopped_plan_waits_for_its_successor_and_can_be_paused(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    running_job(world, id);
    world_verb(world, id, JOB_REPLAN);
    story_work(world, 60000); /* longer than a stop may take */
    assert_state(world, id, JOB_REPLANNING);
    assert_int_equal(world_job(world, id)->generation, 1);
    assert_int_equal(world->rows.incident_count, 0);
    world_verb(world, id, JOB_PAUSE);
    world_settle(world);
    assert_state(world, id, JOB_PAUSED);
    world_planned(world);
    assert_state(world, id, JOB_PAUSED);
}

static void a_device_lost_during_the_search_is_recovered_from_at_once(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    running_job(world, id);
    world_verb(world, id, JOB_REPLAN);
    story_work(world, 5000);
    agent_fail(world, &world->agent[0], "disk");
    agent_beat(world, &world->agent[0]);
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_int_equal(core_job_plan(world->core, id)->stage_count, 1);
    world_planned(world);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 2);
}

static void a_restart_during_the_search_of_a_replan_asks_again(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    running_job(world, id);
    world_verb(world, id, JOB_REPLAN);
    story_work(world, 5000);
    world_restart(world);
    story_work(world, 10000);
    assert_true(world->question != 0);
    world->plans_wait = false;
    world_planned(world);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 2);
}

static void an_answer_that_fits_nobody_any_more_leaves_the_job_waiting(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    (void)world_agent(world, "a", 10);
    asking_job(world, id);
    world_device_verb(world, &world->agent[0], DEVICE_CORDON);
    world_planned(world);
    assert_state(world, id, JOB_QUEUED);
    assert_string_equal(world_job(world, id)->state_reason, "waiting_for_devices");
    world_device_verb(world, &world->agent[0], DEVICE_UNCORDON);
    world_planned(world);
    assert_state(world, id, JOB_PREPARING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_job_is_planning_until_the_answer_comes),
        STORY(an_answer_after_a_pause_or_a_cancellation_is_dropped),
        STORY(a_job_that_is_resumed_while_its_old_answer_is_under_way_asks_again),
        STORY(an_answer_with_a_device_that_has_left_is_asked_for_again),
        STORY(after_three_stale_answers_the_plan_is_made_at_once),
        STORY(a_restart_asks_again),
        STORY(jobs_are_asked_for_one_after_the_other_and_share_no_device),
        STORY(a_failure_is_recovered_from_while_a_question_is_open),
        STORY(a_replan_is_searched_for_while_the_plan_stops),
        STORY(a_stopped_plan_waits_for_its_successor_and_can_be_paused),
        STORY(a_device_lost_during_the_search_is_recovered_from_at_once),
        STORY(a_restart_during_the_search_of_a_replan_asks_again),
        STORY(an_answer_that_fits_nobody_any_more_leaves_the_job_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
