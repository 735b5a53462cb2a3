/* A job resumes from the newest version of which the reachable devices hold every unit with one
 * hash. Units of different versions, or with different content, must never be mixed. If no such
 * version exists, the job resumes from the center. */
#include "coordinator/core/failures/recovery.h"

#include "coordinator/core/copies/held.h"
#include "coordinator/core/placement/strategy.h"
#include "coordinator/core/state/deadlines.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/keepers.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"

/* ---- the newest version that is whole ---- */

int64_t recovery_center(const struct job_slot *job)
{
    const struct center_version *whole = &job->center.version[job->center.whole];
    return whole->version > 0 && whole->count == job->unit_count ? whole->version : 0;
}

size_t recovery_list(const struct core *core, const struct job_slot *job,
                     const struct absent *absent)
{
    /* After a pause, devices may drop all snapshots. A restored database may be older than the
     * job's kernels: devices computed their snapshots with kernels that it does not know. */
    const bool none = states_waits_in_queue(job) || states_kernels_wanted(job);
    return none ? 0 : held_list(core, job, absent, -1);
}

int64_t recovery_without(const struct core *core, const struct job_slot *job, size_t count,
                         const struct absent *absent)
{
    int64_t version = held_newest(core, job, count, absent, NEVER, NULL);
    return version > 0 ? version : recovery_center(job);
}

int64_t recovery_start(const struct core *core, const struct job_slot *job,
                       const struct absent *absent, struct cut *out)
{
    static const struct cut none;
    *out = none;
    int64_t version = held_newest(core, job, recovery_list(core, job, absent), absent, NEVER, out);
    return version > 0 ? version : recovery_center(job);
}

bool recovery_survives(const struct job_slot *job, const struct absent *absent)
{
    const struct plan *plan = &job->plan;
    size_t stages = 0, survived = 0;
    for (size_t s = 0; s < plan->stage_count; s++) {
        for (size_t i = 0; i < absent->count; i++) {
            if (id_equal(plan->stage[s].device.text, absent->device[i].text)) {
                stages++;
                survived += job->strategy->survives(plan, s);
            }
        }
    }
    const enum phase phase = states_phase(job);
    return stages > 0 && survived == stages && (phase == PHASE_RUN || phase == PHASE_STOPPING);
}

int64_t recovery_patience_ms(const struct core *core, const struct job_slot *job, int64_t start)
{
    int64_t had = states_newest(job);
    bool away = false;
    const struct plan *plan = &job->plan;
    for (size_t s = keepers_first(plan); s < plan->stage_count; s = keepers_next(plan, s)) {
        const struct device_slot *device = slots_stage_device(core, job, s);
        away = away || (device && !device_reachable(device));
    }
    bool older = had > start && !states_waits_in_queue(job);
    int64_t redo = deadlines_redo_ms(job, had - start);
    return !older || !away ? 0 : redo < core->config.lease_ms ? redo : core->config.lease_ms;
}

/* A device that has just returned may hold missing units: its first report lists them. */
bool recovery_must_gather(struct core *core, const struct job_slot *job)
{
    int64_t had = states_newest(job);
    bool unknown = false;
    for (size_t i = 0; i < core->devices.count && !unknown; i++) {
        const struct device_slot *device = slots_device_at(core, i);
        unknown = device_reachable(device) && !device->holdings.known;
    }
    struct cut cut;
    return unknown && had > job->job.version &&
           recovery_start(core, job, &device_all_present, &cut) < had;
}
