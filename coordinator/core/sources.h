/* sources.h: from where each stage takes its units. */
#ifndef COORDINATOR_CORE_SOURCES_H
#define COORDINATOR_CORE_SOURCES_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

struct unit_source {
    int from;                /* enum source_from */
    struct device_id device; /* with SOURCE_DEVICE */
};

/* Where the plan's stages take their units from. */
struct sources {
    struct unit_source unit[UNITS_MAX];
    bool from_peers;      /* some device fetches from another one */
    int64_t moving_bytes; /* of state that devices fetch */
};

/* Of the plan's resume_version; "" and 0: from the seed. */
const char *sources_hash(const struct job_slot *job, int64_t unit);
int64_t sources_bytes(const struct job_slot *job, int64_t unit);
/* Whether the unit is taken from the device. */
bool sources_is(const struct job_slot *job, int64_t unit, const struct device_slot *device);
/* Where each stage takes its units from: job->source, job->moving_bytes, plan.bytes_moved. */
void sources_choose(struct core *core, struct job_slot *job);
/* Whether a device that is not ready yet takes units of the plan from this one. */
bool sources_serves(const struct job_slot *job, const struct device_slot *device);

#endif
