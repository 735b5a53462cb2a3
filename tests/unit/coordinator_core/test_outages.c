/* The coordinator was away: devices that live keep their leases; and which of two agents keeps a
 * device. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/coordinator_core/story.h"

static int state_of(const struct world *world, const struct agent *agent)
{
    return core_device(world->core, agent->id.text)->state;
}

/* A call that shows only that the device lives. */
static void call(struct world *world, const struct agent *agent)
{
    struct event event = {.type = EVENT_CONTACT, .contact = {.device = agent->id}};
    world_send(world, &event);
}

/* ---- leases ---- */

static void the_first_lease_outlasts_the_longest_wait_of_an_agent(void **state)
{
    struct world *world = *state;
    struct agent *a = world_agent(world, "a", 10);
    world->config.heartbeat_ms = 100;
    world->config.lease_ms = 300;
    world_restart(world);
    world_pass(world, CALL_RETRY_MS_MAX + 99);
    assert_int_not_equal(state_of(world, a), DEVICE_LOST);
    agent_beat(world, a);
    assert_int_equal(state_of(world, a), DEVICE_ONLINE);
    world_pass(world, 300); /* the next lease is as long as ever */
    assert_int_equal(state_of(world, a), DEVICE_LOST);
}

static void a_device_that_does_not_come_back_is_lost_after_the_first_lease(void **state)
{
    struct world *world = *state;
    struct agent *a = world_agent(world, "a", 10);
    world->config.heartbeat_ms = 100;
    world->config.lease_ms = 300;
    world_restart(world);
    world_pass(world, CALL_RETRY_MS_MAX + 100);
    assert_int_equal(state_of(world, a), DEVICE_LOST);
}

static void any_call_of_a_device_is_a_sign_of_life(void **state)
{
    struct world *world = *state;
    struct agent *a = world_agent(world, "a", 10);
    for (int i = 0; i < 4; i++) {
        world_pass(world, 4000);
        assert_int_equal(state_of(world, a), DEVICE_SUSPECT);
        call(world, a);
        assert_int_equal(state_of(world, a), DEVICE_ONLINE);
    }
    world_pass(world, 5000);
    assert_int_equal(state_of(world, a), DEVICE_LOST);
    call(world, a);
    assert_int_equal(state_of(world, a), DEVICE_ONLINE);
}

static void after_a_short_delay_leases_are_not_much_longer(void **state)
{
    struct world *world = *state;
    struct agent *a = world_agent(world, "a", 10);
    world_pass(world, 2500);
    assert_int_equal(state_of(world, a), DEVICE_SUSPECT);
    world->now_ms = core_deadline_ms(world->core) + 600; /* the disk was slow */
    struct event event = {.type = EVENT_TICK};
    world_send(world, &event);
    assert_int_equal(state_of(world, a), DEVICE_SUSPECT);
    world_pass(world, 2 * (600 + 1000) - 1);
    assert_int_equal(state_of(world, a), DEVICE_SUSPECT);
    world_pass(world, 1);
    assert_int_equal(state_of(world, a), DEVICE_LOST);
}

/* Their agents gave them up while the coordinator did not run, and have not called again yet. */
static void polls_that_broke_during_a_late_turn_raise_no_suspicion(void **state)
{
    struct world *world = *state;
    struct agent *a = world_agent(world, "a", 10);
    world->now_ms = core_deadline_ms(world->core) + 60000;
    struct event event = {.type = EVENT_POLL_BROKEN, .poll_broken = {.device = a->id}};
    world_send(world, &event);
    world_pass(world, 1000);
    assert_int_equal(state_of(world, a), DEVICE_ONLINE);
    agent_beat(world, a);
    world_pass(world, 4500);
    agent_beat(world, a);
    event = (struct event){.type = EVENT_POLL_BROKEN, .poll_broken = {.device = a->id}};
    world_send(world, &event);
    world_pass(world, 2000); /* its heartbeats were late: it has more time to answer */
    assert_int_equal(state_of(world, a), DEVICE_DISCONNECTED);
}

static void a_lease_shorter_than_three_heartbeats_is_refused(void **state)
{
    (void)state;
    struct err err = {0};
    struct core *core = NULL;
    struct core_config config = core_config_default;
    config.lease_ms = 2999;
    assert_int_equal(core_new(&config, &core, &err), ERR_INVALID);
    config.lease_ms = 3000;
    assert_int_equal(core_new(&config, &core, &err), 0);
    core_free(&core);
}

/* ---- the cost ---- */

/* All devices lose the network and train on; the core learns their progress from the next calls. */
static void steps_that_were_trained_unheard_are_counted_as_redone(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_replicated(world, id, 3, 0);
    world_train(world, 20);
    const int64_t known = world_job(world, id)->progress.step;
    world_pass(world, 6000);
    const struct incident *incident = core_job_incident(world->core, id);
    assert_non_null(incident);
    assert_int_equal(incident->step_reached, known);
    struct agent *a = &world->agent[0];
    a->step += 50; /* it has not heard of a new generation yet */
    agent_beat(world, a);
    assert_int_equal(incident->step_reached, a->step);
    for (size_t i = 1; i < 3; i++) {
        agent_beat(world, &world->agent[i]);
    }
    assert_int_equal(incident->generation_before, 1);
    assert_int_equal(incident->steps_redone, incident->step_reached - incident->resume_version);
    assert_true(incident->steps_redone >= 50);
}

