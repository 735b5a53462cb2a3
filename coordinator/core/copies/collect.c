/* After a stop every stage uploads its units. The version counts when all of them arrived with the
 * hashes that the devices reported. */
#include "coordinator/core/copies/collect.h"

#include <inttypes.h>
#include <string.h>

#include "coordinator/core/copies/center.h"
#include "coordinator/core/copies/exports.h"
#include "coordinator/core/copies/holdings.h"
#include "coordinator/core/copies/kept.h"
#include "coordinator/core/copies/rounds.h"
#include "coordinator/core/generation/ending.h"
#include "coordinator/core/generation/progress.h"
#include "coordinator/core/generation/waiting.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/deadlines.h"
#include "coordinator/core/state/keepers.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"

/* The version is whole in the center. */
static void center_done(struct core *core, struct job_slot *job)
{
    job->timer_ms[TIMER_PHASE] = job->timer_ms[TIMER_SUSPICION] = NEVER;
    if (states_is_trained(job, job->plan.last_version)) {
        exports_last(core, job);
    } else if (job->job.state == JOB_PAUSING) {
        ending_pause(core, job);
    } else {
        waiting_for_devices(core, job, job->generation.stop_reason, job->plan.last_version,
                            "stopped and stored; waits for devices that can continue");
        core->schedule = true;
    }
}

void collect_begin(struct core *core, struct job_slot *job, int64_t version)
{
    struct center_version *coming = center_coming(job);
    const struct center_version *whole = center_whole(job);
    job->plan.state = PLAN_STOPPING;
    job->plan.last_version = version;
    mark_plan_changed(core, job);
    if (version == 0 || whole->version == version) {
        center_done(core, job);
        return;
    }
    int64_t bytes = 0;
    bool goes_on = coming->version == version; /* a round has begun to store it */
    for (size_t u = 0; u < job->unit_count; u++) {
        bool differs =
            coming->present[u] && strcmp(coming->unit[u].sha256, job->cut.unit[u].sha256) != 0;
        goes_on = goes_on && !(coming->count > 0 && differs);
        bytes += job->cut.unit[u].bytes;
    }
    rounds_reset(job);
    if (!goes_on) {
        center_expect(core, job, version);
    }
    job->timer_ms[TIMER_PHASE] = core->now_ms + deadlines_transfer_ms(bytes);
    holdings_touch_job(core, job);
    states_set(core, job, job->job.state, job->job.state_reason,
               "stores step %" PRId64 " in the center", version);
    collect_advance(core, job);
}

/* Whether the devices report the uploaded hashes: a blob may arrive before the report. */
static bool is_confirmed(const struct core *core, const struct job_slot *job)
{
    const struct center_version *coming = &job->center.version[1 - job->center.whole];
    const struct plan *plan = &job->plan;
    for (size_t s = keepers_first(plan); s < plan->stage_count; s = keepers_next(plan, s)) {
        for (int64_t u = plan->stage[s].first; u < plan->stage[s].end; u++) {
            const struct holding *holding = center_holding(core, job, s, u);
            if (!holding || strcmp(holding->sha256, coming->unit[u].sha256) != 0) {
                return false;
            }
        }
    }
    return true;
}

void collect_advance(struct core *core, struct job_slot *job)
{
    struct center_version *coming = center_coming(job), *old = center_whole(job);
    bool round = states_phase(job) != PHASE_FINISHED;
    if (coming->version == 0 || coming->count < job->unit_count ||
        (round && !is_confirmed(core, job)) || !job_has_judged(&job->job, coming->version)) {
        return;
    }
    exports_on_the_way(core, job);
    if (kept_owes(job)) {
        return; /* continues with the answer to the export */
    }
    job->center.whole = 1 - job->center.whole;
    job->job.version = coming->version;
    progress_reach(job, coming->version);
    mark_job_changed(core, job);
    if (old->count > 0) {
        act_forget(core, OBJECT_CENTER_UNIT, job->job.id.text, coming->version);
        center_drop(core, job, old, "");
    }
    exports_on_the_way(core, job);
    if (round) {
        rounds_center_done(core, job);
    } else {
        center_done(core, job);
    }
}

bool core_may_store_unit(const struct core *core, const char *device_id,
                         const struct center_unit *unit)
{
    const struct device_slot *device = slots_device(core, device_id);
    const struct job_slot *job = slots_job(core, unit->job.text);
    if (!device || !job || device->job != job || !states_plan_active(job)) {
        return false;
    }
    bool asked = states_phase(job) == PHASE_FINISHED
                     ? unit->version == job->plan.last_version
                     : unit->version > 0 && unit->version == job->round[ROUND_OF_CENTER].version;
    const struct plan_stage *stage = &job->plan.stage[device->stage];
    return asked && unit->generation == job->plan.generation && unit->unit >= stage->first &&
           unit->unit < stage->end;
}

void collect_on_blob(struct core *core, const struct event *event)
{
    const struct center_unit *unit = &event->blob_stored.unit;
    if (!core_may_store_unit(core, event->blob_stored.device.text, unit)) {
        act_problem(core, PROBLEM_STALE_GENERATION,
                    "unit %" PRId64 " at version %" PRId64
                    " is not expected from '%s' in generation %" PRId64,
                    unit->unit, unit->version, event->blob_stored.device.text, unit->generation);
        return; /* the blob may be part of another upload, whose end checks again */
    }
    struct job_slot *job = slots_job(core, unit->job.text);
    struct center_version *coming = center_coming(job);
    bool whole = center_whole(job)->version == unit->version;
    const struct device_slot *device = slots_device(core, event->blob_stored.device.text);
    const struct holding *holding = holdings_find(core, device, job, unit->version, unit->unit);
    const char *known = job->cut.version == unit->version ? job->cut.unit[unit->unit].sha256
                        : holding                         ? holding->sha256
                                                          : unit->sha256;
    if (strcmp(known, unit->sha256) != 0) {
        act_problem(core, PROBLEM_INVALID_BLOB,
                    "unit %" PRId64 " at version %" PRId64
                    ": the hash differs from the device's report; upload the unit again",
                    unit->unit, unit->version);
        return;
    }
    if (!whole && !coming->present[unit->unit]) {
        coming->unit[unit->unit] = *unit;
        coming->present[unit->unit] = true;
        coming->count++;
        core->center_unit = *unit;
        act_persist(core, OBJECT_CENTER_UNIT, &core->center_unit);
    }
    act_reply(core, 204, OBJECT_NOTHING, NULL);
    mark_job(core, job);
    if (!whole) {
        collect_advance(core, job);
    }
}

void collect_on_exported(struct core *core, const struct event *event)
{
    exports_on_done(core, event);
    struct job_slot *job = slots_job(core, event->exported.job.text);
    if (job && states_plan_active(job) && !job->mark.ended) {
        collect_advance(core, job); /* the collection may have waited for a checkpoint */
    }
}

/* ---- after a restart ---- */

void collect_restored(struct core *core, struct job_slot *job)
{
    struct center_version *whole = center_whole(job);
    if (job->job.version > 0 && whole->count < job->unit_count) {
        job->job.version = 0;
        whole->version = 0;
        whole->count = 0;
        mark_job_changed(core, job);
    }
    progress_reach(job, job->job.version); /* rows of before that promise */
    progress_reach(job, job->job.neighbor_version);
    exports_resume(core, job);
    exports_on_the_way(core, job);
}
