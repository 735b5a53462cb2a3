/* timeline.h: simulates the 1F1B schedule of a plan event by event and returns the steady step
 * time. libtrain/schedule decides the next work of a stage here and in agents, so the
 * prediction follows what agents do. Pure. */
#ifndef COORDINATOR_PLAN_TIMELINE_H
#define COORDINATOR_PLAN_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/plan/partition.h"

/* The largest in-flight limit of a stage. */
#define TIMELINE_IN_FLIGHT_MAX 64
/* Steps played, and the first steps, which do not count because the pipeline fills. */
#define TIMELINE_STEPS 5
#define TIMELINE_WARMUP_STEPS 2
/* The same where steps overlap, for each stage. */
#define TIMELINE_ASYNC_STEPS 12
#define TIMELINE_ASYNC_WARMUP_STEPS 4
/* The most micro-batches played. Each further one adds equal time, so the rest is extrapolated from
 * the second half. */
#define TIMELINE_MICRO_BATCHES_MAX 256

/* Running time by which a device may exceed its processor share before it is stopped. A quota stops
 * a thread some milliseconds after it has used up its part of a period. */
#define TIMELINE_BURST_SECONDS 0.005

struct timeline_stage {
    double forward_seconds, backward_seconds; /* per micro-batch */
    double update_seconds;                    /* per step */
    /* The processor share that the stage gets in the long run; 0: all. */
    double share;
    size_t in_flight; /* 1 .. TIMELINE_IN_FLIGHT_MAX */
    /* To the next stage. Each direction is a link that carries one tensor at a time, until it is
     * answered. Unused on the last stage. */
    double send_forward_seconds, send_backward_seconds;
    double latency_seconds; /* of a tensor without data, which arrives after half of it */
    double after_seconds;   /* from the answer until the tensor is used; below 0: used before the
                               answer */
};

struct timeline_rules {
    size_t micro_batches; /* of a step, >= 1 */
    /* Every stage waits for the norm of all gradients before its update. The parts of the norm
     * travel from the last stage to the first and back, as tensors without data. */
    bool clips_norm;
    /* The strict order (libtrain/schedule): the limits must fit (schedule_limits_fit). */
    bool strict;
    /* Steps overlap, in the strict order: the pipeline never runs empty. micro_batches is 1. */
    bool async;
};

struct timeline_result {
    double step_seconds;               /* steady state: mean of the later steps played */
    double busy[PARTITION_STAGES_MAX]; /* share of the step each stage computes or is stopped */
    uint32_t held;                     /* bit i: the in-flight limit of stage i held up a forward */
};

/* Simulate stage[stage_count], stage_count in [1, PARTITION_STAGES_MAX]. Deterministic, O(steps *
 * micro_batches * stages^2). No allocation. */
void timeline_play(const struct timeline_stage *stage, size_t stage_count,
                   const struct timeline_rules *rules, struct timeline_result *out);
/* Return the work of timeline_play: micro-batches played times stages. */
double timeline_work(size_t stage_count, const struct timeline_rules *rules);

#endif
