/* states.h: the states of a job, the effect of each verb in each state, and the phase of its plan.
 */
#ifndef COORDINATOR_CORE_STATE_STATES_H
#define COORDINATOR_CORE_STATE_STATES_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

/* The effect of a verb on a job in a state. */
enum verb_effect {
    EFFECT_REFUSE,      /* 409 wrong_state */
    EFFECT_NOTHING,     /* the job is in that state already */
    EFFECT_PAUSE,       /* at once: no device works for it */
    EFFECT_PAUSE_LATER, /* as soon as it runs */
    EFFECT_STOP,        /* drain, then pause or replan */
    EFFECT_QUEUE,
    EFFECT_RETRY, /* end all delays and exclusions */
    EFFECT_CANCEL,
    EFFECT_KEEP, /* cancel once the center's version is a checkpoint */
    EFFECT_EXPORT,
};

/* Return the effect of the verb in the state. */
enum verb_effect states_verb(int state, enum job_verb verb);
/* The same of a job that consists of groups, in a phase (enum parent_phase). */
enum verb_effect states_parent_verb(int phase, enum job_verb verb);
/* Return the public event of entering the state. */
const char *states_event(int state);
/* Set state, reason (a code or "") and message; asserts that the change is legal. */
void states_set(struct core *core, struct job_slot *job, int state, const char *reason,
                const char *format, ...) PRINTF_LIKE(5, 6);
/* Return the newest version that the job is known to have had: committed, the start of its last
 * plan, or where that plan stopped. */
int64_t states_newest(const struct job_slot *job);
/* Return whether only devices may hold the newest version: the center's is older. */
bool states_is_on_devices(const struct job_slot *job);
/* Return whether the job waits for a plan from the center's version: queued, or planning. */
bool states_waits_in_queue(const struct job_slot *job);
/* Return whether the job starts from the beginning and its kernels must still be measured
 * (tuning.h). */
bool states_kernels_wanted(const struct job_slot *job);
/* Return whether devices work for the plan: it prepares, runs or stops. */
bool states_plan_active(const struct job_slot *job);
/* Return whether the device has a stage of the plan. */
bool states_plan_has(const struct plan *plan, const struct device_slot *device);
/* Return whether the job is a group that mixes. A lost group begins again with an average. */
bool states_mixes(const struct core *core, const struct job_slot *job);
/* Return whether the job is complete with the version at which its plan has stopped. */
bool states_is_trained(const struct job_slot *job, int64_t version);
/* Return the phase in the assignments of the job's devices. */
enum phase states_phase(const struct job_slot *job);

#endif
