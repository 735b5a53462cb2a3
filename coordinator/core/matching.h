/* matching.h: what a job asks of a device. */
#ifndef COORDINATOR_CORE_MATCHING_H
#define COORDINATOR_CORE_MATCHING_H

#include "coordinator/core/avoidance.h"
#include "coordinator/core/device.h"

struct job_slot;

enum candidates {
    CANDIDATES_FREE,   /* online, not cordoned, without another job */
    CANDIDATES_ONLINE, /* the same, busy or not */
    CANDIDATES_KNOWN,  /* every device there is, by memory rather than speed: can it ever fit? */
};

struct placement_request {
    const struct job_spec *spec;
    const struct model *model;
    const struct job_slot *job; /* NULL: not submitted yet */
    enum candidates candidates;
    const struct replan_request *wish; /* NULL: as the planner chooses */
    enum avoid_level avoid;
    struct absent without; /* and these */
};

/* Whether the device has the labels and the numeric class that the job asks for. */
bool matching_labels(const struct job_spec *spec, const struct device *device);
bool matching_class(const struct job_spec *spec, const struct device *device);
/* Whether its build has the kernels that the model names; those that were measured are no wish of
 * the job's. */
bool matching_kernels(const struct placement_request *request, const struct device *device);

#endif
