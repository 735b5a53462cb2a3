/* explore.h: the fastest stages of a problem. First a good plan, by the best split of the bound and
 * by changes of one thing at a time; then every plan that the bound does not exclude, as long as
 * there is work left. For coordinator/plan/ only. Pure. */
#ifndef COORDINATOR_PLAN_EXPLORE_H
#define COORDINATOR_PLAN_EXPLORE_H

#include "coordinator/plan/search.h"

/* Find the fastest plan of [stages_min, stages_max] stages that is faster than limit_seconds, with
 * `work` more work. search->best.count is 0 if there is none. */
void explore_run(struct search *search, size_t stages_min, size_t stages_max, double limit_seconds,
                 double work);

#endif
