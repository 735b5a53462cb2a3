/* schedule.h: the order of work of one stage: one state machine for both schedules.
 *
 * A stage works on micro-batches in order. An update follows every `micro_batches` of them, and the
 * pipeline runs empty after `flush` of them.
 *
 *     synchronous     flush = micro_batches: every step ends with an empty pipeline
 *     asynchronous    micro_batches = 1, flush = the batches until the next border (an evaluation,
 *                     a stop, the end of the job): between borders no stage waits for an update of
 *                     another one
 *
 * The greedy order runs backward before forward, as tensors arrive. The strict order alternates:
 * forward until in_flight micro-batches are between the two (or none is left before the flush),
 * then one backward. It depends on counts alone, so with it a stage updates between the same two
 * forward passes however tensors arrive: the asynchronous schedule needs that. The strict order
 * needs limits that never rise along the pipeline and are 1 at its end (schedule_limits_fit): with
 * (3, 4, 1) or (2, 3, 1) a stage would wait for inputs that an earlier stage may not send yet.
 *
 * The agents' pipeline and the planner's timeline ask the same function, so the planner predicts
 * exactly the order that agents follow. That is why it has a library of its own. Pure.
 *
 * Source: the 1F1B schedule with a flush per step (Narayanan et al., "Memory-efficient
 * pipeline-parallel DNN training", 2021); the guards of the strict order: FTPipeHD. */
#ifndef LIBTRAIN_SCHEDULE_SCHEDULE_H
#define LIBTRAIN_SCHEDULE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum schedule_work { SCHEDULE_WAIT, SCHEDULE_FORWARD, SCHEDULE_BACKWARD, SCHEDULE_UPDATE };

/* A flush that is not known yet. */
#define SCHEDULE_NO_FLUSH SIZE_MAX

/* Progress of a stage since its last update; micro-batches that were forwarded before that update
 * and not backwarded count as forwards. Micro-batches run in order, so counts are enough. */
struct schedule_progress {
    size_t micro_batches; /* between two updates, >= 1 */
    size_t flush;         /* micro-batches until the pipeline runs empty, or SCHEDULE_NO_FLUSH */
    bool strict;          /* alternate forward and backward; else backward as soon as possible */
    size_t in_flight;     /* limit, >= 1 */
    size_t inputs;        /* micro-batches whose input has arrived (stage 0: all of them) */
    size_t gradients; /* micro-batches whose output gradient has arrived (last stage: = forwards) */
    size_t forwards;  /* done */
    size_t backwards; /* done */
};

/* Return the next piece of work. FORWARD means micro-batch `forwards`, BACKWARD means micro-batch
 * `backwards`. After UPDATE the caller subtracts micro_batches from all counts. */
enum schedule_work schedule_next(const struct schedule_progress *progress);

/* Return the usual in-flight limit of stage `index` of `count`: count - index, at most flush. */
size_t schedule_in_flight(size_t index, size_t count, size_t flush);

/* Return whether stages with these limits, in order, never wait for each other in the strict
 * order. */
bool schedule_limits_fit(const size_t *in_flight, size_t count);

#endif
