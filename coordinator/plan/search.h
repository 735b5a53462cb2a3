/* search.h: the state of a search over kinds of devices, and the trial of single plans. For
 * coordinator/plan/ only. Pure. */
#ifndef COORDINATOR_PLAN_SEARCH_H
#define COORDINATOR_PLAN_SEARCH_H

#include "coordinator/plan/bound.h"
#include "coordinator/plan/flights.h"
#include "coordinator/plan/order.h"

/* The number of recent best layouts that are kept. */
#define SEARCH_RECENT 4

struct search {
    struct kinds kinds;
    struct bound bound;
    struct bound_passes passes;                                       /* of the explored plans */
    double order_rest[PARTITION_STAGES_MAX][PARTITION_UNITS_MAX + 1]; /* of a given order */
    double trial_rest[PARTITION_STAGES_MAX][PARTITION_UNITS_MAX + 1];
    size_t stages_min, stages_max;
    struct layout layout; /* of the depth first search */
    size_t used[PARTITION_DEVICES_MAX];
    struct layout best;                  /* count 0: none found */
    struct partition_plan plan;          /* of the best, with kinds as devices */
    struct layout recent[SEARCH_RECENT]; /* the recent best ones, as a ring: index keeps modulo
                                            SEARCH_RECENT */
    size_t keeps;
    double best_pass;     /* the longest pass of the best */
    double limit_seconds; /* only faster plans count: the time of the best, or the caller's limit */
    double lower_seconds; /* of all plans of the run */
    double work, work_max;
    bool complete; /* every plan was played or excluded */
};

/* Prepare the search of a valid problem. */
void search_init(struct search *search, const struct partition_problem *problem);
/* Return whether a plan with this step time is faster than the limit. */
bool search_faster(const struct search *search, double seconds);
/* Play a layout; it becomes the best if it is faster than the limit. thorough: with all in-flight
 * limits. Return whether it became the best. */
bool search_try(struct search *search, const struct layout *layout, bool thorough);
/* Split the units among kinds in a given order and play the plan. Return whether it became the
 * best. */
bool search_try_order(struct search *search, const uint16_t *kind, size_t count);

#endif
