/* tuning.h: measures the kernels of a job once. */
#ifndef COORDINATOR_CORE_TUNING_H
#define COORDINATOR_CORE_TUNING_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

struct tuning {
    char kernels[KERNEL_TEXT_SIZE]; /* as the stages of the present plan report them */
    bool told;                      /* all have, and ACTION_TUNE was asked for */
};

/* Whether the plan that is being prepared measures the job's kernels instead of training. */
bool tuning_wanted(const struct job_slot *job);
/* What a device that is ready has measured. */
void tuning_take(struct core *core, struct job_slot *job, const struct device_slot *device,
                 const struct heartbeat *heartbeat);
/* Every stage has: the job gets its kernels, then the next generation. */
void tuning_finish(struct core *core, struct job_slot *job);

#endif
