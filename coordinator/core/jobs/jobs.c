#include "coordinator/core/jobs/jobs.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/copies/exports.h"
#include "coordinator/core/copies/rounds.h"
#include "coordinator/core/failures/charges.h"
#include "coordinator/core/failures/incidents.h"
#include "coordinator/core/failures/links.h"
#include "coordinator/core/generation/early_stops.h"
#include "coordinator/core/generation/ending.h"
#include "coordinator/core/generation/generations.h"
#include "coordinator/core/generation/progress.h"
#include "coordinator/core/generation/waiting.h"
#include "coordinator/core/jobs/earlier.h"
#include "coordinator/core/jobs/previews.h"
#include "coordinator/core/placement/asking.h"
#include "coordinator/core/placement/candidates.h"
#include "coordinator/core/placement/matching.h"
#include "coordinator/core/placement/placement.h"
#include "coordinator/core/placement/strategy.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/deadlines.h"
#include "coordinator/core/state/ids.h"
#include "coordinator/core/state/layout.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/state/text.h"
#include "schema/job_check.h"

/* ---- submit ---- */

void jobs_init(struct core *core, struct job_slot *job, const struct model *model)
{
    job->job.spec.model.description = NULL;
    job->job.spec.kernels = NULL;
    job->strategy = strategy_of((enum job_strategy)job->job.spec.strategy);
    job->model = model;
    job->unit_count = model->unit_count;
    early_stops_init(job);
    timers_clear(job);
    links_reset(job);
    job->members.known = job->job.generation == 0;
    rounds_reset(job);
    mark_job_changed(core, job);
}

bool jobs_refuse(struct core *core, const struct event_job_submit *submit,
                 const struct replan_request *wanted)
{
    const struct job_spec *spec = submit->spec;
    struct err err = {0};
    if (job_total_steps(spec, job_epoch_samples(submit->data)) < 1) {
        act_problem(core, PROBLEM_INVALID_FIELDS,
                    "/batch: larger than an epoch, which has %" PRId64 " training samples",
                    job_epoch_samples(submit->data));
        return true;
    }
    const struct strategy *strategy = strategy_of((enum job_strategy)spec->strategy);
    if (spec->devices_min > (int64_t)strategy_stages_max(strategy, submit->model->unit_count)) {
        act_problem(core, PROBLEM_INVALID_FIELDS,
                    "/devices/min: %" PRId64 " is more than the model's %zu units",
                    spec->devices_min, submit->model->unit_count);
        return true;
    }
    if (job_cuts_check(spec->cut, spec->cut_count, submit->model->unit_count, NULL, &err) != 0) {
        act_problem(core, PROBLEM_INVALID_FIELDS, "%.250s", err.text);
        return true;
    }
    if (wanted && (int64_t)wanted->cut_count + 1 < spec->devices_min) {
        act_problem(core, PROBLEM_INVALID_FIELDS,
                    "/cuts: %zu stage%s fewer than devices.min, %" PRId64, wanted->cut_count + 1,
                    wanted->cut_count == 0 ? " is" : "s are", spec->devices_min);
        return true;
    }
    const struct placement_request request = {
        .spec = spec, .model = submit->model, .candidates = CANDIDATES_KNOWN, .wanted = wanted};
    asking_request(core, &request, core->planning);
    if (asking_at_once(core, &err) == ERR_MEMORY && !core->planning->hasty) {
        act_problem(core, PROBLEM_MODEL_TOO_LARGE, "%.250s", err.text);
        return true;
    }
    return false;
}

void core_plan_submission(struct core *core, const struct event_job_submit *submit,
                          struct planning *planning)
{
    struct replan_request first;
    const struct placement_request request = {.spec = submit->spec,
                                              .model = submit->model,
                                              .candidates = CANDIDATES_ONLINE,
                                              .wanted =
                                                  placement_first_request(submit->spec, 0, &first)};
    asking_request(core, &request, planning);
}

/* The first attempt uses the free devices. */
void jobs_dry_run(struct core *core, const struct event_job_submit *submit)
{
    const struct event_planned *answer = submit->planned;
    struct job_preview *preview = &core->answer->preview;
    memset(preview, 0, sizeof(*preview));
    preview->steps = job_total_steps(submit->spec, job_epoch_samples(submit->data));
    if (answer->code != 0 || answer->planned->attempt_index > 0) {
        text_set(preview->waiting_for, MESSAGE_SIZE, "%.250s", answer->planned->first_failure);
        preview->starts = answer->code == 0 ? PREVIEW_WHEN_FREE : PREVIEW_WHEN_MORE;
    }
    if (answer->code == 0) {
        previews_fill(core, NULL, answer->planned, submit->model, preview);
    }
    previews_add_forecast(&submit->forecast, preview);
    act_reply(core, 200, OBJECT_JOB_PREVIEW, preview);
}

