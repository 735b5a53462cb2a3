/* scatter.h: how much the step time of a job varies without a change of the plan: other programs, a
 * quota, links that others use. A gain within the scatter is not significant. A single jump, a
 * drift, hardly counts in the median. Pure. */
#ifndef COORDINATOR_CORE_GENERATION_SCATTER_H
#define COORDINATOR_CORE_GENERATION_SCATTER_H

#include <stddef.h>
#include <stdint.h>

#define SCATTER_KEPT 16 /* number of changes in the median */
#define SCATTER_LEAST 5 /* least changes for a valid median */
#define SCATTER_MS 2000 /* the shortest time between two values */

/* All zero before the first plan. */
struct scatter {
    double before; /* seconds of a step; 0: none of this plan */
    int64_t due_ms;
    double change[SCATTER_KEPT]; /* changes of the logarithm of the step time; a ring */
    uint64_t count;
};

/* Begin another plan, whose step time is not comparable with earlier ones. */
void scatter_begin(struct scatter *scatter, int64_t now_ms);
/* Take the median seconds of the last steps; 0: unknown. */
void scatter_take(struct scatter *scatter, double seconds, int64_t now_ms);
/* Return the median change between two consecutive values, as a share; 0: not known yet. */
double scatter_share(const struct scatter *scatter);

#endif
