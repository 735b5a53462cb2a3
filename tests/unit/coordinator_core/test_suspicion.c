/* The blame: a dead device, a hanging one, or the link between two live ones. */
#include <string.h>

#include "tests/unit/coordinator_core/story.h"

static int state_of(const struct world *world, const struct agent *agent)
{
    return core_device(world->core, agent->id.text)->state;
}

static void a_dead_device_whose_socket_is_refused_is_out_at_once(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    int64_t version = world_job(world, id)->neighbor_version;
    struct agent *b = &world->agent[1];
    agent_kill(b);
    story_others_beat(world, b, 200);
    assert_int_equal(world_job(world, id)->generation, 1);
    story_others_beat(world, b, 100); /* challenge_ms are over, long before the lease */
    assert_int_equal(state_of(world, b), DEVICE_DISCONNECTED);
    assert_int_equal(world_job(world, id)->generation, 2);
    const struct plan *plan = world_plan(world, id, 2);
    assert_int_equal(plan->reason, PLAN_DEVICE_LOST);
    assert_int_equal(plan->stage_count, 2);
    assert_int_equal(plan->resume_version, version);
    world_pass(world, 5000);
    assert_int_equal(state_of(world, b), DEVICE_LOST);
}

static void a_report_challenges_the_suspect(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    struct agent *b = &world->agent[1];
    int64_t revision = core_assignment_revision(world->core, b->id.text);
    assert_string_equal(story_assignment(world, b)->challenge, "");
    b->stopped_cpu = true; /* it hangs */
    agent_beat(world, &world->agent[0]);
    assert_true(core_assignment_revision(world->core, b->id.text) > revision); /* its poll wakes */
    char nonce[ID_SIZE];
    memcpy(nonce, story_assignment(world, b)->challenge, ID_SIZE);
    assert_true(nonce[0] != '\0');
    agent_beat(world, &world->agent[2]);
    assert_string_equal(story_assignment(world, b)->challenge, nonce); /* one at a time */
    b->stopped_cpu = false;
    agent_beat(world, b);
    assert_string_equal(b->heartbeat.challenge, nonce);
    assert_string_equal(story_assignment(world, b)->challenge, "");
}

static void silence_without_a_refusal_is_left_to_the_lease(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct job_spec spec = story_spec(100); /* its steps may take long */
    story_devices(world);
    story_submit(world, id, &spec);
    world_settle(world);
    world_train(world, 3);
    world->reports = true;
    struct agent *b = &world->agent[1];
    b->stopped_cpu = true;
    story_others_beat(world, b, 4900);
    assert_int_equal(world_job(world, id)->generation, 1);
    assert_int_equal(state_of(world, b), DEVICE_SUSPECT);
    story_others_beat(world, b, 200);
    assert_int_equal(state_of(world, b), DEVICE_LOST);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_DEVICE_LOST);
}

/* Messages from before its death may arrive later: only the nonce shows that it lives. */
static void a_heartbeat_without_the_nonce_does_not_answer_a_challenge(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    struct agent *b = &world->agent[1];
    agent_kill(b);
    agent_beat(world, &world->agent[0]);
    world_pass(world, 100);
    agent_beat_again(world, b); /* it was on its way */
    world_pass(world, 200);
    assert_int_equal(state_of(world, b), DEVICE_DISCONNECTED);
    assert_int_equal(world_job(world, id)->generation, 2);
}

