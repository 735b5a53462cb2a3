/* tuning.h: measures the kernels of a job once. */
#ifndef COORDINATOR_CORE_GENERATION_TUNING_H
#define COORDINATOR_CORE_GENERATION_TUNING_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

struct tuning {
    char kernels[KERNEL_TEXT_SIZE]; /* as reported by the stages of the present plan */
    bool complete;                  /* all stages have reported, and ACTION_TUNE was sent */
};

/* Return whether the plan in preparation measures the job's kernels instead of training. */
bool tuning_wanted(const struct job_slot *job);
/* Take the kernels that a ready device has measured. */
void tuning_take(struct core *core, struct job_slot *job, const struct device_slot *device,
                 const struct heartbeat *heartbeat);
/* Send the kernels to the edge when every stage has reported; the next generation trains. */
void tuning_finish(struct core *core, struct job_slot *job);

#endif
