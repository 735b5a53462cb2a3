/* held.h: lists the snapshots of a job on devices and finds the versions that are complete. */
#ifndef COORDINATOR_CORE_COPIES_HELD_H
#define COORDINATOR_CORE_COPIES_HELD_H

#include "coordinator/core/copies/holdings.h"
#include "coordinator/core/core.h"
#include "coordinator/core/state/device.h"

struct device_slot;
struct job_slot;

/* A snapshot of the job on a device. */
struct held_item {
    int64_t version;
    uint32_t unit, order; /* order: rank by device id */
    uint32_t item;        /* index into core.holding */
    struct device_slot *device;
};

/* List the usable snapshots of reachable devices in core->held, newest version first, then by unit
 * and device. only: one version, or -1 for all that are newer than the center's. Return the count.
 */
size_t held_list(const struct core *core, const struct job_slot *job, const struct absent *absent,
                 int64_t only);
/* Remove versions that lack a unit from the first `count` of core->held. Return the new count. */
size_t held_covered(const struct core *core, const struct job_slot *job, size_t count);
/* Return the newest version below `below` (NEVER: any) of which the other devices hold every unit,
 * with one hash for each unit; 0: none. out (NULL or empty) gets the hashes. */
int64_t held_newest(const struct core *core, const struct job_slot *job, size_t count,
                    const struct absent *absent, int64_t below, struct cut *out);

#endif
