/* generations.h: the life of a generation: plan, prepare, run, stop. */
#ifndef COORDINATOR_CORE_GENERATION_GENERATIONS_H
#define COORDINATOR_CORE_GENERATION_GENERATIONS_H

#include "coordinator/core/core.h"
#include "coordinator/core/failures/avoidance.h"
#include "coordinator/core/state/device.h"

struct job_slot;

struct generation {
    int64_t decided_ms;  /* time of its plan */
    int64_t state_bytes; /* approximate size of one version of all units */
    int64_t floor;       /* the number of the next generation is above it */
    int stop_reason;     /* enum plan_reason of the plan after the stop */
};

/* Plan within the step and prepare the next generation. false: the job waits for devices or for a
 * newer version. */
bool generations_begin(struct core *core, struct job_slot *job, int reason);
/* Ask for the next generation of a job without devices: it is `planning` until the answer comes. No
 * question may be open. false: the job waits, as above. */
bool generations_ask(struct core *core, struct job_slot *job, int reason);
/* Ask for the next generation of a job that stops, if no question is open. */
void generations_ask_stopping(struct core *core);
/* Take the answer to the question of the job: core->planned or an error. If a device of the answer
 * has left in the meantime, ask again. false: the job waits, as above. */
bool generations_planned(struct core *core, struct job_slot *job, int code, const char *text);
/* Ask the running plan to stop. */
void generations_stop(struct core *core, struct job_slot *job, int reason);
/* Ask the running plan to stop; the plan in core->planned follows it. */
void generations_stop_for(struct core *core, struct job_slot *job, int reason);
/* Begin the next phase when all stages have completed the present one. */
void generations_advance(struct core *core, struct job_slot *job);
/* Begin the first training generation with the measured kernels (EVENT_TUNED). */
void generations_on_tuned(struct core *core, const struct event *event);

#endif
