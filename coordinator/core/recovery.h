/* recovery.h: the version from which a job resumes. */
#ifndef COORDINATOR_CORE_RECOVERY_H
#define COORDINATOR_CORE_RECOVERY_H

#include "coordinator/core/device.h"
#include "coordinator/core/holdings.h"

struct core;
struct job_slot;

/* From which version the job's next generation starts without the absent devices: the newest of
 * which the reachable ones hold every unit with one hash, and its hashes; else, and after a pause,
 * what the center has, or 0, and an empty cut. */
int64_t recovery_start(const struct core *core, const struct job_slot *job,
                       const struct absent *absent, struct cut *out);
/* Whether a device that has not told what it holds may have what the start would lack. */
bool recovery_must_gather(struct core *core, const struct job_slot *job);
/* How long a start that is older than what the job had is worth putting off, for devices of its
 * last plan that are away and may bring something newer. 0: there is none to wait for. */
int64_t recovery_patience_ms(const struct core *core, const struct job_slot *job, int64_t start);
/* What the devices without the absent ones hold of the job, for recovery_without: how many of
 * core->held. */
size_t recovery_list(const struct core *core, const struct job_slot *job,
                     const struct absent *absent);
/* recovery_start without more devices, from the first `count` of core->held. */
int64_t recovery_without(const struct core *core, const struct job_slot *job, size_t count,
                         const struct absent *absent);
/* The center's version; 0: it has none that is whole. */
int64_t recovery_center(const struct job_slot *job);

#endif
