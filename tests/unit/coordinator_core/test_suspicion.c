/* Who is to blame: a device that is dead, one that hangs, or the link between two that live. */
#include <string.h>

#include "tests/unit/coordinator_core/story.h"

static int state_of(const struct world *world, const struct agent *agent)
{
    return core_device(world->core, agent->id.text)->state;
}

/* A job with the shortest deadlines, some steps done, and version 5 committed. */
static void begin(struct world *world, char id[ID_SIZE])
{
    story_replicated(world, id, 5, 0);
    world_train(world, 12);
    assert_true(world_job(world, id)->neighbor_version >= 5);
    world->reports = true;
}

static void others_beat(struct world *world, const struct agent *except, int64_t ms)
{
    for (; ms > 0; ms -= 50) {
        world_pass(world, 50);
        for (size_t i = 0; i < world->agent_count; i++) {
            if (&world->agent[i] != except && world->agent[i].up) {
                agent_beat(world, &world->agent[i]);
            }
        }
    }
}

/* The plan is on the other two of three devices. */
static void assert_left_out(const struct plan *plan, const struct agent *agent)
{
    assert_int_equal(plan->stage_count, 2);
    for (size_t s = 0; s < 2; s++) {
        assert_string_not_equal(plan->stage[s].device.text, agent->id.text);
    }
}

static void a_dead_device_whose_socket_is_refused_is_out_at_once(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    begin(world, id);
    int64_t version = world_job(world, id)->neighbor_version;
    struct agent *b = &world->agent[1];
    agent_kill(b);
    others_beat(world, b, 200);
    assert_int_equal(world_job(world, id)->generation, 1);
    others_beat(world, b, 100); /* challenge_ms are over, long before the lease */
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
    begin(world, id);
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
    others_beat(world, b, 4900);
    assert_int_equal(world_job(world, id)->generation, 1);
    assert_int_equal(state_of(world, b), DEVICE_SUSPECT);
    others_beat(world, b, 200);
    assert_int_equal(state_of(world, b), DEVICE_LOST);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_DEVICE_LOST);
}

/* What was sent before it died may arrive after: only the nonce is a sign of life. */
static void a_heartbeat_without_the_nonce_does_not_answer_a_challenge(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    begin(world, id);
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
    begin(world, id);
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
    assert_left_out(world_plan(world, id, 2), c); /* the later of the two */
    const struct incident *incident = core_job_incident(world->core, id);
    assert_int_equal(incident->cause, INCIDENT_LINK);
    assert_int_equal(incident->device_count, 2); /* the pair */
}

static void a_report_that_is_taken_back_has_no_effect(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    begin(world, id);
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

/* With two devices of two, nothing can be left out: it goes on trying, and goes on when the link is
 * back. */
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
    begin(world, id);
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
    begin(world, id);
    struct agent *b = &world->agent[1], *c = &world->agent[2];
    story_replan(world, id, 2, 3);
    story_next(world, id);
    agent_follow(world, c);
    agent_kill(b);
    agent_fail(c, "peer");
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
    begin(world, id);
    struct agent *a = &world->agent[0], *c = &world->agent[2];
    story_replan(world, id, 2, 3);
    story_next(world, id);
    agent_follow(world, c);
    c->cut = true;
    agent_fail(c, "peer");
    agent_beat(world, c);
    for (size_t i = 0; i < 2; i++) { /* each challenged device answers */
        agent_beat(world, &world->agent[i]);
    }
    assert_int_equal(world_job(world, id)->generation, 3);
    assert_int_equal(world_plan(world, id, 3)->reason, PLAN_LINK);
    assert_string_equal(world_plan(world, id, 3)->stage[0].device.text, a->id.text);
    assert_int_equal(world_plan(world, id, 3)->stage_count, 2);
}

static void a_stalled_job_challenges_all_its_devices(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    begin(world, id);
    assert_int_equal(world_job(world, id)->deadlines.step_ms, 2000);
    world->reports = false;
    others_beat(world, NULL, 1900);
    assert_false(world_job(world, id)->stalled);
    world_pass(world, 200);
    assert_true(world_job(world, id)->stalled);
    for (size_t i = 0; i < 3; i++) {
        assert_true(story_assignment(world, &world->agent[i])->challenge[0] != '\0');
    }
    assert_true(agent_step(world, &world->agent[0]));
    others_beat(world, NULL, 50);
    assert_false(world_job(world, id)->stalled);
    others_beat(world, NULL, 1500);
    assert_int_equal(world_job(world, id)->generation, 1);
}

