/* shortage.h: explains why a job does not get its devices. */
#ifndef COORDINATOR_CORE_PLACEMENT_SHORTAGE_H
#define COORDINATOR_CORE_PLACEMENT_SHORTAGE_H

#include "coordinator/core/placement/matching.h"
#include "schema/limits.h"

struct core;

/* Counts of devices by their use for a job, without the devices that the question excludes. */
struct shortage {
    size_t online; /* all online devices */
    size_t fit;    /* online devices with the labels, class and kernels that the job requests */
    size_t busy, kept, pending, cordoned, draining, silent; /* fitting devices that are not free, by
                                                               reason */
    size_t away;                                            /* they would fit, but are not online */
    size_t few;                /* online, and would fit if they offered a batch of samples */
    size_t old;                /* online, and would fit if their agents knew the job's fields */
    size_t without;            /* excluded from the question */
    char role[MESSAGE_SIZE];   /* what a server or worker needs and no device has; "": nothing */
    char nobody[MESSAGE_SIZE]; /* why no device fits */
};

/* Count the devices of the request. */
void shortage_look(const struct core *core, const struct placement_request *request,
                   struct shortage *out);
/* Set err to a sentence: how many of the `wanted` devices are missing and why. Return ERR_STATE.
 * Any thread. */
NODISCARD int shortage_explain(const struct shortage *fleet, const struct job_spec *spec,
                               size_t wanted, size_t there, struct err *err);

#endif
