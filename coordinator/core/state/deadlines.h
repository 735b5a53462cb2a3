/* deadlines.h: every timeout, computed from the expected step time. */
#ifndef COORDINATOR_CORE_STATE_DEADLINES_H
#define COORDINATOR_CORE_STATE_DEADLINES_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

/* Write the deadlines of the job into its row. */
void deadlines_fill(const struct core *core, struct job_slot *job);
/* Return the silence after which a device is suspect. */
int64_t deadlines_suspect_ms(const struct core *core);
/* Return the length of the first lease after a start: long enough for every agent to repeat its
 * call. */
int64_t deadlines_first_lease_ms(const struct core *core);
/* Return the time in which the device must answer a challenge. */
int64_t deadlines_challenge_ms(const struct core *core, const struct device_slot *device);
/* Return the time after which a phase fails its generation. */
int64_t deadlines_prepare_ms(const struct core *core, const struct job_slot *job);
int64_t deadlines_stop_ms(const struct job_slot *job);
/* Return the part of the stop deadline that covers the present step of `step_seconds`. */
int64_t deadlines_step_end_ms(double step_seconds);
/* The same for a transfer of `bytes`. */
int64_t deadlines_transfer_ms(int64_t bytes);
/* Return the expected time to retrain `steps` steps. */
int64_t deadlines_redo_ms(const struct job_slot *job, int64_t steps);
/* Return the step deadline, including an evaluation that may be due. */
int64_t deadlines_step_ms(const struct job_slot *job);

#endif
