/* pace.h: means of the step times of a job. If a device computes in time slices, most steps take
 * less than the mean and a few take much more, so the median does not show its speed. Pure. */
#ifndef COORDINATOR_CORE_GENERATION_PACE_H
#define COORDINATOR_CORE_GENERATION_PACE_H

#include <stdint.h>

#define PACE_SPAN_SECONDS 0.3 /* a control group's quota is for 0.1 s */
#define PACE_SPAN_STEPS 2
#define PACE_FIRST_STEPS 2 /* in which memory is written for the first time */

/* Consecutive steps. */
struct pace_span {
    double seconds;
    int64_t steps;
};

/* All zeros: no steps. */
struct pace {
    struct pace_span newest, before; /* newest becomes before with enough time and enough steps */
    struct pace_span settled;        /* all steps but the first PACE_FIRST_STEPS */
    int64_t first_steps;             /* how many of those there were */
};

void pace_add(struct pace *pace, double seconds);
/* Return the mean of one to two spans; 0: no steps. */
double pace_mean(const struct pace *pace);
/* Return the mean of all steps but the first PACE_FIRST_STEPS; 0: no such steps. */
double pace_settled_mean(const struct pace *pace);

#endif
