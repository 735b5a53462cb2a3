/* The core excludes a device that fails by itself before it charges the job: the fault of one
 * device must not end a job of healthy ones. The job is to blame only when several devices fail in
 * the same way without progress in between. */
#include "coordinator/core/failures/charges.h"

#include <string.h>

#include "coordinator/core/failures/avoidance.h"
#include "coordinator/core/failures/links.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"

void charges_start_loaded(struct job_slot *job)
{
    job->charges.stuck = (struct stuck){.count = 0};
}

void charges_start_failed(struct job_slot *job)
{
    struct stuck *stuck = &job->charges.stuck;
    if (stuck->count == 0 || stuck->version != job->plan.resume_version) {
        *stuck = (struct stuck){.version = job->plan.resume_version,
                                .since_ms = job->generation.decided_ms};
    }
    stuck->count++;
}

void charges_forget(struct job_slot *job)
{
    job->charges.faults = job->waiting.delays = job->stall.shift = job->stall.late_shift = 0;
    job->charges.same_way.count = 0;
    charges_start_loaded(job);
    links_reset(job);
    avoidance_clear(job);
}

void charges_retry(struct core *core, struct job_slot *job)
{
    charges_forget(job);
    job->timer_ms[TIMER_RETRY] = job->timer_ms[TIMER_RETRY] == NEVER ? NEVER : core->now_ms;
    mark_job_changed(core, job);
    core->schedule = true;
}

void charges_progress(struct job_slot *job, int64_t step)
{
    if (step > job->charges.furthest_step) {
        job->charges.furthest_step = step;
        job->charges.faults = job->waiting.delays = job->stall.shift = job->stall.late_shift = 0;
        job->charges.same_way.count = 0;
        links_reset(job);
    }
}

/* The device's own copy of a unit was damaged and is deleted. */
static bool found_damage(const struct failure *failure)
{
    return strcmp(failure->code, "snapshot") == 0;
}

/* A repeated failure of one device is charged to the device only. The job is charged when another
 * device fails in the same way. */
static bool charge(struct job_slot *job, const struct failure *failure)
{
    struct charge *charge = &job->charges.same_way;
    if (strcmp(charge->code, failure->code) != 0) {
        *charge = (struct charge){.count = 0};
        memcpy(charge->code, failure->code, sizeof(charge->code));
    }
    for (size_t i = 0; i < failure->device_count && charge->count < FAILURES_MAX; i++) {
        size_t at = 0;
        while (at < charge->count &&
               !id_equal(charge->device[at].text, failure->device[i].id.text)) {
            at++;
        }
        if (at == charge->count) {
            charge->device[charge->count++] = failure->device[i].id;
            return true;
        }
    }
    return false;
}

/* Charge the job itself. A job that stalls first gets more and more time. After that it is charged,
 * whichever device was at work. Lost or restarted devices and broken links are not charged. Return
 * whether the job is to blame by now. */
static bool count_fault(struct job_slot *job, const struct failure *failure)
{
    switch (failure->cause) {
    case FAILURE_NONE:
    case FAILURE_DEVICE_LOST:
    case FAILURE_RESTARTED:
    case FAILURE_LINK: return false;
    case FAILURE_STALLED:
        if (job->stall.shift < STALL_SHIFT_MAX) {
            job->stall.shift++;
            return false;
        }
        break;
    case FAILURE_ERROR:
    case FAILURE_DEADLINE: break;
    }
    if (failure->device_count == 0 || failure->cause == FAILURE_STALLED) {
        return ++job->charges.faults >= FAILURES_MAX;
    }
    return charge(job, failure) && job->charges.same_way.count >= FAILURES_MAX;
}

/* Whether a device could not load the start version of the generation. A damaged copy does not
 * discredit the version: other devices have copies, or the next start is another version. */
static bool blames_start(const struct core *core, const struct job_slot *job,
                         const struct failure *failure)
{
    const struct device_slot *device =
        found_damage(failure) ? slots_device(core, failure->device[0].id.text) : NULL;
    bool repeats = device && avoidance_has(core, job, device, AVOID_FAILURES);
    return job->plan.state == PLAN_PREPARING && (repeats || strcmp(failure->code, "peer") == 0 ||
                                                 strcmp(failure->code, "internal") == 0);
}

/* Exclude the devices that failed by themselves before anything is charged to the job. A lost
 * device may be lost again as soon as it returns. */
static void avoid_devices(struct core *core, struct job_slot *job, const struct failure *failure,
                          bool advanced)
{
    bool failed = failure->cause == FAILURE_ERROR || failure->cause == FAILURE_DEADLINE;
    bool lost = failure->cause == FAILURE_DEVICE_LOST || failure->cause == FAILURE_RESTARTED;
    for (size_t i = 0; i < failure->device_count; i++) {
        const struct device_slot *device = slots_device(core, failure->device[i].id.text);
        if (device && (failed || (lost && !advanced))) {
            avoidance_add(core, job, device,
                          lost                    ? AVOID_LOST
                          : found_damage(failure) ? AVOID_DAMAGE
                                                  : AVOID_FAILED);
        }
    }
}

/* Whether the job is to blame by now. */
bool charges_count(struct core *core, struct job_slot *job, const struct failure *failure)
{
    bool advanced = job->progress.reached_step > job->charges.furthest_step;
    if (advanced) {
        charges_progress(job, job->progress.reached_step);
    }
    links_count(core, job, failure->cause == FAILURE_LINK); /* after progress: a new series */
    avoid_devices(core, job, failure, advanced);
    if (job->progress.reached_step > job->plan.resume_version) {
        charges_start_loaded(job);
    } else if (blames_start(core, job, failure)) {
        charges_start_failed(job);
    }
    if (failure->cause == FAILURE_DEADLINE && job->plan.state == PLAN_PREPARING &&
        job->stall.late_shift < LATE_SHIFT_MAX) {
        job->stall.late_shift++; /* a slow device must be able to meet the deadline at last */
    }
    return count_fault(job, failure);
}
