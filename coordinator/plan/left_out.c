/* Finds the effect of each device outside of a plan. */
#include <math.h>
#include <string.h>

#include "coordinator/plan/improve.h"
#include "coordinator/plan/scratch.h"

/* Work for each left-out kind of device. */
#define LEFT_OUT_WORK 50000.0

static bool in_plan(const struct partition_plan *plan, size_t device)
{
    for (size_t i = 0; i < plan->stage_count; i++) {
        if (plan->device[i] == device) {
            return true;
        }
    }
    return false;
}

static bool fits_a_unit(const struct kinds *kinds, size_t kind)
{
    for (size_t u = 0; u < kinds->problem->unit_count; u++) {
        if (kinds->fits_end[kind][u] > u) {
            return true;
        }
    }
    return false;
}

/* The step of the fastest plan found with an additional device of a kind, or with one that replaces
 * another device. */
static double seconds_with(struct search *search, const struct partition_plan *plan, size_t kind)
{
    uint16_t order[PARTITION_STAGES_MAX + 1];
    search->best.count = 0;
    search->limit_seconds = INFINITY;
    search->work_max = search->work + LEFT_OUT_WORK;
    for (size_t at = 0; at <= plan->stage_count; at++) {
        for (size_t replace = 0; replace <= 1; replace++) {
            size_t count = 0;
            for (size_t i = 0; i <= plan->stage_count; i++) {
                if (i == at) {
                    order[count++] = (uint16_t)kind;
                }
                if (i < plan->stage_count && !(replace && i == at)) {
                    order[count++] = search->kinds.kind_of[plan->device[i]];
                }
            }
            bool may = count <= search->stages_max && count <= search->kinds.problem->unit_count &&
                       !(replace && at == plan->stage_count);
            if (may && (search->work < search->work_max || search->best.count == 0)) {
                (void)search_try_order(search, order, count);
            }
        }
    }
    return search->limit_seconds;
}

static struct partition_left_out judge(struct search *search, const struct partition_plan *plan,
                                       size_t device)
{
    const size_t kind = search->kinds.kind_of[device];
    struct partition_left_out out = {.device = device, .step_seconds_with = INFINITY};
    if (fits_a_unit(&search->kinds, kind)) {
        out.step_seconds_with = seconds_with(search, plan, kind);
    }
    if (!isfinite(out.step_seconds_with)) {
        out.reason = PARTITION_NO_MEMORY;
    } else if (out.step_seconds_with < plan->step_seconds) {
        out.reason = PARTITION_NO_GAIN;
    } else {
        out.reason =
            plan->stage_count == search->stages_max ? PARTITION_STAGES_FULL : PARTITION_SLOWER;
    }
    return out;
}

size_t partition_left_out(const struct partition_problem *problem,
                          struct partition_scratch *scratch, const struct partition_plan *plan,
                          struct partition_left_out out[PARTITION_LEFT_OUT_MAX])
{
    struct search *search = &scratch->search;
    const struct kinds *kinds = &search->kinds;
    size_t count = 0;
    search->stages_max =
        problem->stages_max < PARTITION_STAGES_MAX ? problem->stages_max : PARTITION_STAGES_MAX;
    for (size_t i = 0; i < kinds->count; i++) {
        bool judged = false;
        struct partition_left_out answer = {0};
        for (size_t d = 0; d < problem->device_count && count < PARTITION_LEFT_OUT_MAX; d++) {
            if (kinds->kind_of[d] != kinds->by_speed[i] || in_plan(plan, d)) {
                continue;
            }
            answer = judged ? answer : judge(search, plan, d);
            judged = true;
            answer.device = d;
            out[count++] = answer;
        }
    }
    return count;
}
