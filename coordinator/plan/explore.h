/* explore.h: finds the fastest stages of a problem. It first finds a good plan, from the best split
 * by the bound and by single changes. Then it tries every plan that the bound does not exclude,
 * while there is work left. For coordinator/plan/ only. Pure. */
#ifndef COORDINATOR_PLAN_EXPLORE_H
#define COORDINATOR_PLAN_EXPLORE_H

#include "coordinator/plan/search.h"

/* Find the fastest plan of [stages_min, stages_max] stages that is faster than limit_seconds, with
 * at most `work` further work. search->best.count is 0 if there is none. */
void explore_run(struct search *search, size_t stages_min, size_t stages_max, double limit_seconds,
                 double work);

#endif
