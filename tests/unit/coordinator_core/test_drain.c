/* Plans leave a device that is drained, or that announces that it leaves. */
#include "coordinator/core/placement/placement.h"
#include "tests/unit/coordinator_core/story.h"

static const struct device *shown(const struct world *world, const struct agent *agent)
{
    return core_device(world->core, agent->id.text);
}

static void a_drained_device_leaves_at_a_step_boundary(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    struct agent *b = &world->agent[1];
    world_device_verb(world, b, DEVICE_DRAIN);
    assert_int_equal(world->status, 202);
    assert_state(world, id, JOB_REPLANNING);
    assert_string_equal(world_job(world, id)->state_reason, "drained");
    assert_int_equal(core_job(world->core, id)->last_check.trigger, CHECK_DEVICE_DRAINED);
    int64_t step = b->step;
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    const struct plan *plan = world_plan(world, id, 2);
    assert_int_equal(plan->reason, PLAN_DRAINED);
    assert_excluded(plan, b);
    assert_true(plan->resume_version >= step); /* no step is retrained */
    assert_int_equal(world->rows.incident_count, 0);
    assert_string_equal(shown(world, b)->job.text, "");
    story_finish(world, id);
}

/* The version that is committed has its second copies on the drained device. */
static void a_device_is_drained_when_its_copies_are_elsewhere(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    struct agent *b = &world->agent[1];
    world_device_verb(world, b, DEVICE_DRAIN);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    world_live(world, 2000);
    assert_false(shown(world, b)->drained);
    int64_t version = world_job(world, id)->neighbor_version;
    for (int i = 0; i < 40 && world_job(world, id)->neighbor_version == version; i++) {
        assert_false(shown(world, b)->drained);
        story_round(world, false);
    }
    assert_true(world_job(world, id)->neighbor_version > version);
    story_round(world, false);
    assert_true(shown(world, b)->drained);
    b->up = false;
    for (int i = 0; i < 30; i++) {
        world_pass(world, 200);
        story_round(world, false);
    }
    assert_int_equal(shown(world, b)->state, DEVICE_LOST);
    assert_int_equal(world->rows.incident_count, 0);
}

static void the_only_device_works_on_until_another_one_comes(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct agent *a = world_agent(world, "a", 10);
    struct job_spec spec = world_spec("j", 1000);
    story_submit(world, id, &spec);
    world_train(world, 3);
    world_device_verb(world, a, DEVICE_DRAIN);
    world_train(world, 3);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 1);
    assert_false(shown(world, a)->drained);
    (void)world_agent(world, "b", 1);
    assert_state(world, id, JOB_REPLANNING);
    world_settle(world);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_DRAINED);
    assert_string_equal(shown(world, a)->job.text, "");
    assert_int_equal(world->rows.incident_count, 0);
}

static void an_idle_device_is_drained_at_once_and_takes_no_job(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct agent *a = world_agent(world, "a", 10);
    world_live(world, 2000);
    world_device_verb(world, a, DEVICE_DRAIN);
    assert_true(shown(world, a)->drained && shown(world, a)->draining);
    struct job_spec spec = world_spec("j", 5);
    story_submit(world, id, &spec);
    assert_state(world, id, JOB_QUEUED);
    assert_string_equal(world_job(world, id)->message,
                        "waits for 1 more device: 0 of 1 are available (1 draining)");
    world_device_verb(world, a, DEVICE_UNDRAIN);
    assert_false(shown(world, a)->drained || shown(world, a)->draining);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

static void a_device_that_announces_its_end_is_left_and_works_again_when_it_stays(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    struct agent *b = &world->agent[1];
    b->leaving = true;
    agent_beat(world, b);
    assert_true(shown(world, b)->leaving);
    assert_state(world, id, JOB_REPLANNING);
    assert_string_equal(world_job(world, id)->state_reason, "device_left");
    for (int i = 0; i < 20 && world_job(world, id)->generation == 1; i++) {
        story_round(world, false);
    }
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_DEVICE_LEFT);
    assert_int_equal(world->rows.incident_count, 0);
    b->leaving = false;
    agent_beat(world, b);
    assert_false(shown(world, b)->leaving || shown(world, b)->drained);
}

/* The center has what it trained before it is gone, and the job goes on with the next device. */
static void the_only_device_leaves_after_its_version_is_in_the_center(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct agent *a = world_agent(world, "a", 10);
    struct job_spec spec = world_spec("j", 1000);
    story_submit(world, id, &spec);
    world_train(world, 8);
    const int64_t trained = a->step;
    assert_true(trained > 0);
    a->leaving = true;
    agent_beat(world, a);
    assert_state(world, id, JOB_REPLANNING);
    world_settle(world);
    assert_state(world, id, JOB_WAITING_FOR_DEVICES);
    const int64_t step = world_job(world, id)->version;
    assert_true(step >= trained);
    assert_int_equal(world_plan(world, id, 1)->last_version, step);
    agent_beat(world, a);
    assert_true(shown(world, a)->drained);
    a->up = false;
    (void)world_agent(world, "b", 10);
    world_live(world, 1000);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_plan(world, id, 2)->resume_version, step);
    assert_int_equal(world->rows.incident_count, 0);
}

