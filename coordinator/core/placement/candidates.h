/* candidates.h: the devices that a plan may use, as the core knows them now, and as values of a
 * question to the planner. */
#ifndef COORDINATOR_CORE_PLACEMENT_CANDIDATES_H
#define COORDINATOR_CORE_PLACEMENT_CANDIDATES_H

#include "coordinator/core/placement/matching.h"

struct core;
struct planning;

/* Return whether the device is a candidate of the request. */
bool candidates_has(const struct core *core, const struct placement_request *request,
                    const struct device_slot *device);
/* List the candidates in core->candidate. Return their count. */
size_t candidates_list(struct core *core, const struct placement_request *request);
/* The candidates of a request, without a list. */
struct candidates_sum {
    size_t count;
    size_t servers, workers; /* candidates with the labels that the job requests of each */
    size_t places;           /* servers that the job names and that are candidates */
    uint64_t bytes;          /* sum of the free memory of all candidates */
    uint64_t most_bytes;     /* largest free memory of one worker */
};
struct candidates_sum candidates_there(const struct core *core,
                                       const struct placement_request *request);
/* Return whether there are as many candidates of each kind as the job requests. */
bool candidates_suffice(const struct job_spec *spec, const struct candidates_sum *there);
/* Begin a question: the request's job and its candidates with their times and links, without an
 * attempt. request->avoid and request->wanted are ignored. Overwrites core->candidate. */
void candidates_fill(struct core *core, const struct placement_request *request,
                     struct planning *planning);

#endif