static void between_two_that_live_the_link_is_to_blame(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    struct agent *b = &world->agent[1], *c = &world->agent[2];
    world->reports = false;
    agent_beat(world, b);
    struct peer_report report = {.device = c->id, .kind = PEER_BROKEN, .for_ms = 100};
    for (int i = 0; i < 30;
         i++) { /* link_ms is 2 s; steps go on, so that no other deadline decides */
        b->heartbeat.peer_report[0] = report;
        b->heartbeat.peer_report_count = 1;
        b->heartbeat.step = ++b->step;
        agent_beat_again(world, b);
        agent_beat(world, &world->agent[0]);
        agent_beat(world, c);
        assert_int_equal(world_job(world, id)->generation, i >= 20 ? 2 : 1);
        if (world_job(world, id)->generation == 2) {
            break;
        }
        world_pass(world, 100);
    }
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_LINK);
    assert_excluded(world_plan(world, id, 2), c); /* the later of the two */
    const struct incident *incident = core_job_incident(world->core, id);
    assert_int_equal(incident->cause, INCIDENT_LINK);
    assert_int_equal(incident->device_count, 2); /* the pair */
}

static void a_report_that_is_taken_back_has_no_effect(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    struct agent *b = &world->agent[1];
    b->cut = true;
    agent_beat(world, &world->agent[0]);
    world_settle(world);
    b->cut = false;
    for (int i = 0; i < 40; i++) {
        world_pass(world, 100);
        story_round(world, false);
    }
    assert_int_equal(world_job(world, id)->generation, 1);
}

/* With two devices of two, none can be excluded: the job retries, and continues when the link
 * returns. */
static void a_job_that_needs_both_ends_of_a_bad_link_outlives_it(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct job_spec spec = world_spec("j", 400);
    spec.devices_min = 2;
    spec.neighbor_every = 1;
    spec.expected_step_seconds = 0;
    (void)world_agent(world, "a", 10);
    (void)world_agent(world, "b", 10);
    story_submit(world, id, &spec);
    world_train(world, 5);
    world->reports = true;
    world->agent[1].cut = true;
    story_work(world, 30000);
    assert_true(world_job(world, id)->generation > 2);
    assert_int_not_equal(world_job(world, id)->state, JOB_FAILED);
    world->agent[1].cut = false;
    story_work(world, 10000);
    story_finish(world, id);
}

static void a_broken_poll_challenges_the_device(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    struct agent *b = &world->agent[1];
    struct event event = {.type = EVENT_POLL_BROKEN, .poll_broken = {.device = b->id}};
    world_send(world, &event);
    agent_beat(world, b); /* it has only reconnected */
    world_pass(world, 400);
    assert_int_equal(state_of(world, b), DEVICE_ONLINE);
    agent_kill(b);
    world_send(world, &event);
    world_pass(world, 300);
    assert_int_equal(state_of(world, b), DEVICE_DISCONNECTED);
    assert_int_equal(world_job(world, id)->generation, 2);
}

static void an_error_at_a_peer_that_is_dead_is_the_devices(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    struct agent *b = &world->agent[1], *c = &world->agent[2];
    story_replan(world, id, 2, 3);
    story_next(world, id);
    agent_follow(world, c);
    agent_kill(b);
    agent_fail(world, c, "peer");
    agent_beat(world, c); /* the error and the report in one */
    assert_int_equal(world_job(world, id)->generation, 2);
    world_pass(world, 300);
    assert_int_equal(world_job(world, id)->generation, 3);
    assert_int_equal(world_plan(world, id, 3)->reason, PLAN_DEVICE_LOST);
    assert_int_equal(world_plan(world, id, 3)->stage_count, 2);
}

static void an_error_at_a_peer_that_lives_is_the_links_at_once(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    struct agent *a = &world->agent[0], *c = &world->agent[2];
    story_replan(world, id, 2, 3);
    story_next(world, id);
    agent_follow(world, c);
    c->cut = true;
    agent_fail(world, c, "peer");
    agent_beat(world, c);
    for (size_t i = 0; i < 2; i++) { /* each challenged device answers */
        agent_beat(world, &world->agent[i]);
    }
    assert_int_equal(world_job(world, id)->generation, 3);
    assert_int_equal(world_plan(world, id, 3)->reason, PLAN_LINK);
    assert_string_equal(world_plan(world, id, 3)->stage[0].device.text, a->id.text);
    assert_int_equal(world_plan(world, id, 3)->stage_count, 2);
}

