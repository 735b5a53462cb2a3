/* profile.h: the measured unit times and links of devices. */
#ifndef COORDINATOR_CORE_PROFILE_H
#define COORDINATOR_CORE_PROFILE_H

#include "coordinator/core/core.h"
#include "coordinator/plan/link.h"
#include "coordinator/plan/partition.h"

struct device_slot;
struct job_slot;
struct planning;

/* Sums over all transfers to one device. */
struct measured_link {
    struct device_id device;
    struct link_sums sums;
};

/* Measurements of a device in its present or last job; 0: not measured. */
struct device_profile {
    struct job_id job;
    double forward_seconds[UNITS_MAX], backward_seconds[UNITS_MAX]; /* per micro-batch */
    double update_seconds_per_byte; /* per byte of trained parameters */
};

struct measured {
    struct measured_link link[LINKS_MAX];
    size_t next_link; /* index of the entry to overwrite next */
    struct device_profile units;
};

/* Take the measurements of a heartbeat. */
void profile_take(struct core *core, struct job_slot *job, struct device_slot *device,
                  const struct heartbeat *heartbeat);
/* Fill the unit times and links of the planning's devices, which are those of core->candidate.
 * job: NULL before submission. */
void profile_times(const struct core *core, const struct job_slot *job, struct planning *planning);
/* Return the bytes of the parameters of units [first, end). Overwrites core->planning->cost. */
uint64_t profile_parameter_bytes(struct core *core, const struct job_slot *job, int64_t first,
                                 int64_t end);
/* Return the estimated link between two devices. */
struct partition_link profile_link(const struct device_slot *a, const struct device_slot *b);

#endif
