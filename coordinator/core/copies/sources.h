/* sources.h: the sources from which the stages of a new plan load their units. */
#ifndef COORDINATOR_CORE_COPIES_SOURCES_H
#define COORDINATOR_CORE_COPIES_SOURCES_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

struct unit_source {
    int from;                /* enum source_from */
    struct device_id device; /* with SOURCE_DEVICE */
};

/* The source of each unit of the plan, for the stage that keeps it. */
struct sources {
    struct unit_source unit[UNITS_MAX];
    bool from_peers;      /* a device fetches from another one */
    int64_t moving_bytes; /* bytes of state that devices fetch */
};

/* Return hash and size of the unit at the plan's resume_version; "" and 0: from the seed. */
const char *sources_hash(const struct job_slot *job, int64_t unit);
int64_t sources_bytes(const struct job_slot *job, int64_t unit);
/* Return the source from which a stage of the plan loads the unit. A stage that does not keep the
 * unit takes it from its keeper, or from the keeper's source. */
struct unit_source sources_of(const struct job_slot *job, size_t stage, int64_t unit);
/* Return whether the keeper of the unit takes it from the device. */
bool sources_is(const struct job_slot *job, int64_t unit, const struct device_slot *device);
/* Return whether a stage of the plan takes units from the device. */
bool sources_stage_is(const struct job_slot *job, size_t stage, const struct device_slot *device);
/* Choose the source of each unit: job->sources and plan.bytes_moved. */
void sources_choose(struct core *core, struct job_slot *job);
/* Return whether a device of the plan that is not ready yet fetches units from this device. */
bool sources_serves(const struct job_slot *job, const struct device_slot *device);

#endif
