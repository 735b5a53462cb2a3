#include "tests/unit/coordinator_core/servers_story.h"

#include "coordinator/core/placement/placement.h"

struct job_spec servers_spec(int64_t steps)
{
    struct job_spec spec = world_spec("j", steps);
    spec.strategy = STRATEGY_PARAMETER_SERVER;
    spec.dataset_test[0] = '\0';
    spec.evaluate_every_epochs = 0;
    return spec;
}

void servers_answer(struct world *world, const struct servers_stage_of *stage, size_t count)
{
    struct err err = {0};
    struct event event = {.type = EVENT_PLANNED};
    struct planned *planned = &world->planned;
    const uint64_t question = world->question;
    world->question = 0;
    assert_true(core_planning(world->core, question, world->planning));
    assert_ok(placement_solve(world->planning, planned, &err), &err);
    planned->stage_count = count;
    for (size_t s = 0; s < count; s++) {
        planned->stage[s] = (struct plan_stage){.device = world->agent[stage[s].agent].id,
                                                .first = stage[s].first,
                                                .end = stage[s].end,
                                                .in_flight = 1,
                                                .share_first = stage[s].share_first,
                                                .share_end = stage[s].share_end,
                                                .memory_bytes = 1 << 20};
    }
    event.planned = (struct event_planned){.planned = planned, .question = question};
    world_send(world, &event);
}

void servers_run(struct world *world, char id[ID_SIZE], const struct job_spec *spec)
{
    static const struct servers_stage_of stage[] = {
        {0, 0, 2, 0, 0}, {1, 2, 5, 2, 4}, {2, 0, 0, 0, 2}};
    story_devices(world);
    (void)world_agent(world, "d", 10);
    world->plans_wait = true;
    story_submit(world, id, spec);
    servers_answer(world, stage, 3);
    world->plans_wait = false;
    world_settle(world);
    assert_state(world, id, JOB_RUNNING);
    assert_int_equal(core_job_plan(world->core, id)->stage_count, 3);
}

const struct plan_stage *servers_stage(const struct world *world, const char *id,
                                       const struct agent *agent)
{
    const struct plan *plan = core_job_plan(world->core, id);
    for (size_t s = 0; s < plan->stage_count; s++) {
        if (id_equal(plan->stage[s].device.text, agent->id.text)) {
            return &plan->stage[s];
        }
    }
    return NULL;
}