static void a_drain_outlives_a_restart_of_both_sides(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct agent *a = world_agent(world, "a", 10);
    struct job_spec spec = world_spec("j", 1000);
    story_submit(world, id, &spec);
    world_train(world, 3);
    world_device_verb(world, a, DEVICE_DRAIN);
    world_restart(world);
    world_live(world, 3000);
    assert_true(shown(world, a)->draining);
    (void)world_agent(world, "b", 1);
    world_live(world, 1000);
    world_settle(world);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_DRAINED);
}

/* The search may take a second: no heartbeat waits for it. */
static void the_plan_without_the_device_is_searched_for_outside_of_the_step(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100000, 5);
    world->plans_wait = true;
    world_device_verb(world, &world->agent[1], DEVICE_DRAIN);
    assert_int_equal(world->status, 202);
    assert_true(world->question != 0);
    assert_state(world, id, JOB_RUNNING);
    world_train(world, 3);
    assert_state(world, id, JOB_RUNNING);
    world_planned(world);
    assert_state(world, id, JOB_REPLANNING);
    assert_int_equal(world->question, 0); /* the answer is the next plan */
    world_settle(world);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_DRAINED);
    assert_excluded(world_plan(world, id, 2), &world->agent[1]);
}

static void an_answer_after_the_drain_was_undone_is_dropped(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100000, 5);
    world->plans_wait = true;
    world_device_verb(world, &world->agent[1], DEVICE_DRAIN);
    world_device_verb(world, &world->agent[1], DEVICE_UNDRAIN);
    world_planned(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 1);
}

static void an_answer_with_a_device_that_has_left_is_asked_for_again(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct err err = {0};
    story_train(world, id, 100000, 5);
    world->plans_wait = true;
    world_device_verb(world, &world->agent[1], DEVICE_DRAIN);
    const uint64_t question = world->question;
    struct event event = {.type = EVENT_PLANNED,
                          .planned = {.question = question, .planned = &world->planned}};
    assert_true(core_planning(world->core, question, world->planning));
    assert_ok(placement_solve(world->planning, &world->planned, &err), &err);
    world_device_verb(world, &world->agent[2], DEVICE_DRAIN);
    world_send(world, &event);
    assert_state(world, id, JOB_RUNNING);
    assert_true(world->question > question);
    world_planned(world);
    assert_state(world, id, JOB_REPLANNING);
    world_settle(world);
    const struct plan *plan = world_plan(world, id, 2);
    assert_int_equal(plan->stage_count, 1);
    assert_string_equal(plan->stage[0].device.text, world->agent[0].id.text);
}

/* An excluded device is no replacement, as long as the drained one can work. */
static void a_drained_device_is_not_left_for_an_excluded_one(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct agent *a = world_agent(world, "a", 10);
    struct job_spec spec = world_spec("j", 100000);
    story_submit(world, id, &spec);
    world_train(world, 3);
    story_measure(world, a, 0.1);
    struct agent *b = world_agent(world, "b", 10);
    story_next(world, id);
    story_report(world, b, "disk");
    world_settle(world);
    assert_int_equal(world_plan(world, id, 3)->stage_count, 1);
    world_device_verb(world, a, DEVICE_DRAIN);
    story_work(world, 60000);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(world_job(world, id)->generation, 3);
    story_work(world, 1000000); /* the exclusion is over */
    assert_int_equal(world_plan(world, id, 4)->reason, PLAN_DRAINED);
    assert_string_equal(shown(world, a)->job.text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_drained_device_leaves_at_a_step_boundary),
        STORY(a_device_is_drained_when_its_copies_are_elsewhere),
        STORY(the_only_device_works_on_until_another_one_comes),
        STORY(an_idle_device_is_drained_at_once_and_takes_no_job),
        STORY(a_device_that_announces_its_end_is_left_and_works_again_when_it_stays),
        STORY(the_only_device_leaves_after_its_version_is_in_the_center),
        STORY(a_drain_outlives_a_restart_of_both_sides),
        STORY(the_plan_without_the_device_is_searched_for_outside_of_the_step),
        STORY(an_answer_after_the_drain_was_undone_is_dropped),
        STORY(an_answer_with_a_device_that_has_left_is_asked_for_again),
        STORY(a_drained_device_is_not_left_for_an_excluded_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
