/* pipeline.h: the stage protocol of one generation: which tensor from a neighbour may be taken into
 * which slot, what the compute thread does next, when buffers are free again, where the stage
 * stops. Holds no tensors and does no arithmetic: slots and buffers are indices into arrays that
 * the caller owns. Pure; not locked: its owner (agent/runtime/stage) guards it, as the receiver,
 * the senders and the compute thread all ask it.
 *
 * Work of a step: schedule.h (1F1B). After a step that wants one, the test set passes through the
 * pipeline in micro-batches; the next step begins behind it. Everything is keyed by (kind, step,
 * micro_batch), so repeats are harmless.
 *
 * Where a job's gradients are clipped by their norm, no stage updates before it has the sum of
 * squares of all of them: it begins on the last stage, each adds its own when its backward passes
 * are done and hands it to the one before, and what stage 0 comes to, the total, travels back to
 * the last.
 *
 * Rounds of replication: when stage 0 begins a step it decides whether one is due (at most one of
 * each kind is open, none is opened while the coordinator is away) and marks the step's
 * activations; each stage finds the mark at its own update of that step and takes a snapshot there.
 * A round ends when the coordinator has said so (pipeline_close_round), or with the generation.
 *
 * Stopping: stage 0 finishes the last step t that it began and tells the next stage by an empty
 * activation behind the last micro-batch of t (micro_batch = micro_batches), marked `last`; each
 * stage finishes t and tells the next one. An evaluation that is due at t is given up then and made
 * up for by the generation that resumes from t; the one at the end of the job is never given up. */
#ifndef AGENT_CORE_PIPELINE_H
#define AGENT_CORE_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum transfer_kind {
    TRANSFER_ACTIVATION,
    TRANSFER_GRADIENT,
    TRANSFER_EVALUATION,
    TRANSFER_NORM,       /* the sum of squares so far */
    TRANSFER_NORM_TOTAL, /* the whole one, on its way back */
};
extern const char *const transfer_kind_names[]; /* the word in the path; ends with NULL */

/* Whether it goes to the stage before; the others go to the next one. */
static inline bool transfer_goes_back(enum transfer_kind kind)
{
    return kind == TRANSFER_GRADIENT || kind == TRANSFER_NORM;
}

/* Whether it is one number, of a step rather than of a micro-batch, which is 0 then. */
static inline bool transfer_is_sum(enum transfer_kind kind)
{
    return kind == TRANSFER_NORM || kind == TRANSFER_NORM_TOTAL;
}

/* Receive slots of numbers. */
enum sum_slot { SUM_SLOT_NORM, SUM_SLOT_TOTAL };
#define SUM_SLOTS 2

/* Where the snapshots of a round go. */
enum replica_kind { REPLICA_NEIGHBOR, REPLICA_CENTER };
#define REPLICA_KINDS 2
#define REPLICA_MARK(kind) (1u << (kind))

/* What stage 0 says with a step's activations. */
#define ROUND_KEEP_MAX 3
struct round_mark {
    unsigned
        kinds; /* the rounds that the step's snapshot is for: REPLICA_MARK of each; 0: no mark */
    /* With a mark: older versions of this generation that are needed, as stage 0 knows from the
     * coordinator: the newest committed one and those of open rounds; 0: none. Others were
     * abandoned: a device that is short of room may let them go. */
    int64_t keep[ROUND_KEEP_MAX];
};

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
    size_t previous_in_flight; /* of the stage before (0 for stage 0): activation slots, gradient
                                  buffers */
    int64_t resume_version;    /* the state the stage starts from */
    int64_t total_steps;       /* where it stops by itself */
    int64_t evaluate_every;    /* steps between two evaluations; 0: never */
    size_t evaluation_batches; /* micro-batches of the test set; 0: never */
    bool clips_norm;           /* every update waits for the total */
    /* Stage 0: steps between two rounds of each kind; 0: never (neighbor: also when there is none).
     * The first step of a generation that resumes a state opens a neighbor round as well:
     * redundancy comes back at once. */
    int64_t round_every[REPLICA_KINDS];
};

struct pipeline;

/* ERR_INVALID when the numbers do not fit together; ERR_MEMORY. */
NODISCARD int pipeline_new(const struct pipeline_config *config, struct pipeline **out,
                           struct err *err);
void pipeline_free(struct pipeline **pipeline);

