/* timeline.h: plays the synchronous 1F1B schedule of a plan event by event (libtrain/schedule
 * decides what a stage does next, so what is predicted is what agents do) and says how long a step
 * takes in the steady state. Mathematics only. Pure. */
#ifndef COORDINATOR_PLAN_TIMELINE_H
#define COORDINATOR_PLAN_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>

#include "coordinator/plan/partition.h"

/* No stage holds more micro-batches than this between forward and backward. */
#define TIMELINE_IN_FLIGHT_MAX 64
/* Steps played, and how many of them at the start are not counted: the pipeline fills. */
#define TIMELINE_STEPS 5
#define TIMELINE_WARMUP_STEPS 2
/* More micro-batches than this are not played: each adds the same time as the ones before it, so
 * the rest is extrapolated from the second half of these. */
#define TIMELINE_MICRO_BATCHES_MAX 256

struct timeline_stage {
    double forward_seconds, backward_seconds; /* per micro-batch */
    double update_seconds;                    /* per step */
    size_t in_flight;                         /* 1 .. TIMELINE_IN_FLIGHT_MAX */
    /* To the next stage; each direction is a link of its own that carries one tensor at a time.
     * Unused on the last stage. */
    double send_forward_seconds, send_backward_seconds;
    double latency_seconds;
};

struct timeline_result {
    double step_seconds;                /* steady state: mean of the later steps played */
    double busy[PARTITION_DEVICES_MAX]; /* share of the step each stage computes */
};

/* stage[stage_count], stage_count in [1, PARTITION_DEVICES_MAX], micro_batches >= 1. clips_norm: no
 * stage updates before it has the norm of all gradients: numbers, which take a link's latency each,
 * go from the last stage to the first and back. Deterministic, O(steps * micro_batches * stages^2).
 * No allocation. */
void timeline_play(const struct timeline_stage *stage, size_t stage_count, size_t micro_batches,
                   bool clips_norm, struct timeline_result *out);
/* Micro-batches that it plays on stages, over all. */
double timeline_work(size_t stage_count, size_t micro_batches);

#endif