static void one_whose_heartbeats_are_late_as_a_rule_gets_more_time(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    struct agent *b = &world->agent[1];
    for (int i = 0; i < 40; i++) {
        world_pass(world, 1200); /* 200 ms late each time */
        (void)agent_step(world, &world->agent[0]);
        story_others_beat(world, NULL, 50);
    }
    agent_kill(b);
    agent_beat(world, &world->agent[0]);
    world_pass(world, 300);
    assert_int_equal(world_job(world, id)->generation, 1);
    world_pass(world, 700);
    assert_int_equal(world_job(world, id)->generation, 2);
}

static void a_late_turn_extends_a_challenge(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    struct agent *b = &world->agent[1];
    agent_kill(b);
    agent_beat(world, &world->agent[0]);
    world->now_ms = core_deadline_ms(world->core) + 20000; /* the coordinator's machine slept */
    struct event event = {.type = EVENT_TICK};
    world_send(world, &event);
    assert_int_equal(state_of(world, b), DEVICE_ONLINE);
    assert_int_equal(world_job(world, id)->generation, 1);
}

/* It may be dead: whatever else happens meanwhile, no plan takes it before it has spoken. */
static void no_plan_takes_a_device_that_owes_an_answer(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    struct agent *b = &world->agent[1], *c = &world->agent[2];
    b->stopped_cpu = true;
    agent_beat(world, &world->agent[0]);
    world_pass(world, 300);
    assert_int_equal(state_of(world, b), DEVICE_ONLINE);
    story_claim(world, c, 2);
    assert_excluded(core_job_plan(world->core, id), b);
}

/* Poison is what the job does to itself: devices that die one after the other are none. */
static void many_losses_in_a_row_do_not_fail_a_job(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    for (int i = 0; i < 8; i++) {
        agent_restart(world, &world->agent[i % 3]);
        for (size_t k = 0; k < 3; k++) {
            agent_beat(world, &world->agent[k]);
        }
        assert_int_not_equal(world_job(world, id)->state, JOB_FAILED);
    }
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    story_finish(world, id);
}

static void a_device_that_was_out_comes_back_as_a_spare(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_committed(world, id);
    struct agent *b = &world->agent[1];
    b->up = false; /* only disconnected: its process continues */
    story_others_beat(world, b, 400);
    assert_int_equal(state_of(world, b), DEVICE_DISCONNECTED);
    b->up = true;
    agent_beat(world, b);
    assert_int_equal(state_of(world, b), DEVICE_ONLINE);
    agent_follow(world, b);
    assert_int_equal(agent_phase(b), PHASE_IDLE);
    world_settle(world);
    story_claim(world, &world->agent[2], 5);
    assert_int_equal(core_job_plan(world->core, id)->stage_count, 3); /* and is used */
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_dead_device_whose_socket_is_refused_is_out_at_once),
        STORY(a_report_challenges_the_suspect),
        STORY(silence_without_a_refusal_is_left_to_the_lease),
        STORY(a_heartbeat_without_the_nonce_does_not_answer_a_challenge),
        STORY(between_two_that_live_the_link_is_to_blame),
        STORY(a_report_that_is_taken_back_has_no_effect),
        STORY(a_job_that_needs_both_ends_of_a_bad_link_outlives_it),
        STORY(a_broken_poll_challenges_the_device),
        STORY(an_error_at_a_peer_that_is_dead_is_the_devices),
        STORY(an_error_at_a_peer_that_lives_is_the_links_at_once),
        STORY(one_whose_heartbeats_are_late_as_a_rule_gets_more_time),
        STORY(a_late_turn_extends_a_challenge),
        STORY(no_plan_takes_a_device_that_owes_an_answer),
        STORY(many_losses_in_a_row_do_not_fail_a_job),
        STORY(a_device_that_was_out_comes_back_as_a_spare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
