/* held.h: versions of a job of which the devices hold every unit. */
#ifndef COORDINATOR_CORE_HELD_H
#define COORDINATOR_CORE_HELD_H

#include "coordinator/core/core.h"
#include "coordinator/core/device.h"
#include "coordinator/core/holdings.h"

struct device_slot;
struct job_slot;

/* A holding among those of a job. */
struct held_item {
    int64_t version;
    uint32_t unit, order; /* order: of the devices' ids */
    uint32_t item;        /* of core.holding */
    struct device_slot *device;
};

/* Fills core->held with what reachable devices hold usably, newest versions first, then by unit and
 * device: of version `only`, or (-1) of every version that is newer than the center's. Returns how
 * many. */
size_t held_list(const struct core *core, const struct job_slot *job, const struct absent *absent,
                 int64_t only);
/* Leaves only versions of which every unit is held. Returns how many. */
size_t held_covered(const struct core *core, const struct job_slot *job, size_t count);
/* The newest version below `below` (NEVER: of all) that is whole without the absent devices, all
 * holders of a unit agreeing on its hash; out (NULL or empty) gets its hashes. 0: none is. */
int64_t held_newest(const struct core *core, const struct job_slot *job, size_t count,
                    const struct absent *absent, int64_t below, struct cut *out);

#endif
