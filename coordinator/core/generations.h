/* generations.h: the life of a generation: plan, prepare, run, stop. */
#ifndef COORDINATOR_CORE_GENERATIONS_H
#define COORDINATOR_CORE_GENERATIONS_H

#include "coordinator/core/avoidance.h"
#include "coordinator/core/core.h"
#include "coordinator/core/device.h"

struct job_slot;

struct generation {
    int64_t decided_ms;  /* when its plan was made */
    int64_t state_bytes; /* of all units, about */
    int64_t floor;       /* the next generation is above it */
    int stop_reason;     /* enum plan_reason of the plan after the stop */
};

/* Where the next generation would run without some devices, as placement_choose answers. wish: what
 * was asked for, or NULL. */
NODISCARD int generations_place(struct core *core, const struct job_slot *job,
                                const struct replan_request *wish, const struct absent *without,
                                enum avoid_level least, struct err *err);
/* Plan and prepare the next generation. false: the job waits, for enough devices or for what those
 * that are away may bring. */
bool generations_begin(struct core *core, struct job_slot *job, int reason);
/* Ask the running plan to stop. */
void generations_stop(struct core *core, struct job_slot *job, int reason);
/* Go on when the phase is complete. */
void generations_advance(struct core *core, struct job_slot *job);
void generations_on_tuned(struct core *core, const struct event *event);

#endif
