/* Versions in the center, and the model that is exported from the last one. */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/core_private.h"

/* The first pause; each is twice as long as the one before. */
#define EXPORT_RETRY_MS 10000
#define EXPORT_SHIFT_MAX 5

struct center_version *center_whole(struct job_slot *job)
{
    return &job->center[job->whole];
}

struct center_version *center_coming(struct job_slot *job)
{
    return &job->center[1 - job->whole];
}

/* ---- forgetting ---- */

static bool version_refers(const struct center_version *version, size_t unit_count,
                           const char *sha256)
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
        if (version_refers(&job->center[0], job->unit_count, sha256) ||
            version_refers(&job->center[1], job->unit_count, sha256) ||
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
        center_export(core, job);
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

/* ---- damage ---- */

/* A unit of the whole version is damaged: the version counts as not held, and the job goes on from
 * what its devices have. */
static void lose_version(struct core *core, struct job_slot *job)
{
    struct center_version *whole = center_whole(job);
    const int64_t version = whole->version;
    act_forget(core, OBJECT_CENTER_UNIT, job->job.id.text, version + 1);
    drop_version(core, job, whole, "");
    job->job.version = 0;
    job_changed(core, job);
    if (!plan_active(job)) {
        job_set_state(
            core, job, job->job.state, job->job.state_reason,
            "step %" PRId64
            " in the center is damaged; the next start is from what the devices hold, or step 0",
            version);
    } else if (job_phase(job) == PHASE_PREPARE && job->plan.resume_version == version) {
        generation_fail(core, job, (struct blame){.cause = FAILURE_ERROR, .since_ms = core->now_ms},
                        "step %" PRId64 " in the center is damaged", version);
    }
}

void handle_blob_damaged(struct core *core, const struct event *event)
{
    const struct event_blob_damaged *damaged = &event->blob_damaged;
    for (size_t i = 0; i < core->jobs.count; i++) {
        struct job_slot *job = job_slot_at(core, i);
        /* A job that only waits for the export rests on the version: there is nothing else to take.
         */
        const bool exports = job->job.state == JOB_CANCELLING ||
                             (plan_active(job) && job_phase(job) == PHASE_FINISHED &&
                              center_whole(job)->version == job->plan.last_version);
        if (!exports && version_refers(center_whole(job), job->unit_count, damaged->sha256)) {
            lose_version(core, job);
        }
    }
    act_publish(core, "blob_damaged", "", "%.250s", damaged->message);
}

/* ---- the exported model ---- */

void center_export(struct core *core, struct job_slot *job)
{
    job->export_ms = NEVER;
    job->export_attempts++;
    job_mark(core, job);
    act_export(core, job->job.id.text, job->job.version);
    if (job->job.state != JOB_CANCELLING) {
        job_set_state(core, job, job->job.state, job->job.state_reason,
                      "assembles the trained model");
    }
}

/* One at a time; the same version once, and not the last one, which the job ends with. */
void center_export_now(struct core *core, struct job_slot *job)
{
    int64_t version = job->job.version;
    if (job->job.export_version > 0 || version == job->job.exported_version ||
        version == job->total_steps) {
        return;
    }
    job->job.export_version = version;
    job_changed(core, job);
    act_export(core, job->job.id.text, version);
}

/* The trained version is whole in the center and waits there; its devices need not. */
static void export_failed(struct core *core, struct job_slot *job, const char *message)
{
    int shift =
        job->export_attempts - 1 < EXPORT_SHIFT_MAX ? job->export_attempts - 1 : EXPORT_SHIFT_MAX;
    int64_t pause_ms = (int64_t)EXPORT_RETRY_MS << shift;
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        struct device_slot *device = stage_device(core, job, s);
        if (device && device->job == job) {
            device_release(core, device);
        }
    }
    job->export_ms = core->now_ms + pause_ms;
    job_mark(core, job);
    job_set_state(core, job, job->job.state, "export_failed",
                  "the model could not be assembled yet: %.170s; tried again in %.0f s", message,
                  (double)pause_ms / 1000);
}

void center_disk_has_room(struct core *core, struct job_slot *job)
{
    if (job->export_ms != NEVER) {
        job->export_ms = core->now_ms;
        job_mark(core, job);
    }
}

static void store_checkpoint(struct core *core, const struct job_slot *job,
                             const struct event_exported *exported)
{
    core->checkpoint = (struct checkpoint){.job = job->job.id,
                                           .revision = 1,
                                           .version = exported->version,
                                           .bytes = exported->bytes,
                                           .created_ms = core->wall_ms};
    core_id(core, core->checkpoint.id.text, "ckpt_");
    memcpy(core->checkpoint.sha256, exported->sha256, SHA256_SIZE);
    act_persist(core, OBJECT_CHECKPOINT, &core->checkpoint);
    act_publish(core, "checkpoint_stored", core->checkpoint.id.text,
                "the model of '%s' at step %" PRId64, job->job.spec.name, exported->version);
}

/* What the job ends with. */
static void take_last(struct core *core, struct job_slot *job,
                      const struct event_exported *exported)
{
    if (exported->failed) {
        export_failed(core, job, exported->message);
        return;
    }
    store_checkpoint(core, job, exported);
    job->job.checkpoint = core->checkpoint.id;
    center_forget(core, job, exported->sha256);
    if (job->job.state == JOB_CANCELLING) {
        char message[MESSAGE_SIZE];
        text_set(message, sizeof(message), "cancelled; step %" PRId64 " is kept",
                 exported->version);
        job_end(core, job, JOB_CANCELLED, "", message);
    } else {
        job_end(core, job, JOB_SUCCEEDED, "", "trained");
    }
}

/* What was asked for while the job goes on. A version that a newer one has replaced before it could
 * be read is not missed. */
static void take_asked(struct core *core, struct job_slot *job,
                       const struct event_exported *exported)
{
    bool replaced = exported->failed && job->job.version > exported->version;
    job->job.export_version = 0;
    job_changed(core, job);
    if (replaced) {
        center_export_now(core, job);
    } else if (exported->failed) {
        act_publish(core, "export_failed", job->job.id.text,
                    "step %" PRId64 " of '%s' could not be exported: %.150s", exported->version,
                    job->job.spec.name, exported->message);
    } else {
        job->job.exported_version = exported->version;
        store_checkpoint(core, job, exported);
    }
}

/* Of a job that was cancelled meanwhile, or told twice: its blob, if nothing refers to it, is swept
 * at the next start.
 */
void handle_exported(struct core *core, const struct event *event)
{
    const struct event_exported *exported = &event->exported;
    struct job_slot *job = job_find(core, exported->job.text);
    if (!job) {
        return;
    }
    bool ends = job->job.state == JOB_CANCELLING ||
                (job_phase(job) == PHASE_FINISHED && job->plan.last_version == job->job.version);
    if (ends && exported->version == job->job.version && job->export_ms == NEVER) {
        take_last(core, job, exported);
    } else if (exported->version == job->job.export_version) {
        take_asked(core, job, exported);
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

/* Exports under way at the coordinator's end begin anew. */
static void resume_exports(struct core *core, struct job_slot *job)
{
    if (job->job.state == JOB_CANCELLING && job->job.version == 0) {
        job_end(core, job, JOB_FAILED, "export_failed",
                "cancelled; the version to keep is not whole in the center");
    } else if (job->job.state == JOB_CANCELLING) {
        center_export(core, job);
    } else if (job->job.export_version > 0) {
        job->job.export_version = 0; /* the newest is what was asked for */
        job_changed(core, job);
        if (job->job.version > 0) {
            center_export_now(core, job);
        }
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
    resume_exports(core, job);
}
