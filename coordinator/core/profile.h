/* profile.h: measured unit times and links of devices. */
#ifndef COORDINATOR_CORE_PROFILE_H
#define COORDINATOR_CORE_PROFILE_H

#include "coordinator/core/core.h"
#include "coordinator/core/problem.h"
#include "coordinator/plan/link.h"
#include "coordinator/plan/partition.h"

struct device_slot;
struct job_slot;

/* Of all transfers to one device. */
struct measured_link {
    struct device_id device;
    struct link_sums sums;
};

/* What a device measured in its present or last job. 0: not measured. */
struct device_profile {
    struct job_id job;
    double forward_seconds[UNITS_MAX], backward_seconds[UNITS_MAX]; /* per micro-batch */
    double update_seconds_per_byte;                                 /* of parameters */
};

struct measured {
    struct measured_link link[LINKS_MAX];
    size_t next_link; /* the one to replace next */
    struct device_profile units;
};

void profile_take(struct core *core, struct job_slot *job, struct device_slot *device,
                  const struct heartbeat *heartbeat);
/* Unit times of the planning's devices for the job (NULL: a job that does not exist yet). */
void profile_times(struct planning *planning, const struct job_slot *job);
/* Of the job's units [first, end). Uses the planning's scratch. */
uint64_t profile_parameter_bytes(struct core *core, const struct job_slot *job, int64_t first,
                                 int64_t end);
struct partition_link profile_link(const struct device_slot *a, const struct device_slot *b);

#endif