/* ---- tensors that come in ---- */

enum pipeline_verdict {
    PIPELINE_TAKE,      /* reserved: write into the slot, then pipeline_received */
    PIPELINE_MARK,      /* the stop mark: there is no data; pipeline_mark */
    PIPELINE_DUPLICATE, /* it is here already or was used: say yes, forget the body */
    PIPELINE_FULL,      /* its slot is still in use: wait */
    PIPELINE_REFUSE,    /* no tensor of this generation and stage */
};

/* A reservation. The newest one for a tensor wins: an earlier connection that died half way does
 * not block its repeat.
 */
struct pipeline_claim {
    size_t slot;
    uint64_t number;
    struct round_mark
        mark; /* an activation's, none after pipeline_offer: set it before pipeline_received */
};

enum pipeline_verdict pipeline_offer(struct pipeline *pipeline, const struct transfer *transfer,
                                     struct pipeline_claim *claim);
/* Whether the reservation still stands (it may have been taken over). */
bool pipeline_holds(const struct pipeline *pipeline, const struct transfer *transfer,
                    const struct pipeline_claim *claim);
/* The slot is filled. false: the reservation was taken over; nothing happened. */
bool pipeline_received(struct pipeline *pipeline, const struct transfer *transfer,
                       const struct pipeline_claim *claim);
/* The body did not arrive: the slot is free again, if the reservation still stands. */
void pipeline_abandon(struct pipeline *pipeline, const struct transfer *transfer,
                      const struct pipeline_claim *claim);
/* The stage before stopped at `step`. */
void pipeline_mark(struct pipeline *pipeline, int64_t step);

/* ---- work ---- */

enum pipeline_work {
    PIPELINE_WAIT,
    PIPELINE_FORWARD,
    PIPELINE_BACKWARD,
    PIPELINE_SUM, /* add the stage's squares to those in SUM_SLOT_NORM (last stage: to 0): on stage
                   * 0 that is the total
                   */
    PIPELINE_TOTAL, /* pass on the total in SUM_SLOT_TOTAL */
    PIPELINE_UPDATE,
    PIPELINE_EVALUATE,
    PIPELINE_STOP, /* the state is version `step`, for good */
};

/* What to do. Slots of the compute library and of the buffers that a task uses; those that it does
 * not use are 0. */
struct pipeline_task {
    enum pipeline_work work;
    int64_t step; /* EVALUATE and STOP: the version */
    size_t micro_batch;
    size_t slot;  /* FORWARD, BACKWARD: the library's activation slot; stage 0: its input buffer */
    size_t input; /* the receive slot of the activation; BACKWARD frees it (not on stage 0) */
    size_t gradient; /* BACKWARD: the receive slot of the gradient (not on the last stage) */
    size_t output;   /* the send buffer: FORWARD, EVALUATE (not on the last stage), BACKWARD (not on
                        stage 0) */
    bool announce;   /* STOP: tell the next stage by a mark */
    bool evaluation_ends; /* EVALUATE: the last micro-batch */
    struct round_mark
        mark; /* FORWARD: goes with the activation; UPDATE: take a snapshot of `step` for it */
    bool opens_round; /* FORWARD: the first of a step for which stage 0 has just opened a round */
};

/* Let work begin (phase run). Before it, early tensors are taken, and wait. */
void pipeline_run(struct pipeline *pipeline);
/* Stop at the next border (told by the coordinator; decides on stage 0 only). */
void pipeline_stop(struct pipeline *pipeline);
/* While held, no step is begun: the coordinator has been away for too long. */
void pipeline_hold(struct pipeline *pipeline, bool held);

/* While the coordinator is away no round is opened. */
void pipeline_away(struct pipeline *pipeline, bool away);
/* The coordinator does not want rounds of that kind for now, or wants them again. */
void pipeline_pause_round(struct pipeline *pipeline, enum replica_kind kind, bool paused);
/* The round of that version is committed or abandoned; nothing when another one, or none, is open.
 */
void pipeline_close_round(struct pipeline *pipeline, enum replica_kind kind, int64_t version,
                          bool committed);
/* Stage 0: the version of the open round, 0: none. */
int64_t pipeline_round(const struct pipeline *pipeline, enum replica_kind kind);

/* The next task; WAIT when there is none now. After STOP was given once, always WAIT. One task at a
 * time. */
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
