/* A request for an earlier plan is rejected before anything stops: the job trains on with its
 * present plan. */
#include "coordinator/core/jobs/earlier.h"

#include <inttypes.h>

#include "coordinator/core/placement/strategy.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/layout.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"

static bool is_present(const struct job_slot *job, const struct plan *plan)
{
    struct replan_request stages;
    layout_request(plan, &stages);
    return layout_is(&stages, job->plan.stage, job->plan.stage_count);
}

/* Why a device of the plan cannot work for the job; NULL: it can. */
static const char *absence(const struct job_slot *job, const struct device_slot *device)
{
    return !device                             ? "has been removed"
           : !device_online(device)            ? "is not online"
           : device->device.pending            ? "waits to be accepted"
           : device->device.cordoned           ? "is cordoned"
           : device_drains(device)             ? "is draining"
           : device->job && device->job != job ? "works for another job"
           : !device_ready(device)             ? "does not answer"
                                               : NULL;
}

bool earlier_refuse(struct core *core, const struct job_slot *job, const struct plan *plan)
{
    if (is_present(job, plan)) {
        act_problem(core, PROBLEM_WRONG_STATE,
                    "the job already runs the stages of generation %" PRId64, plan->generation);
        return true;
    }
    if (plan->started_ms == 0) {
        act_problem(core, PROBLEM_WRONG_STATE,
                    "generation %" PRId64 " never trained; choose one with started_at",
                    plan->generation);
        return true;
    }
    if (!job->strategy->plan_fits(plan, job->unit_count)) {
        act_problem(core, PROBLEM_WRONG_STATE,
                    "generation %" PRId64 " is of a model with other units", plan->generation);
        return true;
    }
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct device_slot *device = slots_device(core, plan->stage[s].device.text);
        const char *why = absence(job, device);
        if (why) {
            act_problem(
                core, PROBLEM_NOT_ENOUGH_DEVICES, "device '%.60s' of generation %" PRId64 " %s",
                device ? device->device.name : plan->stage[s].device.text, plan->generation, why);
            return true;
        }
    }
    return false;
}
