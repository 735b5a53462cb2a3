/* One way to end a plan and one to end a job, for success, failure, pause and cancellation. */
#include "coordinator/core/generation/ending.h"

#include <inttypes.h>

#include "base/assert.h"
#include "coordinator/core/copies/center.h"
#include "coordinator/core/copies/holdings.h"
#include "coordinator/core/copies/rounds.h"
#include "coordinator/core/failures/charges.h"
#include "coordinator/core/failures/incidents.h"
#include "coordinator/core/generation/progress.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"

/* Rows of an incomplete version are needed only while their plan stores this version. */
void ending_plan(struct core *core, struct job_slot *job, int64_t version)
{
    bool ran = job->plan.state != PLAN_PREPARING;
    ASSERT(states_plan_active(job));
    job->plan.last_version = ran && job->plan.last_version == 0 ? version : job->plan.last_version;
    job->plan.state = ran ? PLAN_DONE : PLAN_DISCARDED;
    job->plan.ended_ms = core->wall_ms;
    if (job->plan.failure[0] != '\0') {
        job->plan.verdict = VERDICT_FAILED;
    } else if (job->plan.verdict == VERDICT_NONE) {
        job->plan.verdict = VERDICT_KEPT;
    }
    mark_plan_changed(core, job);
    rounds_reset(job);
    center_discard(core, job);
}

/* No timeout of the plan applies any more. */
void ending_timers(struct core *core, struct job_slot *job)
{
    timers_clear(job);
    if (job->job.stalled) {
        job->job.stalled = false;
        mark_job_changed(core, job);
    }
}

void ending_close_plan(struct core *core, struct job_slot *job, int64_t version)
{
    holdings_touch_job(core, job);
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        struct device_slot *device = slots_stage_device(core, job, s);
        if (device && device->job == job) {
            device_release(core, device);
        }
    }
    ending_timers(core, job);
    ending_plan(core, job, version);
}

void ending_drop_request(struct core *core, struct job_slot *job)
{
    if (job->job.has_wish) {
        job->job.has_wish = false;
        mark_job_changed(core, job);
    }
}

/* ---- jobs ---- */

/* Free the devices of the job, or the devices that were reserved while it waited. */
static void release(struct core *core, struct job_slot *job)
{
    if (states_plan_active(job)) {
        ending_close_plan(core, job, job->plan.resume_version);
    } else {
        core->schedule = true;
    }
}

void ending_job(struct core *core, struct job_slot *job, int state, const char *reason,
                const char *message)
{
    if (state == JOB_CANCELLED) {
        center_forget(core, job, "");
    }
    release(core, job);
    if (state == JOB_FAILED) {
        center_keep_job(core, job);
    }
    job->job.has_wish = false;
    job->job.export_version = 0; /* the answer to its export will find no job */
    holdings_touch_job(core, job);
    states_set(core, job, state, reason, "%s", message);
    job->job.ended_ms = core->wall_ms;
    progress_end(job);
    mark_job_changed(core, job);
    job->failure.cause = FAILURE_NONE;
    job->mark.ended = true;
    incidents_end(core, job);
}

/* No device works for the job any more, and the failures of its last generations are forgotten. */
static void lay_aside(struct core *core, struct job_slot *job)
{
    release(core, job);
    holdings_touch_job(core, job);
    job->job.has_wish = false;
    charges_forget(job);
    job->timer_ms[TIMER_GATHER] = job->timer_ms[TIMER_RETRY] = NEVER;
}

void ending_put_down(struct core *core, struct job_slot *job)
{
    static const struct cut none;
    lay_aside(core, job);
    job->cut = none;
    job->job.neighbor_version = 0; /* the devices may drop all snapshots */
    (void)progress_go_back(job, job->job.version);
}

void ending_pause(struct core *core, struct job_slot *job)
{
    if (states_is_on_devices(job)) {
        lay_aside(core, job);
        (void)progress_go_back(job, states_newest(job));
        states_set(core, job, JOB_PAUSED, "",
                   "paused; devices keep its snapshots after step %" PRId64, job->job.version);
    } else {
        ending_put_down(core, job);
        states_set(core, job, JOB_PAUSED, "", "paused at step %" PRId64, job->job.version);
    }
    incidents_end(core, job);
}
