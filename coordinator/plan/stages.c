#include "coordinator/plan/stages.h"

#include <math.h>
#include <string.h>

#include "coordinator/plan/timeline.h"

/* More batches in flight than usual cost memory and delay gradients: they must gain this much. */
#define ASYNC_GAIN 0.05

void stages_init(struct stages *stages, const struct partition_problem *problem)
{
    size_t units = problem->unit_count;
    stages->problem = problem;
    for (size_t d = 0; d < problem->device_count; d++) {
        struct stage_sums *sums = &stages->sums[d];
        sums->forward[0] = sums->backward[0] = sums->update[0] = 0;
        for (size_t u = 0; u < units; u++) {
            sums->forward[u + 1] = sums->forward[u] + problem->forward_seconds[d * units + u];
            sums->backward[u + 1] = sums->backward[u] + problem->backward_seconds[d * units + u];
            sums->update[u + 1] = sums->update[u] + problem->update_seconds[d * units + u];
        }
    }
}

static void fill_stages(const struct stages *stages, const size_t *end,
                        struct timeline_stage *stage)
{
    size_t first = 0;
    for (size_t d = 0; d < stages->problem->device_count; d++) {
        const struct stage_sums *sums = &stages->sums[d];
        stage[d] = (struct timeline_stage){
            .forward_seconds = stages_sum(sums->forward, first, end[d]),
            .backward_seconds = stages_sum(sums->backward, first, end[d]),
            .update_seconds = stages_sum(sums->update, first, end[d]),
        };
        if (d + 1 < stages->problem->device_count) {
            stage[d].send_forward_seconds = stage[d].send_backward_seconds =
                stages_send_seconds(stages, d, end[d]);
            stage[d].latency_seconds = stages->problem->link[d].latency_seconds;
        }
        first = end[d];
    }
}

/* As many micro-batches as travel after the stage while the slowest stage or link works on one. */
static void fill_in_flight(const struct stages *stages, struct timeline_stage *stage,
                           bool hide_links)
{
    size_t count = stages->problem->device_count;
    double slowest = 0;
    for (size_t i = 0; i < count; i++) {
        slowest = stages_max(slowest, stage[i].forward_seconds + stage[i].backward_seconds);
        slowest = stages_max(slowest, stage[i].send_forward_seconds);
    }
    const bool async = stages->problem->async;
    size_t limit = async ? TIMELINE_IN_FLIGHT_MAX : stages->problem->micro_batches;
    limit = limit < TIMELINE_IN_FLIGHT_MAX ? limit : TIMELINE_IN_FLIGHT_MAX;
    double travel = 0;
    for (size_t i = count; i-- > 0;) {
        travel += stage[i].send_forward_seconds + stage[i].send_backward_seconds +
                  2 * stage[i].latency_seconds;
        size_t in_flight = count - i;
        if (hide_links && slowest > 0) {
            double wanted = 1 + ceil(travel / slowest - 1e-9);
            in_flight = wanted > (double)in_flight
                            ? (size_t)stages_min(wanted, TIMELINE_IN_FLIGHT_MAX)
                            : in_flight;
            /* Each batch in flight keeps a version of the parameters. They never rise: `wanted`
             * falls along the pipeline. */
            in_flight = async && in_flight > 2 * (count - i) ? 2 * (count - i) : in_flight;
        }
        stage[i].in_flight = in_flight < limit ? in_flight : limit;
        travel += stage[i].forward_seconds + stage[i].backward_seconds;
    }
}

/* Lower the in-flight limits as the memory requires. false: some stage does not fit at all. */
static bool fit_memory(const struct stages *stages, const size_t *end, struct timeline_stage *stage,
                       struct partition_plan *plan)
{
    size_t first = 0;
    for (size_t d = 0; d < stages->problem->device_count; d++) {
        uint64_t cap = stages->problem->memory_cap_bytes[d];
        uint64_t bytes = stages_memory(stages, d, first, end[d], stage[d].in_flight);
        while (bytes > cap && stage[d].in_flight > 1 && !stages->problem->async) {
            stage[d].in_flight--;
            bytes = stages_memory(stages, d, first, end[d], stage[d].in_flight);
        }
        if (bytes > cap) {
            return false;
        }
        plan->end[d] = end[d];
        plan->in_flight[d] = stage[d].in_flight;
        plan->memory_bytes[d] = bytes;
        first = end[d];
    }
    return true;
}

static double fluid_bound(const struct stages *stages)
{
    double capacity = 0;
    for (size_t d = 0; d < stages->problem->device_count; d++) {
        capacity += 1 / stages_work_seconds(stages, d, 0, stages->problem->unit_count);
    }
    return (double)stages->problem->micro_batches / capacity;
}

/* The usual in-flight limits and those that hide the links; the better ones count, the former when
 * they are equally fast: they take less memory. */
bool stages_play(const struct stages *stages, const size_t *end, struct partition_plan *out,
                 double *work)
{
    size_t count = stages->problem->device_count, micro_batches = stages->problem->micro_batches;
    struct timeline_stage stage[PARTITION_DEVICES_MAX];
    fill_stages(stages, end, stage);
    out->step_seconds = INFINITY;
    const struct timeline_rules rules = {.micro_batches = micro_batches,
                                         .clips_norm = stages->problem->clips_norm,
                                         .async = stages->problem->async};
    const double gain = rules.async ? ASYNC_GAIN : STAGES_EQUAL;
    const int most = stages->problem->one_version ? 0 : 1;
    for (int hide_links = 0; hide_links <= most; hide_links++) {
        struct partition_plan plan = {.bound_seconds = fluid_bound(stages)};
        struct timeline_result result;
        fill_in_flight(stages, stage, hide_links == 1);
        if (!fit_memory(stages, end, stage, &plan)) {
            return hide_links == 1;
        }
        if (hide_links == 1 &&
            memcmp(plan.in_flight, out->in_flight, sizeof(plan.in_flight)) == 0) {
            break;
        }
        timeline_play(stage, count, &rules, &result);
        *work += timeline_work(count, &rules);
        if (result.step_seconds < out->step_seconds * (1 - gain)) {
            plan.step_seconds = result.step_seconds;
            memcpy(plan.busy, result.busy, sizeof(plan.busy));
            *out = plan;
        }
    }
    return true;
}