struct job_slot *jobs_add(struct core *core, const struct job_spec *spec,
                          const struct job_data *data, const struct model *model)
{
    struct job_id id;
    ids_new(core, id.text, "job_");
    struct job_slot *job = table_add(&core->jobs, id.text);
    if (!job) {
        return NULL;
    }
    job->job.id = id;
    job->job.state = JOB_QUEUED;
    job->job.spec = *spec;
    job->job.data = *data;
    job->job.exact = true;
    job->job.created_ms = core->wall_ms;
    jobs_init(core, job, model);
    progress_set_step(job, 0);
    return job;
}

void jobs_on_submit(struct core *core, const struct event *event)
{
    const struct event_job_submit *submit = &event->job_submit;
    struct replan_request first;
    const struct replan_request *wanted = placement_first_request(submit->spec, 0, &first);
    ASSERT(submit->model->unit_count >= 1 && submit->model->unit_count <= UNITS_MAX);
    if (jobs_refuse(core, submit, wanted)) {
        return;
    }
    if (submit->dry_run) {
        jobs_dry_run(core, submit);
        return;
    }
    struct job_slot *job = jobs_add(core, submit->spec, submit->data, submit->model);
    if (!job) {
        act_problem(
            core, PROBLEM_TOO_MANY,
            "the coordinator has its maximum of %zu jobs; cancel one, or wait until one ends",
            core->jobs.max);
        return;
    }
    act_publish_job(core, "job_queued", &job->job, job->job.id.text, "job '%s' is queued",
                    job->job.spec.name);
    core->schedule = true;
    act_reply(core, 201, OBJECT_JOB, &job->job);
}

/* ---- verbs ---- */

static void wrong_state(struct core *core, const struct job_slot *job, enum job_verb verb)
{
    static const char *const words[] = {
        [JOB_PAUSE] = "pause",        [JOB_RESUME] = "resume", [JOB_CANCEL] = "cancel",
        [JOB_CANCEL_KEEP] = "cancel", [JOB_EXPORT] = "export", [JOB_REPLAN] = "replan"};
    if (verb == JOB_REPLAN && job->job.state == JOB_REPLANNING) {
        act_problem(core, PROBLEM_WRONG_STATE,
                    "a replan is in progress; retry when the job is running");
        return;
    }
    act_problem(core, PROBLEM_WRONG_STATE, "cannot %s a job that is %s (%s)", words[verb],
                job_state_names[job->job.state], job->job.message);
}

static int check_devices(struct core *core, const struct placement_request *request,
                         struct err *err)
{
    const struct replan_request *wanted = request->wanted;
    for (size_t i = 0; i < wanted->device_count; i++) {
        const struct device_slot *device = slots_device(core, wanted->device[i].text);
        if (!device) {
            return err_set(err, ERR_INVALID, "/devices/%zu: unknown device '%s'", i,
                           wanted->device[i].text);
        }
        if (!candidates_has(core, request, device)) {
            return err_set(err, ERR_STATE, "device '%s' is not available to this job",
                           device->device.name);
        }
    }
    return 0;
}

/* Try the requested plan before the devices stop for it. Return whether it was rejected. */
static bool refuse_replan(struct core *core, struct job_slot *job,
                          const struct replan_request *wanted)
{
    struct err err = {0};
    const struct placement_request request = {.spec = &job->job.spec,
                                              .model = job->model,
                                              .job = job,
                                              .candidates = CANDIDATES_FREE,
                                              .wanted = wanted};
    int rc = job_cuts_check(wanted->cut, wanted->cut_count, job->unit_count, NULL, &err);
    rc = rc != 0 ? rc : check_devices(core, &request, &err);
    if (rc == 0) {
        asking_request(core, &request, core->planning);
        rc = asking_at_once(core, &err);
    }
    if (rc == 0 || (rc == ERR_MEMORY && core->planning->hasty)) {
        return false;
    }
    enum problem_code code = rc == ERR_STATE    ? PROBLEM_NOT_ENOUGH_DEVICES
                             : rc == ERR_MEMORY ? PROBLEM_MODEL_TOO_LARGE
                                                : PROBLEM_INVALID_FIELDS;
    act_problem(core, code, "%.250s", err.text);
    return true;
}

static void stop_to_pause(struct core *core, struct job_slot *job)
{
    states_set(core, job, JOB_PAUSING, "", "stops to pause");
    generations_stop(core, job, PLAN_REQUESTED);
}

static void pause_later(struct core *core, struct job_slot *job)
{
    ending_drop_request(core, job);
    states_set(core, job, JOB_PAUSING, "", "pauses as soon as it runs");
}

static void queue(struct core *core, struct job_slot *job)
{
    if (states_is_on_devices(job)) {
        job->waiting.reason = PLAN_RESUMED;
        waiting_for_reports(core, job, deadlines_first_lease_ms(core));
        core->schedule = true;
        return;
    }
    states_set(core, job, JOB_QUEUED, "", "queued to resume from step %" PRId64, job->job.version);
    core->schedule = true;
}

