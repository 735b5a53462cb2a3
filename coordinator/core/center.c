/* Versions in the center: what comes in, what is whole, what is forgotten. */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/core_private.h"

struct center_version *center_whole(struct job_slot *job)
{
    return &job->center[job->whole];
}

struct center_version *center_coming(struct job_slot *job)
{
    return &job->center[1 - job->whole];
}

/* ---- forgetting ---- */

bool center_refers(const struct center_version *version, size_t unit_count, const char *sha256)
{
    for (size_t u = 0; version->count > 0 && u < unit_count; u++) {
        if (version->present[u] && strcmp(version->unit[u].sha256, sha256) == 0) {
            return true;
        }
    }
    return false;
}

/* What the stage's device holds of the version that is on its way; NULL: it has not said so. */
static const struct holding *coming_holding(const struct core *core, const struct job_slot *job,
                                            size_t stage, int64_t unit)
{
    const struct device_slot *device = stage_device(core, job, stage);
    int64_t version = job->center[1 - job->whole].version;
    return device ? holdings_find(core, device, job, version, unit) : NULL;
}

/* Whether the unit is being brought into the center: its blob may be there before its row. */
static bool is_awaited(const struct core *core, const struct job_slot *job, const char *sha256)
{
    if (job->ended || !plan_active(job) || job->center[1 - job->whole].version == 0) {
        return false;
    }
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        for (int64_t u = job->plan.stage[s].first; u < job->plan.stage[s].end; u++) {
            const struct holding *holding = coming_holding(core, job, s, u);
            if (holding && strcmp(holding->sha256, sha256) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Blobs are found by their content, so that other jobs may have the same. */
static bool is_referred(const struct core *core, const struct job_slot *by, const char *sha256)
{
    if (core->kept_count == KEPT_MAX) {
        return true;
    }
    for (size_t i = 0; i < core->jobs.count; i++) {
        const struct job_slot *job = job_slot_at(core, i);
        if (center_refers(&job->center[0], job->unit_count, sha256) ||
            center_refers(&job->center[1], job->unit_count, sha256) ||
            (job != by && is_awaited(core, job, sha256))) {
            return true;
        }
    }
    for (size_t i = 0; i < core->kept_count; i++) {
        if (strcmp(core->kept[i], sha256) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < core->datasets.count; i++) {
        if (strcmp(core_dataset_at(core, i)->sha256, sha256) == 0) {
            return true;
        }
    }
    return table_find(&core->checkpoints, sha256) != NULL;
}

bool core_refers(const struct core *core, const char *sha256)
{
    return is_referred(core, NULL, sha256);
}

/* The version is no more; blobs that nothing else refers to go. Contents stay until the slot is
 * used again: actions of this step may point to them. */
static void drop_version(struct core *core, struct job_slot *job, struct center_version *version,
                         const char *keep)
{
    if (version->count > 0) {
        version->count = 0;
        /* The blob of a model of one unit may be the exported file of an equal job: it is left to
         * the sweep at start.
         */
        for (size_t u = 0; job->unit_count > 1 && u < job->unit_count; u++) {
            bool first = version->present[u];
            for (size_t k = 0; first && k < u; k++) {
                first = !version->present[k] ||
                        strcmp(version->unit[k].sha256, version->unit[u].sha256) != 0;
            }
            const char *sha256 = version->unit[u].sha256;
            if (first && strcmp(sha256, keep) != 0 && !is_referred(core, job, sha256)) {
                act_delete_blob(core, sha256);
            }
        }
    }
    version->version = 0;
}

void center_keep(struct core *core, const char *sha256)
{
    if (core->kept_count < KEPT_MAX) {
        text_set(core->kept[core->kept_count++], SHA256_SIZE, "%s", sha256);
    }
}

void center_keep_job(struct core *core, const struct job_slot *job)
{
    const struct center_version *whole = &job->center[job->whole];
    for (size_t u = 0; whole->count > 0 && u < job->unit_count; u++) {
        center_keep(core, whole->unit[u].sha256);
    }
}

void center_forget(struct core *core, struct job_slot *job, const char *keep)
{
    if (job->center[0].count + job->center[1].count > 0) {
        act_forget(core, OBJECT_CENTER_UNIT, job->job.id.text, INT64_MAX);
    }
    drop_version(core, job, center_whole(job), keep);
    drop_version(core, job, center_coming(job), keep);
}

void center_lose(struct core *core, struct job_slot *job)
{
    struct center_version *whole = center_whole(job);
    act_forget(core, OBJECT_CENTER_UNIT, job->job.id.text, whole->version + 1);
    drop_version(core, job, whole, "");
    job->job.version = 0;
    job->export_attempts = 0;
    job_changed(core, job);
}

void center_discard(struct core *core, struct job_slot *job)
{
    struct center_version *coming = center_coming(job), *whole = center_whole(job);
    if (coming->count > 0) {
        /* Rows can be deleted from below only: all go, and those of the whole version come back. */
        act_forget(core, OBJECT_CENTER_UNIT, job->job.id.text, INT64_MAX);
        for (size_t u = 0; whole->count > 0 && u < job->unit_count; u++) {
            act_persist(core, OBJECT_CENTER_UNIT, &whole->unit[u]);
        }
    }
    drop_version(core, job, coming, "");
}

/* ---- collecting ---- */

bool center_owes(const struct job_slot *job, size_t stage)
{
    const struct center_version *whole = &job->center[job->whole],
                                *coming = &job->center[1 - job->whole];
    if (whole->version == job->plan.last_version) {
        return false;
    }
    for (int64_t u = job->plan.stage[stage].first; u < job->plan.stage[stage].end; u++) {
        if (!coming->present[u]) {
            return true;
        }
    }
    return false;
}

/* The version is whole in the center. */
static void center_done(struct core *core, struct job_slot *job)
{
    job->deadline_ms = job->suspicion_ms = NEVER;
    if (job->plan.last_version == job->total_steps) {
        exports_last(core, job);
    } else {
        job_pause_now(core, job);
    }
}

void center_expect(struct core *core, struct job_slot *job, int64_t version)
{
    struct center_version *coming = center_coming(job);
    center_discard(core, job);
    memset(coming->present, 0, sizeof(coming->present));
    coming->version = version;
    coming->count = 0;
}

void center_collect(struct core *core, struct job_slot *job, int64_t version)
{
    struct center_version *coming = center_coming(job);
    const struct center_version *whole = center_whole(job);
    job->plan.state = PLAN_STOPPING;
    job->plan.last_version = version;
    plan_changed(core, job);
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
    job->deadline_ms = core->now_ms + transfer_timeout_ms(bytes);
    job_touch(core, job);
    job_set_state(core, job, job->job.state, job->job.state_reason,
                  "stores step %" PRId64 " in the center", version);
    center_advance(core, job);
}

/* Whether the devices report the very hashes that came: a blob may come before the report. */
static bool is_confirmed(const struct core *core, const struct job_slot *job)
{
    const struct center_version *coming = &job->center[1 - job->whole];
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        for (int64_t u = job->plan.stage[s].first; u < job->plan.stage[s].end; u++) {
            const struct holding *holding = coming_holding(core, job, s, u);
            if (!holding || strcmp(holding->sha256, coming->unit[u].sha256) != 0) {
                return false;
            }
        }
    }
    return true;
}

void center_advance(struct core *core, struct job_slot *job)
{
    struct center_version *coming = center_coming(job), *old = center_whole(job);
    bool round = job_phase(job) != PHASE_FINISHED;
    if (coming->version == 0 || coming->count < job->unit_count ||
        (round && !is_confirmed(core, job))) {
        return;
    }
    job->whole = 1 - job->whole;
    job->job.version = coming->version;
    progress_reach(job, coming->version);
    job_changed(core, job);
    if (old->count > 0) {
        act_forget(core, OBJECT_CENTER_UNIT, job->job.id.text, coming->version);
        drop_version(core, job, old, "");
    }
    if (round) {
        rounds_center_done(core, job);
    } else {
        center_done(core, job);
    }
}

bool core_may_store_unit(const struct core *core, const char *device_id,
                         const struct center_unit *unit)
{
    const struct device_slot *device = device_find(core, device_id);
    const struct job_slot *job = job_find(core, unit->job.text);
    if (!device || !job || device->job != job || !plan_active(job)) {
        return false;
    }
    bool asked = job_phase(job) == PHASE_FINISHED
                     ? unit->version == job->plan.last_version
                     : unit->version > 0 && unit->version == job->round[ROUND_OF_CENTER].version;
    const struct plan_stage *stage = &job->plan.stage[device->stage];
    return asked && unit->generation == job->plan.generation && unit->unit >= stage->first &&
           unit->unit < stage->end;
}

void handle_blob_stored(struct core *core, const struct event *event)
{
    const struct center_unit *unit = &event->blob_stored.unit;
    if (!core_may_store_unit(core, event->blob_stored.device.text, unit)) {
        act_problem(core, PROBLEM_STALE_GENERATION,
                    "unit %" PRId64 " at version %" PRId64
                    " is not asked of '%s' in generation %" PRId64,
                    unit->unit, unit->version, event->blob_stored.device.text, unit->generation);
        return; /* the blob may be on its way for somebody else: what nobody refers to is swept at
                   the next start */
    }
    struct job_slot *job = job_find(core, unit->job.text);
    struct center_version *coming = center_coming(job);
    bool whole = center_whole(job)->version == unit->version;
    const struct device_slot *device = device_find(core, event->blob_stored.device.text);
    const struct holding *holding = holdings_find(core, device, job, unit->version, unit->unit);
    const char *known = job->cut.version == unit->version ? job->cut.unit[unit->unit].sha256
                        : holding                         ? holding->sha256
                                                          : unit->sha256;
    if (strcmp(known, unit->sha256) != 0) {
        act_problem(core, PROBLEM_INVALID_BLOB,
                    "unit %" PRId64 " at version %" PRId64 " has another hash than reported",
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
    job_mark(core, job);
    if (!whole) {
        center_advance(core, job);
    }
}

/* ---- after a restart ---- */

void center_restore_unit(struct job_slot *job, const struct center_unit *unit)
{
    struct center_version *version = NULL;
    if (unit->version == job->job.version) {
        version = center_whole(job);
    } else if (plan_active(job) && job->plan.state != PLAN_PREPARING &&
               unit->generation == job->plan.generation &&
               (job_phase(job) != PHASE_FINISHED || unit->version == job->plan.last_version)) {
        version = center_coming(job);
        version = version->count == 0 || version->version == unit->version ? version : NULL;
    }
    bool exists = unit->unit >= 0 && unit->unit < (int64_t)job->unit_count;
    if (version && exists && !version->present[unit->unit]) {
        version->version = unit->version;
        version->unit[unit->unit] = *unit;
        version->present[unit->unit] = true;
        version->count++;
    }
}

void center_restored(struct core *core, struct job_slot *job)
{
    struct center_version *whole = center_whole(job);
    if (job->job.version > 0 && whole->count < job->unit_count) {
        job->job.version = 0;
        whole->version = 0;
        whole->count = 0;
        job_changed(core, job);
    }
    progress_reach(job, job->job.version); /* rows of before that promise */
    progress_reach(job, job->job.neighbor_version);
    exports_resume(core, job);
}
