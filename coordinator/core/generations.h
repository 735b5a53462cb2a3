/* generations.h: the life of a generation: plan, prepare, run, stop. */
#ifndef COORDINATOR_CORE_GENERATIONS_H
#define COORDINATOR_CORE_GENERATIONS_H

#include "coordinator/core/avoidance.h"
#include "coordinator/core/core.h"
#include "coordinator/core/device.h"

struct job_slot;

struct generation {
    int64_t decided_ms;  /* time of its plan */
    int64_t state_bytes; /* approximate size of one version of all units */
    int64_t floor;       /* the number of the next generation is above it */
    int stop_reason;     /* enum plan_reason of the plan after the stop */
};

/* Place the next generation into core->planning, without some devices; errors as placement_choose.
 * wanted: the replan request, or NULL. least: the fewest exclusions to respect. */
NODISCARD int generations_place(struct core *core, const struct job_slot *job,
                                const struct replan_request *wanted, const struct absent *without,
                                enum avoid_level least, struct err *err);
/* Plan and prepare the next generation. false: the job waits for devices, or for a newer version.
 */
bool generations_begin(struct core *core, struct job_slot *job, int reason);
/* Ask the running plan to stop. */
void generations_stop(struct core *core, struct job_slot *job, int reason);
/* Begin the next phase when all stages have completed the present one. */
void generations_advance(struct core *core, struct job_slot *job);
/* Begin the first training generation with the measured kernels (EVENT_TUNED). */
void generations_on_tuned(struct core *core, const struct event *event);

#endif