void jobs_pause(struct core *core, struct job_slot *job)
{
    const enum verb_effect effect = states_verb(job->job.state, JOB_PAUSE);
    if (effect == EFFECT_PAUSE) {
        ending_pause(core, job);
    } else if (effect == EFFECT_PAUSE_LATER) {
        pause_later(core, job);
    } else if (effect == EFFECT_STOP && job->plan.state == PLAN_RUNNING) {
        stop_to_pause(core, job);
    }
}

void jobs_resume(struct core *core, struct job_slot *job)
{
    const enum verb_effect effect = states_verb(job->job.state, JOB_RESUME);
    if (effect == EFFECT_QUEUE) {
        queue(core, job);
    } else if (effect == EFFECT_RETRY) {
        charges_retry(core, job);
    }
}

/* Drain for a pause or a replan: only a plan that runs can. */
static bool stop_for(struct core *core, struct job_slot *job, const struct event_job_verb *verb)
{
    if (job->plan.state != PLAN_RUNNING) {
        wrong_state(core, job, verb->verb); /* the job has trained its last step */
        return false;
    }
    if (verb->verb == JOB_REPLAN) {
        struct replan_request wanted = *verb->replan;
        if (verb->plan) {
            layout_request(verb->plan, &wanted);
            wanted.generation = verb->plan->generation;
        }
        if ((verb->plan && earlier_refuse(core, job, verb->plan)) ||
            refuse_replan(core, job, &wanted)) {
            return false;
        }
        job->job.wish = wanted;
        job->job.has_wish = true;
        states_set(core, job, JOB_REPLANNING, "requested", "stops to replan");
        generations_stop(core, job, PLAN_REQUESTED);
    } else {
        stop_to_pause(core, job);
    }
    return true;
}

/* Reject the verb if the center has no version to keep or to export. */
static bool refuse_export(struct core *core, const struct job_slot *job)
{
    if (job->job.version > 0) {
        return false;
    }
    act_problem(core, PROBLEM_WRONG_STATE,
                "the center has no whole version of the job yet; pause the job while it runs, or "
                "set replication.center_every");
    return true;
}

static bool cancel_keeping(struct core *core, struct job_slot *job)
{
    if (refuse_export(core, job)) {
        return false;
    }
    ending_put_down(core, job);
    job->failure.cause = FAILURE_NONE;
    job->job.export_version = 0; /* this export replaces it */
    job->export_attempts = 0;
    states_set(core, job, JOB_CANCELLING, "", "keeps step %" PRId64 " as a checkpoint",
               job->job.version);
    incidents_end(core, job);
    exports_last(core, job);
    return true;
}

static bool export_now(struct core *core, struct job_slot *job)
{
    if (refuse_export(core, job)) {
        return false;
    }
    if (job->job.state == JOB_PAUSED && job->job.version == job->total_steps) {
        act_problem(core, PROBLEM_WRONG_STATE,
                    "only the last evaluation is left: resume the job, which ends with a "
                    "checkpoint");
        return false;
    }
    exports_ask(core, job);
    return true;
}

static bool do_verb(struct core *core, struct job_slot *job, const struct event_job_verb *verb)
{
    switch (states_verb(job->job.state, verb->verb)) {
    case EFFECT_REFUSE: wrong_state(core, job, verb->verb); return false;
    case EFFECT_NOTHING: return true;
    case EFFECT_PAUSE: ending_pause(core, job); return true;
    case EFFECT_PAUSE_LATER: pause_later(core, job); return true;
    case EFFECT_STOP: return stop_for(core, job, verb);
    case EFFECT_QUEUE: queue(core, job); return true;
    case EFFECT_RETRY: charges_retry(core, job); return true;
    case EFFECT_CANCEL: ending_job(core, job, JOB_CANCELLED, "", "cancelled"); return true;
    case EFFECT_KEEP: return cancel_keeping(core, job);
    case EFFECT_EXPORT: return export_now(core, job);
    }
    return false;
}

void jobs_on_verb(struct core *core, const struct event *event)
{
    const struct event_job_verb *verb = &event->job_verb;
    struct job_slot *job = slots_job(core, verb->job.text);
    if (!job) {
        act_problem(core, PROBLEM_UNKNOWN_JOB, "job '%s' is unknown or has ended", verb->job.text);
        return;
    }
    if (verb->if_revision != 0 && verb->if_revision != job->job.revision) {
        act_problem(core, PROBLEM_REVISION_MISMATCH,
                    "job '%s' has revision %" PRId64 ", not %" PRId64 "; read it and retry",
                    verb->job.text, job->job.revision, verb->if_revision);
        return;
    }
    if (job->job.part != JOB_WHOLE) {
        act_problem(core, PROBLEM_GROUP_OF_JOB,
                    "job '%s' is a part of job '%s'; use the verb on that job", verb->job.text,
                    job->job.parent.text);
        return;
    }
    if (do_verb(core, job, verb)) {
        act_reply(core, 202, OBJECT_JOB, &job->job);
    }
}
