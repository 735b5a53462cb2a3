#include "coordinator/core/state/states.h"

#include <stdarg.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"

#define STATE_COUNT (JOB_CANCELLED + 1)
#define VERB_COUNT (JOB_REPLAN + 1)

/* Every verb in every state. Jobs that have ended are not in the core; their rows answer
 * wrong_state for every verb. */
#define ENDS_OR_EXPORTS                                                                            \
    [JOB_CANCEL] = EFFECT_CANCEL, [JOB_CANCEL_KEEP] = EFFECT_KEEP, [JOB_EXPORT] = EFFECT_EXPORT
static const enum verb_effect effects[STATE_COUNT][VERB_COUNT] = {
    [JOB_QUEUED] = {[JOB_PAUSE] = EFFECT_PAUSE, ENDS_OR_EXPORTS},
    [JOB_PLANNING] = {[JOB_PAUSE] = EFFECT_PAUSE, ENDS_OR_EXPORTS},
    [JOB_PREPARING] = {[JOB_PAUSE] = EFFECT_PAUSE_LATER, ENDS_OR_EXPORTS},
    [JOB_RUNNING] = {[JOB_PAUSE] = EFFECT_STOP, ENDS_OR_EXPORTS, [JOB_REPLAN] = EFFECT_STOP},
    [JOB_REPLANNING] = {[JOB_PAUSE] = EFFECT_PAUSE_LATER, ENDS_OR_EXPORTS},
    [JOB_RECOVERING] = {[JOB_PAUSE] = EFFECT_PAUSE_LATER, ENDS_OR_EXPORTS},
    [JOB_PAUSING] = {[JOB_PAUSE] = EFFECT_NOTHING, ENDS_OR_EXPORTS},
    [JOB_PAUSED] = {[JOB_PAUSE] = EFFECT_NOTHING, [JOB_RESUME] = EFFECT_QUEUE, ENDS_OR_EXPORTS},
    [JOB_WAITING_FOR_DEVICES] =
        {[JOB_PAUSE] = EFFECT_PAUSE, [JOB_RESUME] = EFFECT_RETRY, ENDS_OR_EXPORTS},
    [JOB_CANCELLING] = {[JOB_CANCEL] = EFFECT_CANCEL,
                        [JOB_CANCEL_KEEP] = EFFECT_NOTHING,
                        [JOB_EXPORT] = EFFECT_NOTHING},
    [JOB_SUCCEEDED] = {0},
    [JOB_FAILED] = {0},
    [JOB_CANCELLED] = {0},
};

/* Every verb in every phase of a parent. A verb acts on the jobs of the phase. A harvest can only
 * be cancelled, and only a harvested model or an average can be kept. A parent has no plan of its
 * own; its parts have plans. */
#define PARTS [JOB_PAUSE] = EFFECT_PAUSE, [JOB_RESUME] = EFFECT_QUEUE, [JOB_CANCEL] = EFFECT_CANCEL
static const enum verb_effect parent_effects[PARENT_ENDED + 1][VERB_COUNT] = {
    [PARENT_STEM] = {PARTS},
    [PARENT_GROUPS] = {PARTS},
    [PARENT_HARVEST] = {[JOB_CANCEL] = EFFECT_CANCEL},
    [PARENT_JOINT] = {PARTS, [JOB_CANCEL_KEEP] = EFFECT_KEEP},
    [PARENT_MIXING] = {PARTS, [JOB_CANCEL_KEEP] = EFFECT_KEEP},
    [PARENT_ENDED] = {0},
};

#define TO(state) (1u << (state))
#define ENDS (TO(JOB_FAILED) | TO(JOB_CANCELLED) | TO(JOB_CANCELLING))

/* The legal changes of state. State `planning` is only for jobs without devices: the search for a
 * recovering job runs within a step, and that for a replanned job while its plan stops. A plan that
 * stops for a loss or a replan may have reached the end of the job. */
static const unsigned changes[STATE_COUNT] = {
    [JOB_QUEUED] = TO(JOB_PLANNING) | TO(JOB_PREPARING) | TO(JOB_PAUSED) | ENDS,
    [JOB_PLANNING] = TO(JOB_QUEUED) | TO(JOB_PREPARING) | TO(JOB_PAUSED) | ENDS,
    [JOB_PREPARING] =
        TO(JOB_RUNNING) | TO(JOB_RECOVERING) | TO(JOB_PAUSING) | TO(JOB_WAITING_FOR_DEVICES) | ENDS,
    [JOB_RUNNING] = TO(JOB_REPLANNING) | TO(JOB_RECOVERING) | TO(JOB_PAUSING) |
                    TO(JOB_WAITING_FOR_DEVICES) | TO(JOB_SUCCEEDED) | ENDS,
    [JOB_REPLANNING] = TO(JOB_RUNNING) | TO(JOB_RECOVERING) | TO(JOB_PAUSING) |
                       TO(JOB_WAITING_FOR_DEVICES) | TO(JOB_SUCCEEDED) | ENDS,
    [JOB_RECOVERING] =
        TO(JOB_RUNNING) | TO(JOB_PAUSING) | TO(JOB_WAITING_FOR_DEVICES) | TO(JOB_SUCCEEDED) | ENDS,
    [JOB_PAUSING] = TO(JOB_PAUSED) | TO(JOB_SUCCEEDED) | ENDS,
    [JOB_PAUSED] =
        TO(JOB_QUEUED) | TO(JOB_WAITING_FOR_DEVICES) | TO(JOB_CANCELLED) | TO(JOB_CANCELLING),
    [JOB_WAITING_FOR_DEVICES] = TO(JOB_RECOVERING) | TO(JOB_PAUSED) | ENDS,
    [JOB_CANCELLING] = TO(JOB_FAILED) | TO(JOB_CANCELLED),
    [JOB_SUCCEEDED] = 0,
    [JOB_FAILED] = 0,
    [JOB_CANCELLED] = 0,
};

