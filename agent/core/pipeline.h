/* pipeline.h: the stage protocol of one generation: which tensor of a neighbour a stage accepts
 * into which slot, what the compute thread does next, when a send buffer is free again, where the
 * stage stops. Holds no tensors and does no arithmetic: slots and buffers are indices into arrays
 * of the owner. Pure; not locked: its owner (agent/pipeline/stage) guards it for receiver, senders
 * and compute thread.
 *
 * Work of a step: schedule.h (1F1B). Where steps overlap, the pipeline drains only at evaluations,
 * at stops and at the end of the job. After a step with an evaluation, the test set passes through
 * the pipeline in micro-batches before the next step begins. Everything is keyed by (kind, step,
 * micro_batch), so repeats are harmless (transfer.h, slots.h).
 *
 * If a job clips its gradients by their norm, no stage updates before it has the sum of squares of
 * all gradients. The sum starts at the last stage; each stage adds its own after its backward
 * passes and passes it to the previous stage; the total of stage 0 travels back to the last stage.
 *
 * If evaluations may end the job (early_stop.h), no step begins before the last evaluation is
 * judged: its metric travels from the last stage back to stage 0. Each stage judges it by the same
 * rule after the same evaluations, so all stages determine the same last step.
 *
 * Rounds of replication: rounds.h. Stage 0 marks the activations of a step, and each stage takes a
 * snapshot at its own update of that step.
 *
 * Stopping: stage 0 finishes the last step t that it began and sends an empty activation marked
 * `last` after the last micro-batch of t (micro_batch = micro_batches); each stage finishes t and
 * passes the mark on. Where steps overlap, a stage passes it on as soon as its forward pass of t is
 * done: the next stage may still wait for a further batch. A stop abandons an evaluation that is
 * due at t; the generation that resumes from t repeats it. The evaluation at the end of the job is
 * never abandoned. */
#ifndef AGENT_CORE_PIPELINE_H
#define AGENT_CORE_PIPELINE_H

#include "agent/core/orders.h"
#include "agent/core/pipeline_task.h"
#include "agent/core/slots.h"
#include "agent/core/transfer.h"
#include "base/err.h"
#include "schema/heartbeat.h"

struct pipeline;

/* ERR_INVALID when the numbers do not fit together; ERR_MEMORY. */
NODISCARD int pipeline_new(const struct pipeline_config *config, struct pipeline **out,
                           struct err *err);
void pipeline_free(struct pipeline **pipeline);

/* ---- received tensors ---- */

enum transfer_verdict pipeline_offer(struct pipeline *pipeline, const struct transfer *transfer,
                                     struct slot_claim *claim);
/* Return whether the claim is still valid (a newer connection may have taken over the slot). */
bool pipeline_holds(const struct pipeline *pipeline, const struct transfer *transfer,
                    const struct slot_claim *claim);
/* Note that the slot is filled. false: the slot was taken over; nothing changed. */
bool pipeline_received(struct pipeline *pipeline, const struct transfer *transfer,
                       const struct slot_claim *claim);
/* Free the slot because the body did not arrive, if the claim is still valid. */
void pipeline_abandon(struct pipeline *pipeline, const struct transfer *transfer,
                      const struct slot_claim *claim);
/* Note that the previous stage stopped at `step`. */
void pipeline_mark(struct pipeline *pipeline, int64_t step);

/* ---- work ---- */

/* Begin work (phase run). Tensors that arrive earlier are accepted and wait. */
void pipeline_run(struct pipeline *pipeline);
/* Stop at the next step boundary. Only stage 0 acts on it. */
void pipeline_stop(struct pipeline *pipeline);
/* Hold or release the stage: while held, no step begins, because the coordinator has been away for
 * too long. Overlapping steps that have begun may wait for later steps, and continue when those
 * begin. */
void pipeline_hold(struct pipeline *pipeline, bool held);
/* Hold or release the stage for a reason of its own. */
void pipeline_rest(struct pipeline *pipeline, bool rests);
/* Follow the orders: run, stop, hold, away. */
void pipeline_follow(struct pipeline *pipeline, const struct orders *orders);

/* Set whether the coordinator is away. While it is, no round is opened. */
void pipeline_away(struct pipeline *pipeline, bool away);
/* Take the coordinator's answer about the reported rounds, by enum replica_kind. */
void pipeline_take_rounds(struct pipeline *pipeline, const struct round round[REPLICA_KINDS]);
/* Stage 0: return the version of the open round; 0: none. */
int64_t pipeline_round(const struct pipeline *pipeline, enum replica_kind kind);
/* Report the open rounds. */
void pipeline_report(const struct pipeline *pipeline, struct heartbeat *out);

/* Take the next task; WAIT if there is none now, and always after STOP. One task at a time. */
enum pipeline_work pipeline_next(struct pipeline *pipeline, struct pipeline_task *task);
/* Return why the last pipeline_next returned no task. */
enum pipeline_wait pipeline_waits(const struct pipeline *pipeline);
/* Note that the task is done: its input slots are free, and its output buffer waits for
 * pipeline_sent. */
void pipeline_done(struct pipeline *pipeline, const struct pipeline_task *task);
/* Return the tensor that the task produces for a neighbour, in the send buffer task->output of its
 * lane (a stop mark has no buffer). false: none. */
bool pipeline_output(const struct pipeline *pipeline, const struct pipeline_task *task,
                     struct transfer *out);
/* Free the buffer because the neighbour has the tensor. */
void pipeline_sent(struct pipeline *pipeline, enum transfer_kind kind, size_t output);

/* Return the last version that this stage has applied. */
int64_t pipeline_version(const struct pipeline *pipeline);
/* Return whether the task STOP was done. */
bool pipeline_stopped(const struct pipeline *pipeline);

#endif
