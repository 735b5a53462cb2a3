/* stages.h: the cost of a stage and of the link after it on a kind of device, and stages as input
 * of the timeline. For coordinator/plan/ only. Pure. */
#ifndef COORDINATOR_PLAN_STAGES_H
#define COORDINATOR_PLAN_STAGES_H

#include "coordinator/plan/kinds.h"
#include "coordinator/plan/timeline.h"

/* Stages on kinds of devices. */
struct layout {
    size_t count;
    uint16_t kind[PARTITION_STAGES_MAX];
    uint16_t end[PARTITION_STAGES_MAX];
    uint8_t codec[PARTITION_STAGES_MAX];
};

/* The transfer of a boundary's tensors over a link. */
struct crossing {
    /* The tensor occupies its direction of the link for this time, until it is answered. */
    double forward_seconds, backward_seconds;
    double latency_seconds; /* part of both: the time without data, half before arrival, half for
                               the answer */
    double after_seconds;   /* from the answer until the tensor is used; below 0: it is used before
                               the answer */
};

/* Plain comparisons are inlined; fmin and fmax are calls, because they handle NaN. */
static inline double stages_max(double a, double b)
{
    return a > b ? a : b;
}

static inline double stages_min(double a, double b)
{
    return a < b ? a : b;
}

/* Sums over the units [first, end); inline because a search needs millions. */
static inline double stages_sum(const double *sum, size_t first, size_t end)
{
    return stages_max(sum[end] - sum[first], 0);
}

/* Return the seconds of forward and backward of one micro-batch, without the device's cost of its
 * tensors. */
static inline double stages_units_seconds(const struct kinds *kinds, size_t row, size_t first,
                                          size_t end)
{
    const struct kind_sums *sums = &kinds->sums[row];
    return stages_sum(sums->forward, first, end) + stages_sum(sums->backward, first, end) +
           kinds->kind[row].overhead_seconds;
}

/* Return the seconds that tensors of wire_bytes, in both directions, cost a device which receives
 * or sends them. */
static inline double stages_bytes_seconds(const struct kinds *kinds, size_t row, double wire_bytes)
{
    return 2 * wire_bytes * kinds->kind[row].overhead_seconds_per_byte;
}

static inline double stages_update_seconds(const struct kinds *kinds, size_t row, size_t first,
                                           size_t end)
{
    return stages_sum(kinds->sums[row].update, first, end);
}

/* Return the bytes on the link of the tensor before unit `end`. */
double stages_wire_bytes(const struct kinds *kinds, size_t codec, size_t end);
/* Return the crossing of the boundary at `end` over `link`. The replicas of the stage [first, end)
 * share the link with the activations. Coding precedes sending on one thread. */
struct crossing stages_cross(const struct kinds *kinds, const struct link_speed *link, size_t codec,
                             size_t first, size_t end);
/* Return the codec with the shortest crossing of the boundary. */
size_t stages_codec(const struct kinds *kinds, const struct link_speed *link, size_t first,
                    size_t end);
/* Fill stage[layout->count], except for the in-flight limits. */
void stages_fill(const struct kinds *kinds, const struct layout *layout,
                 struct timeline_stage *stage);
/* Return the memory of stage `index` of a layout. */
uint64_t stages_memory(const struct kinds *kinds, const struct layout *layout, size_t index,
                       size_t in_flight);

/* The bound of the step by the stages so far (bound.h). Each stage adds to the time before the
 * later ones. */
struct stage_bound {
    double before; /* the time before the next stage, forward and backward */
    double most;   /* bound by the longest stage or link so far */
};

/* The cost of a stage in a step. */
struct stage_cost {
    double work_seconds;   /* forward and backward of one micro-batch */
    double update_seconds; /* per step */
    bool first;            /* its update ends a step */
};

/* Add a stage and its crossing (NULL: the last stage). If steps overlap, a step is at least as long
 * as the work of any stage and as the transfer of any tensor. */
static inline struct stage_bound stages_bound_add(const struct partition_problem *problem,
                                                  struct stage_bound bound, struct stage_cost cost,
                                                  const struct crossing *crossing)
{
    const double count = (double)problem->micro_batches;
    const double forth = crossing ? crossing->forward_seconds : 0;
    const double back = crossing ? crossing->backward_seconds : 0;
    if (problem->async) {
        double busy = stages_max(cost.work_seconds + cost.update_seconds, stages_max(forth, back));
        return (struct stage_bound){.most = stages_max(bound.most, busy)};
    }
    double most = count * cost.work_seconds, through = cost.work_seconds;
    if (crossing) {
        through += 2 * crossing->after_seconds + forth + back;
        most = stages_max(most, through + (count - 1) * stages_max(forth, back));
    }
    const double update = cost.first ? cost.update_seconds : 0;
    return (struct stage_bound){.before = bound.before + through + update,
                                .most = stages_max(bound.most, bound.before + most + update)};
}

/* Return a bound of the step with these stages, from all their known times. */
double stages_bound(const struct partition_problem *problem, const struct timeline_stage *stage,
                    size_t count);
/* Return the least in-flight limit of stage `index` for which a step may be shorter than
 * limit_seconds. */
size_t stages_in_flight(const struct partition_problem *problem, const struct timeline_stage *stage,
                        size_t count, size_t index, double limit_seconds);

#endif
