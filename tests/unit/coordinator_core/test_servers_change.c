/* Assignments of servers and workers, what they measure, and changes of their plans. */
#include <stdio.h>
#include <string.h>

#include "coordinator/core/generation/drift.h"
#include "coordinator/core/state/layout.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "tests/unit/coordinator_core/servers_story.h"

#define CHANGE(function) cmocka_unit_test_setup_teardown(function, story_setup, story_teardown)

/* ---- assignments ---- */

/* The stages that the assignment calls, as bits. */
static unsigned called(const struct assignment *desired)
{
    unsigned bits = 0;
    for (size_t s = 0; s < desired->run.stages_listed; s++) {
        bits |= desired->run.stage[s].peer.url[0] != '\0' ? 1u << s : 0;
    }
    return bits;
}

/* The agents that may call, as bits. */
static unsigned callers(const struct world *world, const struct assignment *desired)
{
    unsigned bits = 0;
    for (size_t i = 0; i < desired->caller_count; i++) {
        for (size_t a = 0; a < world->agent_count; a++) {
            const bool same = id_equal(world->agent[a].id.text, desired->caller[i].device.text);
            bits |= same ? 1u << a : 0;
        }
    }
    return bits;
}

/* Each call has a ticket of its own. */
static void check_tickets(struct world *world, const struct agent *agent)
{
    static struct assignment desired;
    struct core_ticket ticket;
    size_t at = 0, tickets = 0, calls = 0;
    assert_true(core_assignment(world->core, agent->id.text, agent->boot, &desired));
    while (core_next_ticket(world->core, agent->id.text, &desired, &at, &ticket)) {
        (void)snprintf(ticket.out, TICKET_SIZE, "%zu", ++tickets);
    }
    for (size_t s = 0; s < desired.run.stages_listed; s++) {
        const struct peer *peer = &desired.run.stage[s].peer;
        assert_int_equal(peer->url[0] != '\0', peer->ticket[0] != '\0');
        calls += peer->url[0] != '\0';
    }
    assert_int_equal(tickets, calls + desired.caller_count + desired.run.has_neighbor);
}

static void run_copied(struct world *world, char id[ID_SIZE], double clip_norm)
{
    struct job_spec spec = servers_spec(1000);
    spec.neighbor_every = 5;
    spec.optimizer.clip_norm = clip_norm;
    servers_run(world, id, &spec);
}

static void an_assignment_lists_all_stages_and_those_that_the_device_calls(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run_copied(world, id, 0);
    for (size_t i = 0; i < 3; i++) {
        const struct assignment *desired = story_assignment(world, &world->agent[i]);
        const struct assignment_run *run = &desired->run;
        assert_int_equal(run->stages_listed, 3);
        assert_int_equal(run->stage_index, i);
        assert_int_equal(run->in_flight, 1);
        assert_false(run->has_previous || run->has_next || run->strict);
        for (size_t s = 0; s < 3; s++) {
            assert_string_equal(run->stage[s].peer.device.text, world->agent[s].id.text);
        }
        assert_true(run->stage[1].first == 2 && run->stage[1].end == 5);
        assert_true(run->stage[1].share_first == 2 && run->stage[1].share_end == 4);
        check_tickets(world, &world->agent[i]);
    }
    const struct assignment *a = story_assignment(world, &world->agent[0]);
    assert_int_equal(called(a), 1u << 1 | 1u << 2); /* the lead calls everyone */
    assert_int_equal(callers(world, a), 1u << 1 | 1u << 2);
    assert_string_equal(a->run.neighbor.device.text, world->agent[1].id.text);
    const struct assignment *b = story_assignment(world, &world->agent[1]);
    assert_int_equal(called(b), 1u << 0);
    assert_int_equal(callers(world, b), 1u << 0 | 1u << 2);
    assert_string_equal(b->run.neighbor.device.text, world->agent[0].id.text);
    const struct assignment *c = story_assignment(world, &world->agent[2]);
    assert_int_equal(called(c), 1u << 0 | 1u << 1);
    assert_int_equal(callers(world, c), 1u << 0);
    assert_false(c->run.has_neighbor);
    assert_true(c->run.first == c->run.end);
}