static void the_stage_that_holds_work_is_excluded(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    begin(world, id);
    struct agent *b = &world->agent[1];
    for (int i = 0; i < 90 && world_job(world, id)->generation == 1; i++) {
        b->busy_ms += 50;
        others_beat(world, NULL, 50);
    }
    const struct plan *plan = world_plan(world, id, 2);
    assert_non_null(plan);
    assert_int_equal(plan->reason, PLAN_STALLED);
    assert_left_out(plan, b);
    assert_false(world_job(world, id)->stalled);
    assert_int_equal(core_job_incident(world->core, id)->cause, INCIDENT_STALLED);
}

static void when_no_stage_holds_work_all_are_planned_again(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    begin(world, id);
    others_beat(world, NULL, 4200); /* a tensor got lost */
    assert_int_equal(world_job(world, id)->generation, 2);
    assert_int_equal(world_plan(world, id, 2)->reason, PLAN_STALLED);
    assert_int_equal(world_plan(world, id, 2)->stage_count, 3);
}

/* A prediction that was far too hopeful must not end a job. */
static void a_job_that_stalls_again_gets_more_time(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    begin(world, id);
    int64_t generation = 1, last_ms = 0;
    for (int i = 0; i < 5; i++) {
        int64_t since_ms = world->now_ms;
        while (world_job(world, id)->generation == generation) {
            others_beat(world, NULL, 500);
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
    begin(world, id);
    world->reports = false;
    struct agent *a = &world->agent[0], *b = &world->agent[1];
    for (int i = 0; i < 3; i++) { /* a tensor of 100 bytes took 100 s */
        agent_beat(world, a);
        a->heartbeat.link[0] = (struct link_report){.device = b->id,
                                                    .count = 1,
                                                    .seconds_sum = 100,
                                                    .bytes_sum = 100,
                                                    .bytes_squared_sum = 10000,
                                                    .bytes_seconds_sum = 10000};
        a->heartbeat.link_count = 1;
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
        others_beat(*state, NULL, 6000);
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
    others_beat(world, NULL, 2500);
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
    others_beat(world, NULL, 20000);
    struct agent *c = &world->agent[2];
    c->heartbeat.metric_count = 1;
    c->heartbeat.metric[0] =
        (struct metric){.step = 50, .name = METRIC_TEST_ACCURACY, .value = 0.5};
    agent_beat_again(world, c);
    agent_restart(world, c);
    assert_in_range(world_job(world, id)->deadlines.evaluation_ms, 129000, 131000);
}

static void one_whose_heartbeats_are_late_as_a_rule_gets_more_time(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    begin(world, id);
    struct agent *b = &world->agent[1];
    for (int i = 0; i < 40; i++) {
        world_pass(world, 1200); /* 200 ms late each time */
        (void)agent_step(world, &world->agent[0]);
        others_beat(world, NULL, 50);
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
    begin(world, id);
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
    begin(world, id);
    struct agent *b = &world->agent[1], *c = &world->agent[2];
    b->stopped_cpu = true;
    agent_beat(world, &world->agent[0]);
    world_pass(world, 300);
    assert_int_equal(state_of(world, b), DEVICE_ONLINE);
    c->highest = 2; /* a failure that excludes no device */
    agent_beat(world, c);
    assert_left_out(core_job_plan(world->core, id), b);
}

/* Poison is what the job does to itself: devices that die one after the other are none. */
static void many_losses_in_a_row_do_not_fail_a_job(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    begin(world, id);
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
    begin(world, id);
    struct agent *b = &world->agent[1];
    b->up = false; /* only cut off: its process goes on */
    others_beat(world, b, 400);
    assert_int_equal(state_of(world, b), DEVICE_DISCONNECTED);
    b->up = true;
    agent_beat(world, b);
    assert_int_equal(state_of(world, b), DEVICE_ONLINE);
    agent_follow(world, b);
    assert_int_equal(b->phase, PHASE_IDLE);
    world_settle(world);
    world->agent[2].highest = 5; /* a failure that excludes no device */
    agent_beat(world, &world->agent[2]);
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
        STORY(a_stalled_job_challenges_all_its_devices),
        STORY(the_stage_that_holds_work_is_excluded),
        STORY(when_no_stage_holds_work_all_are_planned_again),
        STORY(a_job_that_stalls_again_gets_more_time),
        STORY(measured_step_times_bound_the_deadlines),
        STORY(an_evaluation_is_not_a_stall),
        STORY(a_job_that_is_never_evaluated_gets_no_time_for_it),
        STORY(an_evaluation_that_was_measured_makes_its_own_deadline),
        STORY(one_whose_heartbeats_are_late_as_a_rule_gets_more_time),
        STORY(a_late_turn_extends_a_challenge),
        STORY(no_plan_takes_a_device_that_owes_an_answer),
        STORY(many_losses_in_a_row_do_not_fail_a_job),
        STORY(a_device_that_was_out_comes_back_as_a_spare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
