/* states.h: states of a job, what a verb does in each, and the phase of its plan. */
#ifndef COORDINATOR_CORE_STATES_H
#define COORDINATOR_CORE_STATES_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

/* What a verb does to a job in a state. */
enum verb_effect {
    EFFECT_REFUSE,      /* 409 wrong_state */
    EFFECT_NOTHING,     /* it is so already */
    EFFECT_PAUSE,       /* at once: no device works for it */
    EFFECT_PAUSE_LATER, /* remembered, done when it runs */
    EFFECT_STOP,        /* drain, then pause or replan */
    EFFECT_QUEUE,
    EFFECT_RETRY, /* what it waits for by the clock is over, and its devices are taken again */
    EFFECT_CANCEL,
    EFFECT_KEEP, /* cancel once the center's version is a checkpoint */
    EFFECT_EXPORT,
};

enum verb_effect states_verb(int state, enum job_verb verb);
/* Set the job's state; asserts that the change is legal. reason: a code or "". */
void states_set(struct core *core, struct job_slot *job, int state, const char *reason,
                const char *format, ...) PRINTF_LIKE(5, 6);
/* Whether the plan has devices that work for it. */
bool states_plan_active(const struct job_slot *job);
/* Whether a stage of it is the device's. */
bool states_plan_has(const struct plan *plan, const struct device_slot *device);
/* The phase that the job's devices are told. */
enum phase states_phase(const struct job_slot *job);

#endif