/* Three servers that do not work, and a worker. */
static void servers_with_a_norm_call_those_beside_them(void **state)
{
    static const struct servers_stage_of stage[] = {
        {0, 0, 1, 0, 0}, {1, 1, 3, 0, 0}, {2, 3, 5, 0, 0}, {3, 0, 0, 0, 4}};
    struct world *world = *state;
    for (int clips = 0; clips < 2; clips++) {
        char id[ID_SIZE];
        struct job_spec spec = servers_spec(10);
        spec.optimizer.clip_norm = clips;
        if (clips == 0) {
            story_devices(world);
            (void)world_agent(world, "d", 10);
        }
        world->plans_wait = true;
        story_submit(world, id, &spec);
        servers_answer(world, stage, 4);
        world->plans_wait = false;
        assert_int_equal(called(story_assignment(world, &world->agent[1])),
                         clips ? 1u << 0 | 1u << 2 : 0);
        assert_int_equal(called(story_assignment(world, &world->agent[2])), clips ? 1u << 1 : 0);
        assert_int_equal(callers(world, story_assignment(world, &world->agent[2])),
                         1u << 0 | 1u << 1 | 1u << 3); /* b sends its copies */
        story_finish(world, id);
    }
}

static void servers_and_workers_load_what_they_need(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct job_spec spec = servers_spec(10);
    story_devices(world);
    world->agent[0].stuck = true;
    spec.parameter_server.place[0] = (struct server_place){world->agent[0].id, 5};
    spec.parameter_server.place_count = 1;
    spec.devices_min = 3;
    story_submit(world, id, &spec);
    world_settle(world);
    assert_state(world, id, JOB_PREPARING);
    for (size_t i = 0; i < 3; i++) {
        const struct assignment *desired = story_assignment(world, &world->agent[i]);
        assert_int_equal(desired->run.phase, PHASE_PREPARE);
        assert_int_equal(desired->run.source_count, 5);
        assert_int_equal(desired->run.source[4].from, SOURCE_SEED);
    }
}

/* ---- measurements ---- */

/* The agent reports the times of units [first, end). */
static void measure(struct world *world, struct agent *agent, int64_t first, int64_t end,
                    double seconds)
{
    struct heartbeat *heartbeat = &agent->heartbeat;
    agent_beat(world, agent);
    for (int64_t u = first; u < end; u++) {
        heartbeat->unit_seconds[heartbeat->unit_seconds_count++] = (struct unit_seconds){
            .unit = u, .forward_seconds = seconds, .backward_seconds = 2 * seconds};
    }
    agent_beat_again(world, agent);
}

static void workers_measure_all_units_and_servers_their_update(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run_copied(world, id, 0);
    world_train(world, 3);
    const uint64_t refused = world->core->capacity->refused;
    measure(world, &world->agent[2], 0, 5, 0.1);
    measure(world, &world->agent[1], 0, 5, 0.2);
    assert_int_equal(world->core->capacity->refused, refused);
    const struct plan *plan = core_job_plan(world->core, id);
    assert_true(plan->stage[2].measured_forward_seconds > 0.49);
    assert_true(plan->stage[1].measured_forward_seconds > 0.99);
    measure(world, &world->agent[0], 0, 2, 0.1); /* it computes nothing */
    assert_true(plan->stage[0].measured_forward_seconds == 0);
    assert_true(slots_job(world->core, id)->drift.measured); /* all that compute are */
    struct device_capacity *a =
        capacity_of(world->core, slots_device(world->core, world->agent[0].id.text));
    assert_true(a->update_seconds_per_byte == 0);
    agent_beat(world, &world->agent[0]);
    world->agent[0].heartbeat.update_seconds = 0.01;
    agent_beat_again(world, &world->agent[0]);
    assert_true(a->update_seconds_per_byte > 0);
}

static void measured_times_decide_the_next_shares(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run_copied(world, id, 0);
    world_train(world, 3);
    measure(world, &world->agent[1], 0, 5, 3);
    measure(world, &world->agent[2], 0, 5, 1);
    const struct replan_request same = {.device = {world->agent[1].id, world->agent[2].id},
                                        .device_count = 2};
    world_replan(world, id, &same);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(core_job_plan(world->core, id)->generation, 2);
    const struct plan_stage *b = servers_stage(world, id, &world->agent[1]);
    const struct plan_stage *c = servers_stage(world, id, &world->agent[2]);
    assert_int_equal(b->share_end - b->share_first, 1);
    assert_int_equal(c->share_end - c->share_first, 3);
}

