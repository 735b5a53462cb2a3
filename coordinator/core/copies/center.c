/* The center replaces its whole version only after every unit of the next one has arrived. A
 * failure during an upload never costs the version from which the job may resume. */
#include "coordinator/core/copies/center.h"

#include <string.h>

#include "coordinator/core/copies/holdings.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/keepers.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/state/text.h"

struct center_version *center_whole(struct job_slot *job)
{
    return &job->center.version[job->center.whole];
}

struct center_version *center_coming(struct job_slot *job)
{
    return &job->center.version[1 - job->center.whole];
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

const struct holding *center_holding(const struct core *core, const struct job_slot *job,
                                     size_t stage, int64_t unit)
{
    const struct device_slot *device = slots_stage_device(core, job, stage);
    int64_t version = job->center.version[1 - job->center.whole].version;
    return device ? holdings_find(core, device, job, version, unit) : NULL;
}

/* Whether the unit is being uploaded to the center: its blob may exist before its row. */
static bool is_awaited(const struct core *core, const struct job_slot *job, const char *sha256)
{
    if (job->mark.ended || !states_plan_active(job) ||
        job->center.version[1 - job->center.whole].version == 0) {
        return false;
    }
    const struct plan *plan = &job->plan;
    for (size_t s = keepers_first(plan); s < plan->stage_count; s = keepers_next(plan, s)) {
        for (int64_t u = plan->stage[s].first; u < plan->stage[s].end; u++) {
            const struct holding *holding = center_holding(core, job, s, u);
            if (holding && strcmp(holding->sha256, sha256) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Blobs are addressed by their content, so other jobs may refer to the same blob. */
static bool is_referred(const struct core *core, const struct job_slot *by, const char *sha256)
{
    if (core->kept_count == KEPT_MAX) {
        return true;
    }
    for (size_t i = 0; i < core->jobs.count; i++) {
        const struct job_slot *job = slots_job_at(core, i);
        if (center_refers(&job->center.version[0], job->unit_count, sha256) ||
            center_refers(&job->center.version[1], job->unit_count, sha256) ||
            strcmp(job->job.data.checkpoint_sha256, sha256) == 0 ||
            (job != by && is_awaited(core, job, sha256))) {
            return true;
        }
    }
    for (size_t i = 0; i < core->parents.count; i++) {
        const struct parent_slot *parent = table_at(&core->parents, i);
        if (strcmp(parent->job.data.checkpoint_sha256, sha256) == 0) {
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

/* The content stays until the slot is reused: actions of this step may point to it. */
void center_drop(struct core *core, struct job_slot *job, struct center_version *version,
                 const char *keep)
{
    if (version->count > 0) {
        version->count = 0;
        /* If the model has one unit, the blob may be the exported file of an equal job. The sweep
         * at the next start deletes it if nothing refers to it. */
        for (size_t u = 0; job->unit_count > 1 && u < job->unit_count && act_may_delete(core);
             u++) {
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

/* A list that was full is incomplete, and its missing entries are unknown. */
void center_release(struct core *core, const char *sha256)
{
    for (size_t i = 0; core->kept_count < KEPT_MAX && i < core->kept_count; i++) {
        if (strcmp(core->kept[i], sha256) == 0) {
            core->kept_count--;
            memmove(core->kept[i], core->kept[core->kept_count], SHA256_SIZE);
            return;
        }
    }
}

void center_keep_job(struct core *core, const struct job_slot *job)
{
    const struct center_version *whole = &job->center.version[job->center.whole];
    for (size_t u = 0; whole->count > 0 && u < job->unit_count; u++) {
        center_keep(core, whole->unit[u].sha256);
    }
}

void center_forget(struct core *core, struct job_slot *job, const char *keep)
{
    if (job->center.version[0].count + job->center.version[1].count > 0) {
        act_forget(core, OBJECT_CENTER_UNIT, job->job.id.text, INT64_MAX);
    }
    center_drop(core, job, center_whole(job), keep);
    center_drop(core, job, center_coming(job), keep);
}

void center_lose(struct core *core, struct job_slot *job)
{
    struct center_version *whole = center_whole(job);
    act_forget(core, OBJECT_CENTER_UNIT, job->job.id.text, whole->version + 1);
    center_drop(core, job, whole, "");
    job->job.version = 0;
    job->export_attempts = 0;
    mark_job_changed(core, job);
}

void center_discard(struct core *core, struct job_slot *job)
{
    struct center_version *coming = center_coming(job), *whole = center_whole(job);
    if (coming->count > 0) {
        /* Rows can only be deleted from the lowest version up, so delete all rows and write those
         * of the whole version again. */
        act_forget(core, OBJECT_CENTER_UNIT, job->job.id.text, INT64_MAX);
        for (size_t u = 0; whole->count > 0 && u < job->unit_count; u++) {
            act_persist(core, OBJECT_CENTER_UNIT, &whole->unit[u]);
        }
    }
    center_drop(core, job, coming, "");
}

/* ---- collecting ---- */

bool center_owes(const struct job_slot *job, size_t stage)
{
    const struct center_version *whole = &job->center.version[job->center.whole],
                                *coming = &job->center.version[1 - job->center.whole];
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

bool center_needs_device(const struct device_slot *device)
{
    return device->job &&
           (states_phase(device->job) != PHASE_FINISHED || center_owes(device->job, device->stage));
}

void center_expect(struct core *core, struct job_slot *job, int64_t version)
{
    struct center_version *coming = center_coming(job);
    center_discard(core, job);
    memset(coming->present, 0, sizeof(coming->present));
    coming->version = version;
    coming->count = 0;
}

/* ---- after a restart ---- */

void center_restore_unit(struct job_slot *job, const struct center_unit *unit)
{
    struct center_version *version = NULL;
    if (unit->version == job->job.version) {
        version = center_whole(job);
    } else if (states_plan_active(job) && job->plan.state != PLAN_PREPARING &&
               unit->generation == job->plan.generation &&
               (states_phase(job) != PHASE_FINISHED || unit->version == job->plan.last_version)) {
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
