/* pipeline.h: the stage protocol of one generation: which tensor from a neighbour may be taken into which slot, what
 * the compute thread does next, when buffers are free again, where the stage stops. Holds no tensors and does no
 * arithmetic: slots and buffers are indices into arrays that the caller owns. Pure; not locked: its owner
 * (agent/runtime/stage) guards it, as the receiver, the senders and the compute thread all ask it.
 *
 * Work of a step: schedule.h (1F1B). After a step that wants one, the test set passes through the pipeline in
 * micro-batches; the next step begins behind it. Everything is keyed by (kind, step, micro_batch), so repeats are
 * harmless.
 *
 * Stopping: stage 0 finishes the last step t that it began and tells the next stage by an empty activation behind the
 * last micro-batch of t (micro_batch = micro_batches), marked `last`; each stage finishes t and tells the next one. An
 * evaluation that is due at t is given up then and made up for by the generation that resumes from t; the one at the
 * end of the job is never given up. */
#ifndef AGENT_CORE_PIPELINE_H
#define AGENT_CORE_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum transfer_kind { TRANSFER_ACTIVATION, TRANSFER_GRADIENT, TRANSFER_EVALUATION };
extern const char *const transfer_kind_names[]; /* the word in the path; ends with NULL */

/* What makes a tensor between two stages unique within a generation. */
struct transfer {
    enum transfer_kind kind;
    int64_t step;       /* evaluation: the version */
    size_t micro_batch; /* evaluation: counts through the test set */
};

struct pipeline_config {
    size_t index, count;       /* this stage of how many */
    size_t micro_batches;      /* of a step */
    size_t in_flight;          /* of this stage: gradient slots, activation buffers */
    size_t previous_in_flight; /* of the stage before (0 for stage 0): activation slots, gradient buffers */
    int64_t resume_version;    /* the state the stage starts from */
    int64_t total_steps;       /* where it stops by itself */
    int64_t evaluate_every;    /* steps between two evaluations; 0: never */
    size_t evaluation_batches; /* micro-batches of the test set; 0: never */
};

struct pipeline;

/* ERR_INVALID when the numbers do not fit together; ERR_MEMORY. */
NODISCARD int pipeline_new(const struct pipeline_config *config, struct pipeline **out, struct err *err);
void pipeline_free(struct pipeline **pipeline);

/* ---- tensors that come in ---- */

enum pipeline_verdict {
    PIPELINE_TAKE,      /* reserved: write into the slot, then pipeline_received */
    PIPELINE_MARK,      /* the stop mark: there is no data; pipeline_mark */
    PIPELINE_DUPLICATE, /* it is here already or was used: say yes, forget the body */
    PIPELINE_FULL,      /* its slot is still in use: wait */
    PIPELINE_REFUSE,    /* no tensor of this generation and stage */
};

/* A reservation. The newest one for a tensor wins: an earlier connection that died half way does not block its repeat.
 */
struct pipeline_claim {
    size_t slot;
    uint64_t number;
};

enum pipeline_verdict pipeline_offer(struct pipeline *pipeline, const struct transfer *transfer,
                                     struct pipeline_claim *claim);
/* Whether the reservation still stands (it may have been taken over). */
bool pipeline_holds(const struct pipeline *pipeline, const struct transfer *transfer,
                    const struct pipeline_claim *claim);
/* The slot is filled. false: the reservation was taken over; nothing happened. */
bool pipeline_received(struct pipeline *pipeline, const struct transfer *transfer, const struct pipeline_claim *claim);
/* The body did not arrive: the slot is free again, if the reservation still stands. */
void pipeline_abandon(struct pipeline *pipeline, const struct transfer *transfer, const struct pipeline_claim *claim);
/* The stage before stopped at `step`. */
void pipeline_mark(struct pipeline *pipeline, int64_t step);

/* ---- work ---- */

enum pipeline_work {
    PIPELINE_WAIT,
    PIPELINE_FORWARD,
    PIPELINE_BACKWARD,
    PIPELINE_UPDATE,
    PIPELINE_EVALUATE,
    PIPELINE_STOP, /* the state is version `step`, for good */
};

/* What to do. Slots of the compute library and of the buffers that a task uses; those that it does not use are 0. */
struct pipeline_task {
    enum pipeline_work work;
    int64_t step; /* EVALUATE and STOP: the version */
    size_t micro_batch;
    size_t slot;          /* FORWARD, BACKWARD: the library's activation slot; stage 0: its input buffer */
    size_t input;         /* the receive slot of the activation; BACKWARD frees it (not on stage 0) */
    size_t gradient;      /* BACKWARD: the receive slot of the gradient (not on the last stage) */
    size_t output;        /* the send buffer: FORWARD, EVALUATE (not on the last stage), BACKWARD (not on stage 0) */
    bool announce;        /* STOP: tell the next stage by a mark */
    bool evaluation_ends; /* EVALUATE: the last micro-batch */
};

/* Let work begin (phase run). Before it, early tensors are taken, and wait. */
void pipeline_run(struct pipeline *pipeline);
/* Stop at the next border (told by the coordinator; decides on stage 0 only). */
void pipeline_stop(struct pipeline *pipeline);
/* While held, no step is begun: the coordinator has been away for too long. */
void pipeline_hold(struct pipeline *pipeline, bool held);

/* The next task; WAIT when there is none now. After STOP was given once, always WAIT. One task at a time. */
enum pipeline_work pipeline_next(struct pipeline *pipeline, struct pipeline_task *task);
/* The task is done: its input slots are free, its output buffer waits for pipeline_sent. */
void pipeline_done(struct pipeline *pipeline, const struct pipeline_task *task);
/* The neighbour has it: the buffer is free. */
void pipeline_sent(struct pipeline *pipeline, enum transfer_kind kind, size_t output);

/* The last version that this stage has applied. */
int64_t pipeline_version(const struct pipeline *pipeline);
/* Whether the task STOP was done. */
bool pipeline_stopped(const struct pipeline *pipeline);

#endif
