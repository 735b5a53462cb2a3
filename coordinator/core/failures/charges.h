/* charges.h: charges failures to devices first and to the job last. */
#ifndef COORDINATOR_CORE_FAILURES_CHARGES_H
#define COORDINATOR_CORE_FAILURES_CHARGES_H

#include "coordinator/core/core.h"
#include "coordinator/core/failures/failure.h"

struct job_slot;

#define FAILURES_MAX 3 /* devices that fail in the same way before the job is to blame */

/* Devices that failed in the same way, without progress in between. */
struct charge {
    char code[REASON_SIZE];
    struct device_id device[FAILURES_MAX];
    size_t count;
};

/* The version that devices failed to load in consecutive generations. */
struct stuck {
    int64_t version;
    int64_t since_ms; /* when the first of these generations was planned */
    int count;        /* failures */
};

/* The memory limit, in this job, of a device that ran out of memory. */
struct memory_cap {
    struct device_id device;
    int64_t bytes;
};

struct charges {
    int64_t furthest_step; /* of ended generations; only steps above it are progress */
    struct charge same_way;
    struct stuck stuck;
    int faults; /* failures without progress that are charged to no single device */
    struct memory_cap cap[STAGES_MAX];
    size_t cap_count;
};

/* Note that the plan's devices could not load the version from which the plan starts. */
void charges_start_failed(struct job_slot *job);
/* Note that the plan's devices loaded that version. */
void charges_start_loaded(struct job_slot *job);
/* Note that the job reached a step. Progress clears the charges; retrained steps do not count as
 * progress. */
void charges_progress(struct job_slot *job, int64_t step);
/* Clear all charges and exclusions of the job. */
void charges_forget(struct job_slot *job);
/* Clear them, and make the next attempt now. */
void charges_retry(struct core *core, struct job_slot *job);
/* Charge a failure to devices or to the job. Return whether the job is to blame. */
bool charges_count(struct core *core, struct job_slot *job, const struct failure *failure);

#endif
