/* recovery.h: the version from which a job resumes. */
#ifndef COORDINATOR_CORE_FAILURES_RECOVERY_H
#define COORDINATOR_CORE_FAILURES_RECOVERY_H

#include "coordinator/core/copies/holdings.h"
#include "coordinator/core/state/device.h"

struct core;
struct job_slot;

/* Return the version from which the next generation starts without the absent devices, and write
 * its hashes to `out`. It is the newest version of which the reachable devices hold every unit with
 * one hash. If there is none, and after a pause, it is the center's version or 0, with an empty
 * cut. */
int64_t recovery_start(const struct core *core, const struct job_slot *job,
                       const struct absent *absent, struct cut *out);
/* Return whether the plan runs or stops and can stop without the absent devices and without losing
 * a step. false if none of them works for the plan. */
bool recovery_survives(const struct job_slot *job, const struct absent *absent);
/* Return whether a device that has not reported its snapshots may hold a newer version. */
bool recovery_must_gather(struct core *core, const struct job_slot *job);
/* Return how long to wait before starting from `start`, for absent devices of the last plan that
 * may hold a newer version; 0: none. */
int64_t recovery_patience_ms(const struct core *core, const struct job_slot *job, int64_t start);
/* List the snapshots of the devices, except the absent ones, in core->held. Return the count. */
size_t recovery_list(const struct core *core, const struct job_slot *job,
                     const struct absent *absent);
/* Return recovery_start from the first `count` of core->held, without the absent devices. */
int64_t recovery_without(const struct core *core, const struct job_slot *job, size_t count,
                         const struct absent *absent);
/* Return the center's whole version; 0: none. */
int64_t recovery_center(const struct job_slot *job);

#endif
