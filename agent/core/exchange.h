/* exchange.h: the protocol of one generation of the strategy parameter_server, for a device that is
 * worker, server or both: which request of another stage it takes and into which buffer, what its
 * compute thread does next, which requests it sends, when parked requests are answered, where it
 * stops. Holds no tensors and does no arithmetic. Pure; not locked: its owner guards it for
 * receiver, senders and compute thread. Allocates in exchange_new only.
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
 * A device that is both sends messages to itself (from = to): the owner delivers them as any other,
 * without a network. Where worker and server share an arena nothing needs to be copied: the server
 * updates after its worker is done with the step. */
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

/* A message with data: CONTRIBUTION, RESULT, NORM, NORM_TOTAL. */
enum exchange_verdict exchange_offer(struct exchange *exchange,
                                     const struct exchange_message *message,
                                     struct exchange_claim *claim);
/* Whether the claim still counts (a newer connection may have taken its place). */
bool exchange_holds(const struct exchange *exchange, const struct exchange_message *message,
                    const struct exchange_claim *claim);
/* The data is in the buffer: STORED. NOT_YET: the claim was taken over; nothing happened. OUTDATED:
 * a stop has discarded the step. REFUSE: `done`, but something is missing. */
enum exchange_verdict exchange_received(struct exchange *exchange,
                                        const struct exchange_message *message,
                                        const struct exchange_claim *claim);
/* The data did not arrive: the buffer is free again, if the claim still counts. */
void exchange_abandon(struct exchange *exchange, const struct exchange_message *message,
                      const struct exchange_claim *claim);
/* COMMIT: STORED, NOT_YET, OUTDATED or REFUSE. */
enum exchange_verdict exchange_commit(struct exchange *exchange,
                                      const struct exchange_message *message);
/* PARAMETERS. PARK: the answer comes from exchange_next_answer, with `handle`, a number of the
 * owner's. NOT_YET: this worker has too many parked requests. */
enum exchange_verdict exchange_pull(struct exchange *exchange,
                                    const struct exchange_message *message, uint64_t handle);
/* The next answer to a parked request, which no longer is one. Ask after each change. */
bool exchange_next_answer(struct exchange *exchange, struct exchange_answer *out);
/* The connection of a parked request is gone. */
void exchange_forget(struct exchange *exchange, uint64_t handle);
/* Whether the parameters of a served request may still be read: no update has begun. Only repeats
 * whose first answer was lost are still read then. */
bool exchange_serves(const struct exchange *exchange, const struct exchange_message *message);

/* ---- requests to other stages ---- */

/* The next message to send; false: none now. Its sender repeats it until the receiver has it, or
 * exchange_wants says no: after a lost answer, 503, and, of PARAMETERS, 409. 422: the run has
 * failed. */
bool exchange_next_message(struct exchange *exchange, struct exchange_message *out);
/* Whether it still matters that the message arrives. */
bool exchange_wants(const struct exchange *exchange, const struct exchange_message *message);
/* CONTRIBUTION: the first of its layers that may be sent now; message->end: none. Only a stream
 * (exchange_segments) does not begin with all of them. */
size_t exchange_sendable(const struct exchange *exchange, const struct exchange_message *message);
/* CONTRIBUTION: its sums are final, but its last layer waits until all others have arrived. */
bool exchange_withholds(const struct exchange *exchange, const struct exchange_message *message);
/* PARAMETERS: the layers before `end` of the request are in the worker's arena. A part of a request
 * counts only if it streams. */
void exchange_pulled(struct exchange *exchange, const struct exchange_message *message, size_t end);
/* PARAMETERS: the server answered that `version` is the last one. false: it cannot be. */
bool exchange_ended(struct exchange *exchange, const struct exchange_message *message,
                    int64_t version);
/* Others: the receiver has stored it (204), or it is outdated there (409). */
void exchange_sent(struct exchange *exchange, const struct exchange_message *message);

/* ---- control ---- */

/* Run, stop, hold and be away as ordered. Requests that arrive before it runs are accepted and
 * wait. A stop has an effect on the lead only. While a stage is held, it begins no step: a worker
 * no forward pass, a server answers no request for a step. While the lead is away, it opens no
 * round. */
void exchange_follow(struct exchange *exchange, const struct orders *orders);
/* Lead: the coordinator's answer about the reported rounds, by enum replica_kind. */
void exchange_take_rounds(struct exchange *exchange, const struct round round[REPLICA_KINDS]);
/* Lead: report open rounds and the judged evaluations. */
void exchange_report(const struct exchange *exchange, struct heartbeat *out);

/* ---- work ---- */

/* The next task; WAIT if there is none now, and always after STOP. One task at a time. Server's
 * tasks come first: workers wait for them. */
enum exchange_work exchange_next(struct exchange *exchange, struct exchange_task *task);
/* Why the last exchange_next had none. */
enum exchange_wait exchange_waits(const struct exchange *exchange);
/* BEGIN: the segments of the step, before exchange_done. ERR_INVALID when they do not fit the
 * plan. */
NODISCARD int exchange_begin(struct exchange *exchange, const struct exchange_segments *segments,
                             struct err *err);
/* During a BACKWARD that ends its block: the sum of the layers from `layer` on is final. Optional:
 * exchange_done says it of all. */
void exchange_summed(struct exchange *exchange, size_t layer);
/* The task is done. */
void exchange_done(struct exchange *exchange, const struct exchange_task *task);

/* Server: the last version that it has applied. Others: the last one that they know of. */
int64_t exchange_version(const struct exchange *exchange);
/* The version at which the generation ends; INT64_MAX while it is not known. */
int64_t exchange_last(const struct exchange *exchange);
/* Whether the task STOP was done. The stage still answers requests, and has messages to send. */
bool exchange_stopped(const struct exchange *exchange);

#endif
