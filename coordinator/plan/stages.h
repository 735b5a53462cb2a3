/* stages.h: the cost of stages on their devices, and the step time of given stages. For
 * coordinator/plan/ only. Pure. */
#ifndef COORDINATOR_PLAN_STAGES_H
#define COORDINATOR_PLAN_STAGES_H

#include "coordinator/plan/partition.h"

/* Plans whose times differ by less, relatively, are equally fast: the rest is rounding. */
#define STAGES_EQUAL 1e-12

/* Sums over the units before u. */
struct stage_sums {
    double forward[PARTITION_UNITS_MAX + 1], backward[PARTITION_UNITS_MAX + 1],
        update[PARTITION_UNITS_MAX + 1];
};

struct stages {
    const struct partition_problem *problem;
    struct stage_sums sums[PARTITION_DEVICES_MAX]; /* by device */
};

/* Prepare the sums. The problem must outlive `stages`. */
void stages_init(struct stages *stages, const struct partition_problem *problem);
/* Play the stages (end[device_count]) event by event and add the work to *work. false: a stage does
 * not fit into memory. */
bool stages_play(const struct stages *stages, const size_t *end, struct partition_plan *out,
                 double *work);

/* Plain comparisons are inlined; fmin and fmax are calls, because they handle NaN. */
static inline double stages_max(double a, double b)
{
    return a > b ? a : b;
}

static inline double stages_min(double a, double b)
{
    return a < b ? a : b;
}

/* Sums over the units [first, end) on a device; inline because a search needs millions. */
static inline double stages_sum(const double *sum, size_t first, size_t end)
{
    return stages_max(sum[end] - sum[first], 0);
}

static inline double stages_work_seconds(const struct stages *stages, size_t device, size_t first,
                                         size_t end)
{
    const struct stage_sums *sums = &stages->sums[device];
    return stages_sum(sums->forward, first, end) + stages_sum(sums->backward, first, end);
}

static inline double stages_update_seconds(const struct stages *stages, size_t device, size_t first,
                                           size_t end)
{
    return stages_sum(stages->sums[device].update, first, end);
}

/* Return the seconds to send the tensor after unit end - 1 to the next device, without latency. */
static inline double stages_send_seconds(const struct stages *stages, size_t device, size_t end)
{
    const struct partition_problem *problem = stages->problem;
    return (double)problem->border_bytes[end - 1] / problem->link[device].bytes_per_second;
}

static inline uint64_t stages_memory(const struct stages *stages, size_t device, size_t first,
                                     size_t end, size_t in_flight)
{
    const struct partition_problem *problem = stages->problem;
    return problem->stage_memory(problem->arg, device, first, end, in_flight);
}

#endif
