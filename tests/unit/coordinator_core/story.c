#include "tests/unit/coordinator_core/story.h"

#include <string.h>

int story_setup(void **state)
{
    *state = world_new();
    return 0;
}

int story_teardown(void **state)
{
    world_free(*state);
    return 0;
}

void story_devices(struct world *world)
{
    (void)world_agent(world, "a", 10);
    (void)world_agent(world, "b", 10);
    (void)world_agent(world, "c", 10);
}

void assert_state(const struct world *world, const char *job, enum job_state state)
{
    assert_string_equal(job_state_names[world_job(world, job)->state], job_state_names[state]);
}

void assert_trace(struct world *world, const char *expected)
{
    assert_string_equal(world->trace.data ? world->trace.data : "", expected);
    world_clear(world);
}

void story_submit(struct world *world, char id[ID_SIZE], const struct job_spec *spec)
{
    world_submit(world, spec);
    assert_int_equal(world->status, 201);
    memcpy(id, world->job.id.text, ID_SIZE);
}

struct job_spec story_spec(int64_t steps)
{
    struct job_spec spec = world_spec("j", steps);
    spec.cut[0] = 1;
    spec.cut[1] = 2;
    spec.cut_count = 2;
    return spec;
}

void story_run(struct world *world, char id[ID_SIZE], int64_t steps)
{
    struct job_spec spec = story_spec(steps);
    story_submit(world, id, &spec);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    world_clear(world);
}

void story_train(struct world *world, char id[ID_SIZE], int64_t steps, int64_t rounds)
{
    story_devices(world);
    story_run(world, id, steps);
    world_train(world, rounds);
}

void story_measure(struct world *world, struct agent *agent, double seconds)
{
    struct heartbeat *heartbeat = &agent->heartbeat;
    agent_beat(world, agent);
    for (int64_t u = agent->assignment.run.first; u < agent->assignment.run.end; u++) {
        heartbeat->unit_seconds[heartbeat->unit_seconds_count++] = (struct unit_seconds){
            .unit = u, .forward_seconds = seconds, .backward_seconds = seconds};
    }
    agent_beat_again(world, agent);
}

void story_replan(struct world *world, const char *id, int64_t first, int64_t second)
{
    const struct replan_request request = {
        .cut = {first, second}, .cut_count = 2, .has_cuts = true};
    world_replan(world, id, &request);
}

void story_round(struct world *world, bool upload)
{
    for (size_t i = 0; i < world->agent_count; i++) {
        struct agent *agent = &world->agent[i];
        if (!agent->up || agent->stopped_cpu) {
            continue;
        }
        agent_follow(world, agent);
        (void)agent_step(world, agent);
        for (int blob = 0; blob < 8; blob++) {
            (void)agent_replicate(world, agent);
        }
        if (upload) {
            (void)agent_upload(world, agent);
        }
        agent_beat(world, agent);
    }
}

void story_next(struct world *world, const char *id)
{
    int64_t generation = world_job(world, id)->generation;
    for (int round = 0; world_job(world, id)->generation == generation; round++) {
        assert_true(round < 20);
        story_round(world, false);
    }
}

void story_half_stored(struct world *world, char id[ID_SIZE])
{
    story_devices(world);
    story_run(world, id, 3);
    for (int round = 0; round < 5; round++) {
        story_round(world, false);
    }
    agent_follow(world, &world->agent[0]);
    assert_true(agent_upload(world, &world->agent[0]));
    assert_int_equal(world_units(world, id), 1);
}

void story_finish(struct world *world, const char *id)
{
    size_t exports = world->exports;
    for (int round = 0; round < 50 && world->exports == exports; round++) {
        world_train(world, 20);
        world_live(world, 1000);
    }
    assert_int_equal(world->exports, exports + 1);
    world_exported(world, false);
    assert_state(world, id, JOB_SUCCEEDED);
    world_settle(world);
}

void story_replicated(struct world *world, char id[ID_SIZE], int64_t neighbor_every,
                      int64_t center_every)
{
    struct job_spec spec = story_spec(100);
    spec.neighbor_every = neighbor_every;
    spec.center_every = center_every;
    spec.expected_step_seconds = 0;
    story_devices(world);
    story_submit(world, id, &spec);
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    world_clear(world);
}

const struct assignment *story_assignment(const struct world *world, const struct agent *agent)
{
    static struct assignment desired;
    assert_true(core_assignment(world->core, agent->id.text, agent->boot, &desired));
    return &desired;
}

void story_work(struct world *world, int64_t ms)
{
    for (; ms > 0; ms -= 100) {
        world_pass(world, 100);
        story_round(world, true);
    }
}

void story_committed(struct world *world, char id[ID_SIZE])
{
    story_replicated(world, id, 5, 0);
    world_train(world, 12);
    assert_true(world_job(world, id)->neighbor_version >= 5);
    world->reports = true;
}

void story_others_beat(struct world *world, const struct agent *except, int64_t ms)
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

void story_claim(struct world *world, struct agent *agent, int64_t generation)
{
    agent_beat(world, agent);
    agent->heartbeat.highest_generation = generation;
    agent_beat_again(world, agent);
}

void assert_excluded(const struct plan *plan, const struct agent *agent)
{
    assert_int_equal(plan->stage_count, 2);
    for (size_t s = 0; s < 2; s++) {
        assert_string_not_equal(plan->stage[s].device.text, agent->id.text);
    }
}

void story_measure_step(struct world *world, double seconds)
{
    struct agent *c = &world->agent[2];
    agent_beat(world, c);
    c->heartbeat.metric[0] =
        (struct metric){.step = c->step, .name = METRIC_STEP_SECONDS, .value = seconds};
    c->heartbeat.metric_count = 1;
    agent_beat_again(world, c);
}

void story_report_steps(struct world *world, struct agent *agent, int count, double seconds)
{
    for (int i = 0; i < count; i++) {
        agent_beat(world, agent);
        agent->heartbeat.metric[0] =
            (struct metric){.step = ++agent->step, .name = METRIC_STEP_SECONDS, .value = seconds};
        agent->heartbeat.metric_count = 1;
        agent_beat_again(world, agent);
    }
}

void story_report(struct world *world, struct agent *agent, const char *code)
{
    agent_follow(world, agent);
    agent_fail(world, agent, code);
    agent_beat(world, agent);
}
