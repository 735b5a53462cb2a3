/* A job waits rather than fails: for devices that may hold a newer version, for enough devices, or
 * until failed devices are tried again. Devices keep its versions while it waits. */
#include "coordinator/core/generation/waiting.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "coordinator/core/failures/recovery.h"
#include "coordinator/core/generation/ending.h"
#include "coordinator/core/generation/progress.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "coordinator/core/state/text.h"

/* The first delay is one lease. It doubles with each consecutive delay, up to this. */
#define DELAY_MS_MAX 300000
#define DELAY_SHIFT_MAX 16

static PRINTF_LIKE(4, 5) void gather(struct core *core, struct job_slot *job, int64_t until_ms,
                                     const char *format, ...)
{
    char text[MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    text_format(text, sizeof(text), format, arguments);
    va_end(arguments);
    job->timer_ms[TIMER_GATHER] = until_ms;
    job->timer_ms[TIMER_RETRY] = NEVER;
    mark_job(core, job);
    if (job->job.state != JOB_PAUSING) {
        states_set(core, job, JOB_WAITING_FOR_DEVICES, "gathering", "%s", text);
    }
}

void waiting_for_reports(struct core *core, struct job_slot *job, int64_t wait_ms)
{
    gather(core, job, core->now_ms + wait_ms, "waits for its devices to report their snapshots");
}

/* Returned devices report their holdings first, then the job continues. */
void waiting_ask(struct core *core, struct job_slot *job)
{
    ending_close_plan(core, job, job->plan.resume_version);
    progress_halt(job);
    mark_job_changed(core, job);
    job->waiting.reason = PLAN_RESTARTED;
    core->schedule = true;
    waiting_for_reports(core, job, core->config.lease_ms);
}

/* After a power cut, wait for devices that may hold a newer version before rolling back, but never
 * longer than retraining takes. */
bool waiting_for_newer(struct core *core, struct job_slot *job, int64_t start)
{
    int64_t until_ms = core->now_ms + recovery_patience_ms(core, job, start);
    until_ms = until_ms < job->timer_ms[TIMER_GATHER] ? until_ms : job->timer_ms[TIMER_GATHER];
    if (states_plan_active(job) || until_ms <= core->now_ms) {
        return false;
    }
    gather(core, job, until_ms,
           "waits for absent devices that may hold a version newer than step %" PRId64, start);
    return true;
}

void waiting_for_devices(struct core *core, struct job_slot *job, int reason, int64_t start,
                         const char *text)
{
    ending_drop_request(core, job);
    job->waiting.reason = reason;
    job->timer_ms[TIMER_GATHER] = job->timer_ms[TIMER_RETRY] = NEVER;
    mark_job(core, job);
    if (states_plan_active(job)) {
        ending_close_plan(core, job, start);
    }
    if (job->job.state == JOB_PAUSING) {
        ending_pause(core, job);
        return;
    }
    if (progress_go_back(job, start)) {
        mark_job_changed(core, job);
    }
    int state = states_waits_in_queue(job) ? JOB_QUEUED : JOB_WAITING_FOR_DEVICES;
    states_set(core, job, state, "waiting_for_devices", "%s", text);
}

/* Devices keep their versions during the delay. With code device_failed, the next plan begins as
 * soon as the job can do without the failed devices. */
void waiting_delay(struct core *core, struct job_slot *job, int reason, const char *code,
                   int64_t pause_ms, const char *text)
{
    int64_t start = recovery_start(core, job, &device_all_present, &job->cut);
    if (states_plan_active(job)) {
        ending_close_plan(core, job, start);
    }
    (void)progress_go_back(job, start);
    mark_job_changed(core, job);
    job->waiting.reason = reason;
    job->timer_ms[TIMER_GATHER] = NEVER;
    job->timer_ms[TIMER_RETRY] = core->now_ms + pause_ms;
    job->waiting.early = strcmp(code, "device_failed") == 0;
    core->schedule = true;
    if (job->job.state == JOB_PLANNING) {
        states_set(core, job, JOB_QUEUED, code, "%.200s", text);
    }
    if (job->job.state == JOB_PAUSING || job->job.state == JOB_QUEUED) {
        return;
    }
    states_set(core, job, JOB_WAITING_FOR_DEVICES, code,
               "%.170s; next attempt from step %" PRId64 " in %.1f s", text, start,
               (double)pause_ms / 1000);
}

int64_t waiting_delay_ms(const struct core *core, struct job_slot *job)
{
    int shift = job->waiting.delays < DELAY_SHIFT_MAX ? job->waiting.delays : DELAY_SHIFT_MAX;
    int64_t ms = core->config.lease_ms << shift;
    job->waiting.delays++;
    return ms < DELAY_MS_MAX ? ms : DELAY_MS_MAX;
}

bool waiting_for_failed(struct core *core, struct job_slot *job)
{
    if (job->timer_ms[TIMER_RETRY] != NEVER && job->timer_ms[TIMER_RETRY] <= core->now_ms) {
        return false; /* the delay is over */
    }
    if (job->timer_ms[TIMER_RETRY] == NEVER) {
        waiting_delay(core, job, PLAN_PREPARE_FAILED, "device_failed", waiting_delay_ms(core, job),
                      job->plan.failure);
    }
    return true;
}
