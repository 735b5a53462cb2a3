/* The first keeper leads: it proposes rounds. A round counts when the reports of the devices prove
 * every copy. */
#include "coordinator/core/copies/commits.h"

#include <string.h>

#include "coordinator/core/copies/collect.h"
#include "coordinator/core/copies/holdings.h"
#include "coordinator/core/copies/rounds.h"
#include "coordinator/core/generation/progress.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/keepers.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"

/* Whether two devices hold every unit with one hash: the device of its stage and another one. */
static bool neighbor_complete(const struct core *core, const struct job_slot *job, int64_t version)
{
    const struct plan *plan = &job->plan;
    for (size_t s = keepers_first(plan); s < plan->stage_count; s = keepers_next(plan, s)) {
        const struct plan_stage *stage = &plan->stage[s];
        const struct device_slot *own = slots_stage_device(core, job, s);
        for (int64_t u = stage->first; u < stage->end; u++) {
            const struct holding *first =
                own && device_reachable(own) ? holdings_find(core, own, job, version, u) : NULL;
            bool second = false;
            for (size_t t = 0; first && !second && t < plan->stage_count; t++) {
                const struct device_slot *other = slots_stage_device(core, job, t);
                const struct holding *copy = t != s && other && device_reachable(other)
                                                 ? holdings_find(core, other, job, version, u)
                                                 : NULL;
                second = copy && strcmp(copy->sha256, first->sha256) == 0;
            }
            if (!second) {
                return false;
            }
        }
    }
    return true;
}

void commits_check(struct core *core, struct job_slot *job)
{
    struct open_round *neighbor = &job->round[ROUND_OF_NEIGHBOR];
    if (states_phase(job) == PHASE_RUN && neighbor->version > 0 &&
        job_has_judged(&job->job, neighbor->version) &&
        neighbor_complete(core, job, neighbor->version)) {
        job->job.neighbor_version = neighbor->version;
        progress_reach(job, neighbor->version);
        rounds_finish(core, job, ROUND_OF_NEIGHBOR);
        mark_job_changed(core, job);
        holdings_touch_job(core, job);
    }
    if (job->round[ROUND_OF_CENTER].version > 0) {
        collect_advance(core, job);
    }
}

/* ---- requests of the lead ---- */

static enum round_state ask(struct core *core, struct job_slot *job, enum round_kind kind,
                            int64_t version)
{
    const struct open_round *round = &job->round[kind];
    int64_t committed = kind == ROUND_OF_CENTER ? job->job.version : job->job.neighbor_version;
    if (version == 0) {
        return rounds_is_paused(core, kind) ? ROUND_PAUSED : ROUND_NONE;
    }
    if (version > job->plan.resume_version && version <= committed) {
        return ROUND_COMMITTED;
    }
    if (round->version == version) {
        return ROUND_OPEN;
    }
    if (rounds_is_paused(core, kind)) {
        return ROUND_PAUSED;
    }
    if (states_phase(job) != PHASE_RUN || !rounds_is_wanted(job, kind) || version <= round->last ||
        version <= job->plan.resume_version || version >= job->total_steps) {
        return ROUND_ABANDONED;
    }
    rounds_begin(core, job, kind, version);
    return ROUND_OPEN;
}

static int state_of(struct core *core, const struct device_slot *device,
                    const struct heartbeat *heartbeat, enum round_kind kind, int64_t version)
{
    struct job_slot *job = device->job;
    bool leads = job && device->stage == keepers_first(&job->plan) &&
                 id_equal(heartbeat->plan.text, job->plan.id.text) && states_plan_active(job) &&
                 job->failure.cause == FAILURE_NONE;
    if (leads) {
        return ask(core, job, kind, version);
    }
    return version > 0 ? ROUND_ABANDONED : rounds_is_paused(core, kind) ? ROUND_PAUSED : ROUND_NONE;
}

void commits_take(struct core *core, const struct device_slot *device,
                  const struct heartbeat *heartbeat)
{
    struct heartbeat_reply *reply = &core->heartbeat_reply;
    int64_t neighbor = heartbeat->round_neighbor, center = heartbeat->round_center;
    int neighbor_state = state_of(core, device, heartbeat, ROUND_OF_NEIGHBOR, neighbor);
    int center_state = state_of(core, device, heartbeat, ROUND_OF_CENTER, center);
    if (device->job && (neighbor_state == ROUND_OPEN || center_state == ROUND_OPEN)) {
        commits_check(core, device->job); /* the copies may be there already */
        neighbor_state = state_of(core, device, heartbeat, ROUND_OF_NEIGHBOR, neighbor);
        center_state = state_of(core, device, heartbeat, ROUND_OF_CENTER, center);
    }
    reply->neighbor = (struct round){.version = neighbor, .state = neighbor_state};
    reply->center = (struct round){.version = center, .state = center_state};
}
