/* charges.h: charges failures to devices first and to the job last. */
#ifndef COORDINATOR_CORE_CHARGES_H
#define COORDINATOR_CORE_CHARGES_H

#include "coordinator/core/state.h"

/* The plan's devices could not load the version that it starts from. */
void charges_start_failed(struct job_slot *job);
/* They could. */
void charges_start_loaded(struct job_slot *job);
/* A version was reached. What was below the furthest that generations got to was done before, and
 * is no progress. */
void charges_progress(struct job_slot *job, int64_t step);
/* Nothing is held against the job or its devices any more. */
void charges_forget(struct job_slot *job);
/* The same, and what was put off is tried now. */
void charges_retry(struct core *core, struct job_slot *job);
/* Charge a failure to devices or to the job. Returns whether the job is to blame. */
bool charges_count(struct core *core, struct job_slot *job, const struct failure *failure);

#endif
