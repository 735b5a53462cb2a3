/* deadlines.h: every timeout, computed from the expected step time. */
#ifndef COORDINATOR_CORE_DEADLINES_H
#define COORDINATOR_CORE_DEADLINES_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

void deadlines_fill(const struct core *core, struct job_slot *job);
int64_t deadlines_suspect_ms(const struct core *core);
/* Of the first lease after a start: agents that wait to repeat their calls are heard before it is
 * over. */
int64_t deadlines_first_lease_ms(const struct core *core);
int64_t deadlines_challenge_ms(const struct core *core, const struct device_slot *device);
/* How long a phase may take before its generation fails. */
int64_t deadlines_prepare_ms(const struct core *core, const struct job_slot *job);
int64_t deadlines_stop_ms(const struct job_slot *job);
int64_t deadlines_transfer_ms(int64_t bytes);
/* What it takes to do so many steps again. */
int64_t deadlines_redo_ms(const struct job_slot *job, int64_t steps);
/* How long no step may be applied, an evaluation included that may be due. */
int64_t deadlines_step_ms(const struct job_slot *job);

#endif