/* Both work for the job; then c gets slower, and so do its steps. */
static void a_worker_that_gets_slower_gets_a_smaller_share(void **state)
{
    static const struct servers_stage_of stage[] = {{0, 0, 5, 0, 2}, {1, 0, 0, 2, 4}};
    struct world *world = *state;
    char id[ID_SIZE];
    struct job_spec spec = servers_spec(100000);
    (void)world_agent(world, "a", 10);
    (void)world_agent(world, "b", 10);
    world->plans_wait = true;
    story_submit(world, id, &spec);
    servers_answer(world, stage, 2);
    world->plans_wait = false;
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    world_train(world, 3);
    for (int i = 0; i < 12 && core_job_plan(world->core, id)->generation == 1; i++) {
        measure(world, &world->agent[0], 0, 5, 0.1);
        measure(world, &world->agent[1], 0, 5, 1);
        story_report_steps(world, &world->agent[0], 8, 2 * 5 * 3.0);
        world_live(world, DRIFT_WINDOW_MS);
    }
    world_settle(world);
    const struct plan *plan = core_job_plan(world->core, id);
    assert_int_equal(plan->reason, PLAN_DRIFT);
    const struct plan_stage *a = servers_stage(world, id, &world->agent[0]);
    assert_true(a->share_end - a->share_first >= 3);
    assert_true(world_job(world, id)->trial.step_seconds == 30); /* b computed two of four */
    /* The plan before is known as a whole: its shares, too. */
    const struct replan_request *before = &world_job(world, id)->trial.before;
    assert_true(world_job(world, id)->has_trial);
    assert_int_equal(before->share_end_count, 2);
    assert_true(before->share_end[0] == 2 && before->share_end[1] == 4);
}

/* ---- requests ---- */

static void a_request_for_the_same_stages_has_the_same_shares(void **state)
{
    (void)state;
    const struct servers_stage_of of[] = {{0, 0, 2, 3, 4}, {1, 2, 5, 0, 0}, {2, 0, 0, 0, 3}};
    struct plan_stage read[3];
    struct replan_request request;
    struct plan plan = {.stage_count = 3}, other;
    for (size_t s = 0; s < 3; s++) {
        plan.stage[s] = (struct plan_stage){.first = of[s].first,
                                            .end = of[s].end,
                                            .share_first = of[s].share_first,
                                            .share_end = of[s].share_end};
        (void)snprintf(plan.stage[s].device.text, ID_SIZE, "dev_%zu", s);
    }
    layout_request(&plan, &request);
    assert_true(layout_is(&request, plan.stage, 3));
    layout_read(&request, 5, read);
    for (size_t s = 0; s < 3; s++) {
        assert_string_equal(read[s].device.text, plan.stage[s].device.text);
        assert_int_equal(read[s].end - read[s].first, of[s].end - of[s].first);
        assert_int_equal(read[s].share_end - read[s].share_first,
                         of[s].share_end - of[s].share_first);
        assert_true(s == 1 || read[s].share_first == of[s].share_first);
    }
    other = plan;
    other.stage[2].share_end = 2;
    other.stage[0].share_first = 2;
    assert_false(layout_is(&request, other.stage, 3));
    other = plan;
    other.stage[0].end = other.stage[1].first = 3;
    assert_false(layout_is(&request, other.stage, 3));
    assert_false(layout_is(&request, plan.stage, 2));
    other = plan;
    other.stage[2].first = 4;
    other.stage[2].end = 5;
    assert_false(layout_is(&request, other.stage, 3));
}

static void a_request_can_state_a_whole_plan(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run_copied(world, id, 0);
    world_train(world, 3);
    struct replan_request request = {.cut = {3},
                                     .cut_count = 1,
                                     .has_cuts = true,
                                     .device_count = 4,
                                     .share_end = {4, 0, 1, 2},
                                     .share_end_count = 4};
    for (size_t i = 0; i < 4; i++) {
        request.device[i] = world->agent[3 - i].id;
    }
    world_replan(world, id, &request);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    const struct plan *plan = core_job_plan(world->core, id);
    assert_int_equal(plan->generation, 2);
    assert_int_equal(plan->stage_count, 4);
    assert_string_equal(plan->stage[0].device.text, world->agent[3].id.text);
    assert_true(plan->stage[0].end == 3 && plan->stage[0].share_first == 2);
    assert_true(plan->stage[1].first == 3 &&
                plan->stage[1].share_first == plan->stage[1].share_end);
    assert_true(plan->stage[2].share_first == 0 && plan->stage[2].share_end == 1);
    assert_true(plan->stage[3].share_first == 1 && plan->stage[3].share_end == 2);
    world_train(world, 3);
}

