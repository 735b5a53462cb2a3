/* stages.h: what a stage and the link after it cost on a kind of device, and stages as input of the
 * timeline. For coordinator/plan/ only. Pure. */
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

/* A link as a boundary's tensor sees it. */
struct crossing {
    /* For which the tensor occupies its direction of the link: until it is answered. */
    double forward_seconds, backward_seconds;
    double latency_seconds; /* of these: without data, half of it before, half for the answer */
    double after_seconds; /* from then on until it is used; below 0: it arrives before its answer */
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

/* Forward and backward of one micro-batch, without what its tensors cost the device. */
static inline double stages_units_seconds(const struct kinds *kinds, size_t row, size_t first,
                                          size_t end)
{
    const struct kind_sums *sums = &kinds->sums[row];
    return stages_sum(sums->forward, first, end) + stages_sum(sums->backward, first, end) +
           kinds->kind[row].overhead_seconds;
}

/* What tensors of wire_bytes cost a device that receives or sends them, both ways. */
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
/* Return the codec with which the boundary is crossed in the shortest time. */
size_t stages_codec(const struct kinds *kinds, const struct link_speed *link, size_t first,
                    size_t end);
/* Fill stage[layout->count] but for the in-flight limits. */
void stages_fill(const struct kinds *kinds, const struct layout *layout,
                 struct timeline_stage *stage);
/* Return the memory of stage `index` of a layout. */
uint64_t stages_memory(const struct kinds *kinds, const struct layout *layout, size_t index,
                       size_t in_flight);

/* How a stage bounds the step (bound.h): it adds to what precedes the later stages. */
struct stage_bound {
    double before; /* the time before the next stage, once forth and back */
    double most;   /* the longest stage or link so far */
};

/* What a stage adds to a step. */
struct stage_cost {
    double work_seconds;   /* forward and backward of one micro-batch */
    double update_seconds; /* per step */
    bool first;            /* its update ends a step */
};

/* Add a stage and its crossing (NULL: the last stage). Where steps overlap, a step is no shorter
 * than the work of a stage, and than a tensor takes on its link. */
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

/* Return a bound of these stages, with everything that is known of them. */
double stages_bound(const struct partition_problem *problem, const struct timeline_stage *stage,
                    size_t count);
/* Return the fewest micro-batches in flight in stage `index` with which a step may be shorter than
 * limit_seconds. */
size_t stages_in_flight(const struct partition_problem *problem, const struct timeline_stage *stage,
                        size_t count, size_t index, double limit_seconds);

#endif