/* The public event of entering a state. */
static const char *const events[STATE_COUNT] = {
    [JOB_QUEUED] = "job_queued",
    [JOB_PLANNING] = "job_planning",
    [JOB_PREPARING] = "job_preparing",
    [JOB_RUNNING] = "job_running",
    [JOB_REPLANNING] = "job_replanning",
    [JOB_RECOVERING] = "job_recovering",
    [JOB_PAUSING] = "job_pausing",
    [JOB_PAUSED] = "job_paused",
    [JOB_WAITING_FOR_DEVICES] = "job_waiting_for_devices",
    [JOB_CANCELLING] = "job_cancelling",
    [JOB_SUCCEEDED] = "job_succeeded",
    [JOB_FAILED] = "job_failed",
    [JOB_CANCELLED] = "job_cancelled",
};

enum verb_effect states_verb(int state, enum job_verb verb)
{
    ASSERT(state >= 0 && state < STATE_COUNT && verb < VERB_COUNT);
    return effects[state][verb];
}

enum verb_effect states_parent_verb(int phase, enum job_verb verb)
{
    ASSERT(phase >= 0 && phase <= PARENT_ENDED && verb < VERB_COUNT);
    return parent_effects[phase][verb];
}

const char *states_event(int state)
{
    return events[state];
}

void states_set(struct core *core, struct job_slot *job, int state, const char *reason,
                const char *format, ...)
{
    char message[MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    text_format(message, sizeof(message), format, arguments);
    va_end(arguments);
    bool same = job->job.state == state;
    ASSERT(same || (changes[job->job.state] & TO(state)));
    if (same && strcmp(job->job.state_reason, reason) == 0 &&
        strcmp(job->job.message, message) == 0) {
        return;
    }
    job->job.state = state;
    text_set(job->job.state_reason, sizeof(job->job.state_reason), "%s", reason);
    memcpy(job->job.message, message, sizeof(message));
    mark_job_changed(core, job);
    if (!same) {
        act_publish_job(core, events[state], &job->job, job->job.id.text, "%s", message);
    }
}

int64_t states_newest(const struct job_slot *job)
{
    const struct plan *plan = &job->plan;
    const int64_t of_plan =
        plan->last_version > plan->resume_version ? plan->last_version : plan->resume_version;
    return job->job.neighbor_version > of_plan ? job->job.neighbor_version : of_plan;
}

bool states_is_on_devices(const struct job_slot *job)
{
    /* The devices of a plan that failed may have trained on without the coordinator. */
    const bool failed = job->has_plan && job->plan.started_ms > 0 && job->plan.failure[0] != '\0';
    return failed || states_newest(job) > job->job.version;
}

bool states_waits_in_queue(const struct job_slot *job)
{
    return job->job.state == JOB_QUEUED || job->job.state == JOB_PLANNING;
}

/* Only oneDNN needs measurements: own kernels follow from the shape, and a plan over several
 * classes is inexact anyway. If every pass has its kernel, nothing is left to measure, so a job is
 * measured once. */
bool states_kernels_wanted(const struct job_slot *job)
{
    return job->job.data.tune && job->plan.resume_version == 0 &&
           conv2d_backend_of(job->job.numeric_class) == CONV2D_BACKEND_ONEDNN &&
           kernel_text_wanted(job->model);
}

bool states_plan_active(const struct job_slot *job)
{
    return job->has_plan && (job->plan.state == PLAN_PREPARING || job->plan.state == PLAN_RUNNING ||
                             job->plan.state == PLAN_STOPPING);
}

bool states_mixes(const struct core *core, const struct job_slot *job)
{
    const struct parent_slot *parent =
        job->job.part == JOB_GROUP ? slots_parent(core, job->job.parent.text) : NULL;
    return parent && parent->job.spec.strategy == STRATEGY_GOSSIP;
}

bool states_is_trained(const struct job_slot *job, int64_t version)
{
    return version == job->total_steps && !job->plan.unevaluated;
}

bool states_plan_has(const struct plan *plan, const struct device_slot *device)
{
    for (size_t s = 0; s < plan->stage_count; s++) {
        if (id_equal(plan->stage[s].device.text, device->device.id.text)) {
            return true;
        }
    }
    return false;
}

enum phase states_phase(const struct job_slot *job)
{
    if (!states_plan_active(job)) {
        return PHASE_IDLE;
    }
    if (job->plan.state == PLAN_PREPARING) {
        return PHASE_PREPARE;
    }
    if (job->plan.state == PLAN_RUNNING) {
        return PHASE_RUN;
    }
    return job->plan.last_version > 0 ? PHASE_FINISHED : PHASE_STOPPING;
}