static void an_earlier_plan_comes_back_with_its_shares(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run_copied(world, id, 0);
    world_train(world, 3);
    world_verb(world, id, JOB_REPLAN);
    world_settle(world);
    assert_int_equal(core_job_plan(world->core, id)->generation, 2);
    struct event event = {.type = EVENT_JOB_VERB};
    const struct replan_request asked = {.generation = 1};
    memcpy(event.job_verb.job.text, id, ID_SIZE);
    event.job_verb.verb = JOB_REPLAN;
    event.job_verb.replan = &asked;
    event.job_verb.plan = world_plan(world, id, 1);
    world_send(world, &event);
    assert_int_equal(world->status, 202);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    const struct plan *plan = core_job_plan(world->core, id), *first = world_plan(world, id, 1);
    assert_int_equal(plan->generation, 3);
    for (size_t s = 0; s < 3; s++) {
        assert_string_equal(plan->stage[s].device.text, first->stage[s].device.text);
        assert_int_equal(plan->stage[s].share_first, first->stage[s].share_first);
        assert_int_equal(plan->stage[s].share_end, first->stage[s].share_end);
    }
    assert_int_equal(plan->stage[0].end, 2);
    event.job_verb.plan = world_plan(world, id, 1);
    world_send(world, &event);
    assert_int_equal(world->problem, PROBLEM_WRONG_STATE); /* it runs these stages already */
}

static void a_request_can_name_a_number_of_servers(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    run_copied(world, id, 0);
    for (int64_t servers = 1; servers <= 3; servers++) {
        const struct replan_request request = {.servers = servers};
        world_replan(world, id, &request);
        assert_int_equal(world->status, 202);
        world_settle(world);
        const struct plan *plan = core_job_plan(world->core, id);
        assert_int_equal(plan->generation, 1 + servers);
        size_t keepers = 0;
        for (size_t s = 0; s < plan->stage_count; s++) {
            keepers += plan->stage[s].first < plan->stage[s].end;
        }
        assert_int_equal(keepers, servers);
    }
}

static void refuse(struct world *world, const char *id, const struct replan_request *request,
                   const char *part)
{
    world_replan(world, id, request);
    assert_int_equal(world->problem, PROBLEM_INVALID_FIELDS);
    assert_non_null(strstr(world->text, part));
}

static void requests_that_make_no_plan_are_refused(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE], pipeline[ID_SIZE];
    run_copied(world, id, 0);
    const struct replan_request cuts = {.cut = {2}, .cut_count = 1, .has_cuts = true};
    refuse(world, id, &cuts, "/cuts: boundaries of servers need /devices");
    struct replan_request shares = {.cut = {3},
                                    .cut_count = 1,
                                    .has_cuts = true,
                                    .device = {world->agent[0].id, world->agent[1].id},
                                    .device_count = 2,
                                    .share_end = {1, 3},
                                    .share_end_count = 2};
    refuse(world, id, &shares, "3 of 4 micro-batches");
    shares.share_end[1] = 0;
    refuse(world, id, &shares, "1 of 4 micro-batches");
    assert_state(world, id, JOB_RUNNING);
    world_verb(world, id, JOB_CANCEL);
    world_settle(world);
    struct job_spec spec = world_spec("p", 100);
    story_submit(world, pipeline, &spec);
    world_settle(world);
    const struct replan_request servers = {.servers = 2};
    refuse(world, pipeline, &servers, "only with strategy 'parameter_server'");
    shares.share_end[1] = 4;
    refuse(world, pipeline, &shares, "only with strategy 'parameter_server'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHANGE(an_assignment_lists_all_stages_and_those_that_the_device_calls),
        CHANGE(servers_with_a_norm_call_those_beside_them),
        CHANGE(servers_and_workers_load_what_they_need),
        CHANGE(workers_measure_all_units_and_servers_their_update),
        CHANGE(measured_times_decide_the_next_shares),
        CHANGE(a_worker_that_gets_slower_gets_a_smaller_share),
        cmocka_unit_test(a_request_for_the_same_stages_has_the_same_shares),
        CHANGE(a_request_can_state_a_whole_plan),
        CHANGE(an_earlier_plan_comes_back_with_its_shares),
        CHANGE(a_request_can_name_a_number_of_servers),
        CHANGE(requests_that_make_no_plan_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
