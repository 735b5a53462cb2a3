#include "coordinator/core/placement/pipeline.h"

#include <string.h>

#include "coordinator/core/placement/matching.h"
#include "coordinator/core/placement/peers.h"
#include "coordinator/core/placement/problem.h"
#include "coordinator/core/state/keepers.h"
#include "coordinator/core/state/planning.h"
#include "coordinator/core/state/state.h"

/* ---- the plan ---- */

static void fill_stage(const struct planning *planning, size_t s, struct plan_stage *out)
{
    const struct partition_plan *found = problem_plan(planning);
    const size_t row = planning->solution.chosen[s] * planning->model->unit_count;
    *out = (struct plan_stage){
        .first = s == 0 ? 0 : (int64_t)found->end[s - 1],
        .end = (int64_t)found->end[s],
        .in_flight = (int64_t)found->in_flight[s],
        .memory_bytes = (int64_t)found->memory_bytes[s],
        .memory = problem_memory(planning, s),
        .predicted_busy = found->busy[s],
    };
    for (int64_t u = out->first; u < out->end; u++) {
        out->predicted_forward_seconds += planning->expected_forward_seconds[row + (size_t)u];
        out->predicted_backward_seconds += planning->expected_backward_seconds[row + (size_t)u];
    }
}

static void fill_plan(struct planning *planning, struct planned *out)
{
    const struct partition_plan *found = problem_plan(planning);
    out->strict = found->strict;
    out->optimal = found->optimal;
    out->gap = found->gap;
    out->efficiency = found->step_seconds > 0 ? found->fluid_seconds / found->step_seconds : 0;
    problem_expect(planning);
    out->expected_seconds = found->step_seconds;
    for (size_t s = 0; s < found->stage_count; s++) {
        fill_stage(planning, s, &out->stage[s]);
    }
    out->link_count = found->stage_count - 1;
    for (size_t s = 0; s < out->link_count; s++) {
        out->link[s] = problem_link(planning, s);
        out->stage[s].codec = out->link[s].codec;
    }
    out->bottleneck = problem_bottleneck(planning);
}

static bool plan_fits(const struct plan *plan, size_t unit_count)
{
    return keepers_count(plan) == plan->stage_count && keepers_cover(plan, unit_count);
}

static struct stage_work work(const struct stage_list *stages, size_t stage)
{
    const struct plan_stage *own = &stages->stage[stage];
    return (struct stage_work){own->first, own->end, stages->micro_batches};
}

static bool talk(const struct stage_list *stages, size_t a, size_t b)
{
    (void)stages;
    return a + 1 == b || b + 1 == a;
}

/* No other device has the updates of a stage since its last snapshot. */
static bool survives(const struct plan *plan, size_t stage)
{
    (void)plan;
    (void)stage;
    return false;
}

/* The devices together hold all units, each once. */
static void least_memory(const struct job_slot *job, const struct memory_request *whole,
                         struct strategy_memory *out)
{
    struct memory_bytes bytes;
    const int rc = memory_of_stage(job->model, &job->job.spec.optimizer, whole, &bytes, NULL);
    *out = (struct strategy_memory){.all_bytes = rc == 0 ? bytes.total : UINT64_MAX};
}

static void preview(const struct planned *planned, struct job_preview *out)
{
    out->optimal = planned->optimal;
    out->gap = planned->gap;
    out->bottleneck = planned->bottleneck;
    out->link_count = planned->link_count;
    memcpy(out->link, planned->link, sizeof(out->link));
    for (size_t s = 0; s < planned->stage_count; s++) {
        out->stage[s].in_flight = planned->stage[s].in_flight;
        out->stage[s].codec = planned->stage[s].codec;
    }
}

/* ---- the assignment ---- */

static void fill_assignment(const struct core *core, const struct device_slot *device,
                            struct assignment *out)
{
    const struct job_slot *job = device->job;
    const struct plan *plan = &job->plan;
    const size_t s = device->stage;
    struct assignment_run *run = &out->run;
    run->in_flight = plan->stage[s].in_flight;
    run->strict = plan->strict && matching_strict_order(&device->device);
    run->has_previous = s > 0;
    run->has_next = s + 1 < plan->stage_count;
    if (run->has_previous) {
        peers_fill(core, job, s - 1, (enum codec)plan->stage[s - 1].codec, &run->previous);
        peers_allow(core, job, &plan->stage[s - 1].device, out);
        run->previous_in_flight = plan->stage[s - 1].in_flight;
    }
    if (run->has_next) {
        peers_fill(core, job, s + 1, (enum codec)plan->stage[s].codec, &run->next);
        peers_allow(core, job, &plan->stage[s + 1].device, out);
    }
}

static size_t list_peers(struct assignment_run *run, struct peer *out[STRATEGY_PEERS_MAX])
{
    size_t count = 0;
    if (run->has_previous) {
        out[count++] = &run->previous;
    }
    if (run->has_next) {
        out[count++] = &run->next;
    }
    return count;
}

const struct strategy pipeline_strategy = {
    .strategy = STRATEGY_PIPELINE,
    .all_keep = true,
    .scratch_new = problem_scratch_new,
    .scratch_free = problem_scratch_free,
    .solve = problem_solve,
    .leave_out = problem_left_out,
    .resume = problem_continue,
    .fill_plan = fill_plan,
    .state_bytes = problem_state_bytes,
    .plan_fits = plan_fits,
    .work = work,
    .talk = talk,
    .survives = survives,
    .least_memory = least_memory,
    .preview = preview,
    .fill_assignment = fill_assignment,
    .peers = list_peers,
};
