/* If a step does not complete in time, the job is first stalled and only later its generation
 * fails: a slow step must not cost a generation. */
#include "coordinator/core/failures/stall.h"

#include <inttypes.h>
#include <math.h>

#include "coordinator/core/failures/avoidance.h"
#include "coordinator/core/failures/challenge.h"
#include "coordinator/core/failures/failure.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/deadlines.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"

#define SLOW_FACTOR 16
#define FIRST_FACTOR 3     /* multiple of a prediction without measurements */
#define SLOW_MS_MAX 600000 /* bound of a task's time, whatever was predicted */

void stall_watch(struct core *core, struct job_slot *job)
{
    job->stall.progress_ms = core->now_ms;
    job->timer_ms[TIMER_STEP] = core->now_ms + deadlines_step_ms(job);
    if (job->job.stalled) {
        job->job.stalled = false;
        mark_job_changed(core, job);
    }
    mark_job(core, job);
}

void stall_take(const struct core *core, struct job_slot *job, int64_t busy_ms)
{
    int64_t began_ms = core->now_ms - busy_ms;
    if (busy_ms > 0 && began_ms > job->stall.task_ms) {
        job->stall.task_ms = began_ms;
    }
}

/* Whether a stage began a task recently, so that earlier tasks have ended. The newest report may be
 * up to one heartbeat old. */
static bool goes_on(const struct core *core, const struct job_slot *job)
{
    int64_t recent_ms = deadlines_step_ms(job) / 2 + core->config.heartbeat_ms;
    return job->stall.task_ms > core->now_ms - recent_ms &&
           job->stall.task_ms > job->stall.progress_ms;
}

/* The longest time of one micro-batch in a stage: the step deadline or, if a step is little longer
 * than this task, the time on a device that became sixteen times as slow. */
static int64_t task_limit_ms(const struct job_slot *job, size_t s)
{
    const struct plan_stage *stage = &job->plan.stage[s];
    const double measured = stage->measured_forward_seconds + stage->measured_backward_seconds;
    const double predicted = stage->predicted_forward_seconds + stage->predicted_backward_seconds;
    const double seconds = measured > 0 ? measured : FIRST_FACTOR * predicted;
    const int64_t slow_ms = (int64_t)fmin(1000 * SLOW_FACTOR * seconds, SLOW_MS_MAX);
    return slow_ms > job->job.deadlines.step_ms ? slow_ms : job->job.deadlines.step_ms;
}

/* The time by which every present task has ended, or was reported to exceed its limit; 0: no task
 * has time left. */
static int64_t tasks_end_ms(const struct core *core, const struct job_slot *job)
{
    int64_t longest_ms = 0;
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        const struct device_slot *device = slots_stage_device(core, job, s);
        if (device && device->challenge.busy_ms > 0) {
            const int64_t left_ms = task_limit_ms(job, s) - device->challenge.busy_ms;
            longest_ms = left_ms > longest_ms ? left_ms : longest_ms;
        }
    }
    return longest_ms > 0 ? core->now_ms + longest_ms + core->config.heartbeat_ms : 0;
}

/* The time of the next check of the step, if it is only slow; 0: it is stalled. */
static int64_t look_again_ms(const struct core *core, const struct job_slot *job)
{
    const int64_t after_step_ms = core->now_ms + deadlines_step_ms(job);
    const int64_t after_tasks_ms = tasks_end_ms(core, job);
    return goes_on(core, job) || after_tasks_ms > after_step_ms ? after_step_ms : after_tasks_ms;
}

/* The device that holds work without progress: its present task exceeds its limit the most. */
static struct device_slot *busiest(const struct core *core, const struct job_slot *job)
{
    struct device_slot *worst = NULL;
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        struct device_slot *device = slots_stage_device(core, job, s);
        if (device && device->challenge.busy_ms > task_limit_ms(job, s) &&
            (!worst || device->challenge.busy_ms > worst->challenge.busy_ms)) {
            worst = device;
        }
    }
    return worst;
}

static void stall_settle(struct core *core, struct job_slot *job)
{
    struct device_slot *worst = busiest(core, job);
    struct blame blame = {
        .cause = FAILURE_STALLED, .device = worst, .since_ms = job->stall.progress_ms};
    job->timer_ms[TIMER_STEP] = NEVER;
    if (worst) {
        avoidance_add(core, job, worst, AVOID_SLOW);
        failure_note(core, job, blame,
                     "stalled after step %" PRId64
                     ": device '%.60s' has been in one task for %.1f s",
                     job->progress.reached_step, worst->device.name,
                     (double)worst->challenge.busy_ms / 1000);
    } else {
        failure_note(core, job, blame,
                     "stalled: no step completed after step %" PRId64
                     " for %.1f s, and no device is computing",
                     job->progress.reached_step,
                     (double)(core->now_ms - job->stall.progress_ms) / 1000);
    }
}

void stall_tick(struct core *core, struct job_slot *job)
{
    if (job->timer_ms[TIMER_STEP] > core->now_ms) {
        return;
    }
    const int64_t again_ms = look_again_ms(core, job);
    mark_job(core, job);
    if (states_phase(job) != PHASE_RUN) {
        job->timer_ms[TIMER_STEP] = NEVER;
    } else if (again_ms > 0) {
        job->timer_ms[TIMER_STEP] = again_ms;
    } else if (job->job.stalled) {
        stall_settle(core, job);
    } else {
        job->job.stalled = true;
        job->timer_ms[TIMER_STEP] = core->now_ms + deadlines_step_ms(job);
        mark_job_changed(core, job);
        act_publish_job(core, "job_stalled", &job->job, job->job.id.text,
                        "stalled: no step completed after step %" PRId64 " for %.1f s",
                        job->progress.reached_step,
                        (double)(core->now_ms - job->stall.progress_ms) / 1000);
        for (size_t s = 0; s < job->plan.stage_count; s++) {
            struct device_slot *device = slots_stage_device(core, job, s);
            if (device) {
                challenge_send(core, device);
            }
        }
    }
}
