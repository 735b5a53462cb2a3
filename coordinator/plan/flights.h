/* flights.h: finds the fastest in-flight limits of given stages. A limit never rises along the
 * pipeline: a stage holds no more micro-batches than the preceding one. The last limit is 1,
 * because backward goes first. For coordinator/plan/ only. Pure. */
#ifndef COORDINATOR_PLAN_FLIGHTS_H
#define COORDINATOR_PLAN_FLIGHTS_H

#include "coordinator/plan/stages.h"

/* The search for the limits of a layout. */
struct flights {
    const struct kinds *kinds;
    const struct layout *layout;
    struct timeline_stage stage[PARTITION_STAGES_MAX];
    size_t most[PARTITION_STAGES_MAX]; /* by memory and micro-batches */
    size_t best[PARTITION_STAGES_MAX];
    bool strict;         /* the order of work */
    double step_seconds; /* of the best; INFINITY: none faster than the limit */
    double work;
};

/* Prepare the search, in the order of the problem (PARTITION_EITHER: the greedy one). The layout
 * must outlive it. false: a stage does not fit into memory. */
bool flights_init(struct flights *flights, const struct kinds *kinds, const struct layout *layout);
/* Play the usual limits, and limits that hide links. If steps overlap, no others are tried: more
 * batches in flight cost memory and delay gradients, so they must gain 5 %. */
void flights_try(struct flights *flights);
/* Change single limits of the best while that helps and there is work left. */
void flights_improve(struct flights *flights, double work_max);
/* Play all limits that may be faster than limit_seconds. false: work_max was not enough. */
bool flights_all(struct flights *flights, double limit_seconds, double work_max);
/* Write the best as a plan, with kinds as devices. */
void flights_plan(const struct flights *flights, struct partition_plan *out);

#endif