/* ---- two agents with one identity ---- */

/* The answer to an enrolment as another boot. */
static enum problem_code enroll_as(struct world *world, struct agent *agent, const char *boot)
{
    agent_enroll_as(world, agent, boot);
    return world->problem;
}

static void beat_as(struct world *world, struct agent *agent, const char *boot)
{
    (void)snprintf(agent->heartbeat.boot, sizeof(agent->heartbeat.boot), "%s", boot);
    agent_beat_again(world, agent);
}

/* The first agent has come back after the second had taken over. */
static struct agent *share(struct world *world)
{
    struct agent *a = world_agent(world, "a", 10);
    assert_int_equal(enroll_as(world, a, "first"), PROBLEM_NONE);
    world_pass(world, 10000);
    assert_int_equal(enroll_as(world, a, "second"), PROBLEM_NONE);
    world_pass(world, 1000);
    assert_int_equal(enroll_as(world, a, "first"), PROBLEM_NONE);
    return a;
}

static void of_two_agents_the_first_stays_and_the_second_is_refused(void **state)
{
    struct world *world = *state;
    struct agent *a = share(world);
    assert_int_equal(enroll_as(world, a, "second"), PROBLEM_TOO_MANY);
    world_pass(world, 900);
    beat_as(world, a, "first");
    world_pass(world, 100);
    assert_int_equal(enroll_as(world, a, "second"), PROBLEM_IDENTITY_IN_USE);
    beat_as(world, a, "first");
    assert_int_equal(world->problem, PROBLEM_NONE);
    /* A device that is restarted repeatedly disturbs nothing. */
    for (int i = 0; i < 10; i++) {
        char boot[ID_SIZE];
        (void)snprintf(boot, sizeof(boot), "again-%d", i);
        world_pass(world, 3000);
        beat_as(world, a, "first");
        assert_int_equal(enroll_as(world, a, boot), PROBLEM_TOO_MANY);
    }
}

static void an_agent_that_is_started_again_need_not_wait(void **state)
{
    struct world *world = *state;
    struct agent *a = world_agent(world, "a", 10);
    for (int i = 0; i < 10; i++) {
        agent_restart(world, a);
        assert_int_equal(world->problem, PROBLEM_NONE);
    }
}

static void a_shared_device_whose_agent_ends_is_free_after_its_lease(void **state)
{
    struct world *world = *state;
    struct agent *a = share(world);
    assert_int_equal(enroll_as(world, a, "third"), PROBLEM_TOO_MANY);
    world_pass(world, 2500);
    assert_int_equal(enroll_as(world, a, "third"), PROBLEM_TOO_MANY); /* never: identity_in_use */
    world_pass(world, 2500);
    assert_int_equal(enroll_as(world, a, "third"), PROBLEM_NONE);
    assert_int_equal(enroll_as(world, a, "fourth"), PROBLEM_NONE);
}

/* The turn is late: no heartbeat could be read meanwhile. */
static void a_late_turn_does_not_refuse_an_agent_for_good(void **state)
{
    struct world *world = *state;
    struct agent *a = share(world);
    world_pass(world, 1000);
    assert_int_equal(enroll_as(world, a, "third"), PROBLEM_TOO_MANY);
    world->now_ms = core_deadline_ms(world->core) + 10000;
    struct event event = {.type = EVENT_TICK};
    world_send(world, &event);
    assert_int_equal(enroll_as(world, a, "third"), PROBLEM_TOO_MANY); /* never: identity_in_use */
    world_pass(world, 5000);
    assert_int_equal(enroll_as(world, a, "third"), PROBLEM_NONE);
}

static void of_many_agents_one_stays(void **state)
{
    struct world *world = *state;
    struct agent *a = world_agent(world, "a", 10);
    char boot[ID_SIZE];
    int taken = 0;
    for (int i = 0; i < 100; i++) {
        (void)snprintf(boot, sizeof(boot), "one-of-%d", i % 4);
        world_pass(world, 300);
        if (strcmp(core_device(world->core, a->id.text)->boot, boot) == 0) {
            beat_as(world, a, boot);
        } else {
            taken += enroll_as(world, a, boot) == PROBLEM_NONE;
        }
    }
    assert_in_range(taken, 1, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(the_first_lease_outlasts_the_longest_wait_of_an_agent),
        STORY(a_device_that_does_not_come_back_is_lost_after_the_first_lease),
        STORY(any_call_of_a_device_is_a_sign_of_life),
        STORY(after_a_short_delay_leases_are_not_much_longer),
        STORY(polls_that_broke_during_a_late_turn_raise_no_suspicion),
        STORY(a_lease_shorter_than_three_heartbeats_is_refused),
        STORY(steps_that_were_trained_unheard_are_counted_as_redone),
        STORY(of_two_agents_the_first_stays_and_the_second_is_refused),
        STORY(an_agent_that_is_started_again_need_not_wait),
        STORY(a_shared_device_whose_agent_ends_is_free_after_its_lease),
        STORY(a_late_turn_does_not_refuse_an_agent_for_good),
        STORY(of_many_agents_one_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
