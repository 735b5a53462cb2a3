/* exchange.h: the protocol of one generation of the strategy parameter_server, for a device that is
 * worker, server or both. It decides which request of another stage the device accepts and into
 * which buffer, what its compute thread does next, which requests it sends, when parked requests
 * are answered, and at which step it stops. Holds no tensors and does no arithmetic. Pure; not
 * locked: its owner guards it for receiver, senders and compute thread. Allocates in exchange_new
 * only.
 *
 * One step t, version t - 1 is applied:
 * 1. A worker pulls that version segment by segment. A server parks a request until it has applied
 *    the version.
 * 2. The worker pushes the sum of each block in backward order, while later blocks are computed.
 * 3. It sends the last segment of the step only after everything else was acknowledged. With it the
 *    lead gets `done` and the losses.
 * 4. When all workers are done, the lead commits t and notifies the other servers, with the mark of
 *    the replication round. Servers exchange norms if the job clips, update, and answer the parked
 *    requests.
 * 5. Stop: the lead fixes its newest commit as the last version. Servers finish it, workers discard
 *    the step in progress.
 *
 * The parts: exchange_plan.h (the assignment), exchange_worker.h, exchange_server.h,
 * exchange_lead.h, exchange_pulls.h (parked requests), exchange_arrivals.h (receive buffers),
 * exchange_message.h, exchange_task.h.
 *
 * A device that is both worker and server sends messages to itself (from = to). The owner delivers
 * them like any other message, without a network. Where worker and server share an arena, no copy
 * is needed: the server updates after its worker is done with the step. */
#ifndef AGENT_CORE_EXCHANGE_H
#define AGENT_CORE_EXCHANGE_H

#include "agent/core/exchange_message.h"
#include "agent/core/exchange_task.h"
#include "agent/core/orders.h"
#include "base/err.h"

struct exchange;

/* ERR_INVALID when the numbers do not fit together; ERR_MEMORY. */
NODISCARD int exchange_new(const struct exchange_config *config, struct exchange **out,
                           struct err *err);
void exchange_free(struct exchange **exchange);

/* ---- requests of other stages ---- */

/* Offer a message with data: CONTRIBUTION, RESULT, NORM, NORM_TOTAL. */
enum exchange_verdict exchange_offer(struct exchange *exchange,
                                     const struct exchange_message *message,
                                     struct exchange_claim *claim);
/* Return whether the claim is still valid (a newer connection may have taken its place). */
bool exchange_holds(const struct exchange *exchange, const struct exchange_message *message,
                    const struct exchange_claim *claim);
/* Note that the data is in the buffer. STORED; NOT_YET: the claim was taken over and nothing
 * changed; OUTDATED: a stop has discarded the step; REFUSE: the message says `done`, but data of
 * the step is missing. */
enum exchange_verdict exchange_received(struct exchange *exchange,
                                        const struct exchange_message *message,
                                        const struct exchange_claim *claim);
/* Free the buffer because the data did not arrive, if the claim is still valid. */
void exchange_abandon(struct exchange *exchange, const struct exchange_message *message,
                      const struct exchange_claim *claim);
/* Take a COMMIT. STORED, NOT_YET, OUTDATED or REFUSE. */
enum exchange_verdict exchange_commit(struct exchange *exchange,
                                      const struct exchange_message *message);
/* Take a request for PARAMETERS. PARK: exchange_next_answer returns the answer later, with
 * `handle`, a number chosen by the owner. NOT_YET: this worker has too many parked requests. */
enum exchange_verdict exchange_pull(struct exchange *exchange,
                                    const struct exchange_message *message, uint64_t handle);
/* Take the next answer to a parked request, which is then no longer parked. Call it after each
 * change. */
bool exchange_next_answer(struct exchange *exchange, struct exchange_answer *out);
/* Forget a parked request because its connection is closed. */
void exchange_forget(struct exchange *exchange, uint64_t handle);
/* Return whether the parameters of a served request may still be read: no update has begun. After
 * that, only a repeat can still be reading, whose first answer was lost. */
bool exchange_serves(const struct exchange *exchange, const struct exchange_message *message);

/* ---- requests to other stages ---- */

/* Take the next message to send; false: none now. After a lost answer, 503 and (PARAMETERS) 409,
 * its sender repeats it until the receiver has it or exchange_wants returns false. 422: the run has
 * failed. */
bool exchange_next_message(struct exchange *exchange, struct exchange_message *out);
/* Return whether the message still needs to arrive. */
bool exchange_wants(const struct exchange *exchange, const struct exchange_message *message);
/* CONTRIBUTION: return the first of its layers that may be sent now; message->end: none. Unless the
 * segments stream (exchange_segments), all layers may be sent at once. */
size_t exchange_sendable(const struct exchange *exchange, const struct exchange_message *message);
/* CONTRIBUTION: return whether its sums are final, but its last layer must wait until everything
 * else has arrived. */
bool exchange_withholds(const struct exchange *exchange, const struct exchange_message *message);
/* PARAMETERS: note that the request's layers before `end` are in the worker's arena. A part of a
 * request counts only if the segments stream. */
void exchange_pulled(struct exchange *exchange, const struct exchange_message *message, size_t end);
/* PARAMETERS: note the server's answer that `version` is the last one. false: it cannot be the
 * last. */
bool exchange_ended(struct exchange *exchange, const struct exchange_message *message,
                    int64_t version);
/* Other kinds: note that the receiver has stored the message (204) or finds it outdated (409). */
void exchange_sent(struct exchange *exchange, const struct exchange_message *message);

/* ---- control ---- */

/* Follow the orders: run, stop, hold, away. Requests that arrive before the stage runs are accepted
 * and wait. Only the lead acts on a stop. A held stage begins no step: a worker begins no forward
 * pass, a server answers no request for a step. While the coordinator is away, the lead opens no
 * round. */
void exchange_follow(struct exchange *exchange, const struct orders *orders);
/* Lead: take the coordinator's answer about the reported rounds, by enum replica_kind. */
void exchange_take_rounds(struct exchange *exchange, const struct round round[REPLICA_KINDS]);
/* Lead: report open rounds and the judged evaluations. */
void exchange_report(const struct exchange *exchange, struct heartbeat *out);

/* ---- work ---- */

/* Take the next task; WAIT if there is none now, and always after STOP. One task at a time. A
 * server's tasks come first, because workers wait for them. */
enum exchange_work exchange_next(struct exchange *exchange, struct exchange_task *task);
/* Return why the last exchange_next returned no task. */
enum exchange_wait exchange_waits(const struct exchange *exchange);
/* BEGIN: set the segments of the step, before exchange_done. ERR_INVALID when they do not fit the
 * plan. */
NODISCARD int exchange_begin(struct exchange *exchange, const struct exchange_segments *segments,
                             struct err *err);
/* Note, during a BACKWARD that ends its block, that the sums of the layers from `layer` on are
 * final. Optional: exchange_done implies it for all layers. */
void exchange_summed(struct exchange *exchange, size_t layer);
/* Note that the task is done. */
void exchange_done(struct exchange *exchange, const struct exchange_task *task);

/* Return the last version that a server has applied; on other stages the last one that they know
 * of. */
int64_t exchange_version(const struct exchange *exchange);
/* Return the version at which the generation ends; INT64_MAX while it is not known. */
int64_t exchange_last(const struct exchange *exchange);
/* Return whether the task STOP was done. After it the stage still answers requests and sends
 * messages. */
bool exchange_stopped(const struct exchange *exchange);

#endif
