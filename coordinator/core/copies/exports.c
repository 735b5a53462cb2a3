/* Exports models from the center's versions: the last model, with which a job ends, and models on
 * request. */
#include "coordinator/core/copies/exports.h"

#include <inttypes.h>
#include <string.h>

#include "coordinator/core/copies/center.h"
#include "coordinator/core/copies/kept.h"
#include "coordinator/core/generation/early_stops.h"
#include "coordinator/core/generation/ending.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/ids.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/state/text.h"

/* The first pause. It doubles with each further failure. */
#define EXPORT_RETRY_MS 10000
#define EXPORT_SHIFT_MAX 5

void exports_last(struct core *core, struct job_slot *job)
{
    job->timer_ms[TIMER_EXPORT] = NEVER;
    job->export_attempts++;
    mark_job(core, job);
    act_export(core, job->job.id.text, job->job.version);
    if (job->job.state != JOB_CANCELLING) {
        states_set(core, job, job->job.state, job->job.state_reason, "assembles the trained model");
    }
}

/* Start one export at a time, and each version once. The last version is exported at the end of the
 * job. */
void exports_ask(struct core *core, struct job_slot *job)
{
    int64_t version = job->job.version;
    if (job->job.export_version > 0 || version == job->job.exported_version ||
        version == job->total_steps) {
        return;
    }
    job->job.export_version = version;
    mark_job_changed(core, job);
    act_export(core, job->job.id.text, version);
}

void exports_on_the_way(struct core *core, struct job_slot *job)
{
    if (!kept_owes(job) || job->job.state == JOB_CANCELLING) {
        return;
    }
    if (kept_wants(job)) {
        exports_ask(core, job);
    } else {
        kept_skip(core, job);
    }
}

/* The trained version is whole in the center and waits there. The devices need not wait. */
static void export_failed(struct core *core, struct job_slot *job, const char *message)
{
    int shift =
        job->export_attempts - 1 < EXPORT_SHIFT_MAX ? job->export_attempts - 1 : EXPORT_SHIFT_MAX;
    int64_t pause_ms = (int64_t)EXPORT_RETRY_MS << shift;
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        struct device_slot *device = slots_stage_device(core, job, s);
        if (device && device->job == job) {
            device_release(core, device);
        }
    }
    job->timer_ms[TIMER_EXPORT] = core->now_ms + pause_ms;
    mark_job(core, job);
    states_set(core, job, job->job.state, "export_failed",
               "could not assemble the model: %.170s; next attempt in %.0f s", message,
               (double)pause_ms / 1000);
}

void exports_disk_has_room(struct core *core, struct job_slot *job)
{
    if (job->timer_ms[TIMER_EXPORT] != NEVER) {
        job->timer_ms[TIMER_EXPORT] = core->now_ms;
        mark_job(core, job);
    }
}

void exports_store(struct core *core, const struct job *job, int64_t version, const char *sha256,
                   int64_t bytes)
{
    core->checkpoint = (struct checkpoint){.job = job->id,
                                           .of = job_part_of(job),
                                           .revision = 1,
                                           .version = version,
                                           .bytes = bytes,
                                           .created_ms = core->wall_ms};
    ids_new(core, core->checkpoint.id.text, "ckpt_");
    text_set(core->checkpoint.sha256, SHA256_SIZE, "%s", sha256);
    act_persist(core, OBJECT_CHECKPOINT, &core->checkpoint);
    act_publish_job(core, "checkpoint_stored", job, core->checkpoint.id.text,
                    "stored the model of '%s' at step %" PRId64, job->spec.name, version);
}

static void store_checkpoint(struct core *core, const struct job_slot *job,
                             const struct event_exported *exported)
{
    exports_store(core, &job->job, exported->version, exported->sha256, exported->bytes);
}

/* Take the last model of the job. */
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
        ending_job(core, job, JOB_CANCELLED, "", message);
    } else {
        char reason[MESSAGE_SIZE];
        const bool early = early_stops_reason(job, reason);
        ending_job(core, job, JOB_SUCCEEDED, early ? "stopped_early" : "",
                   early ? reason : "trained");
    }
}

/* Take an export that was requested while the job continues. If a newer version has replaced the
 * version before it could be read, export the newer one. */
static void take_asked(struct core *core, struct job_slot *job,
                       const struct event_exported *exported)
{
    bool replaced = exported->failed && job->job.version > exported->version;
    job->job.export_version = 0;
    mark_job_changed(core, job);
    if (replaced) {
        exports_ask(core, job);
    } else if (exported->failed) {
        act_publish_job(core, "export_failed", &job->job, job->job.id.text,
                        "step %" PRId64 " of '%s' could not be exported: %.150s", exported->version,
                        job->job.spec.name, exported->message);
    } else {
        job->job.exported_version = exported->version;
        store_checkpoint(core, job, exported);
        kept_stored(core, job, &core->checkpoint);
    }
    if (exported->failed && !replaced && exported->version == job->job.version) {
        kept_skip(core, job); /* the job continues without it */
    }
    exports_on_the_way(core, job);
}

/* The job may have been cancelled in the meantime, or the event may be a repeat. A blob without a
 * reference is then deleted at the next start. */
void exports_on_done(struct core *core, const struct event *event)
{
    const struct event_exported *exported = &event->exported;
    struct job_slot *job = slots_job(core, exported->job.text);
    if (!job) {
        return;
    }
    bool ends = job->job.state == JOB_CANCELLING ||
                (states_phase(job) == PHASE_FINISHED && job->plan.last_version == job->job.version);
    if (ends && exported->version == job->job.version && job->timer_ms[TIMER_EXPORT] == NEVER) {
        take_last(core, job, exported);
    } else if (exported->version == job->job.export_version) {
        take_asked(core, job, exported);
    }
}

/* Restarts the exports that the last stop of the coordinator interrupted. */
void exports_resume(struct core *core, struct job_slot *job)
{
    if (job->job.state == JOB_CANCELLING && job->job.version == 0) {
        ending_job(core, job, JOB_FAILED, "export_failed",
                   "cancelled; no checkpoint: the center has no whole version");
    } else if (job->job.state == JOB_CANCELLING) {
        exports_last(core, job);
    } else if (job->job.export_version > 0) {
        job->job.export_version = 0; /* the request was for the newest version */
        mark_job_changed(core, job);
        if (job->job.version > 0) {
            exports_ask(core, job);
        }
    }
}
