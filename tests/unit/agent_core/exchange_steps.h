/* exchange_steps.h: the protocol of one device of strategy parameter_server driven step by step:
 * for the tests of core/exchange. The plan has 3 layers and 4 micro-batches:
 *
 *     stage 0   lead, keeps layers 0 and 1
 *     stage 1   server, keeps layer 2
 *     stage 2   worker, block 0: micro-batches 0 and 1, block 1: micro-batch 2
 *     stage 3   worker, block 2: micro-batch 3
 */
#ifndef TESTS_UNIT_AGENT_CORE_EXCHANGE_STEPS_H
#define TESTS_UNIT_AGENT_CORE_EXCHANGE_STEPS_H

#include "agent/core/exchange.h"
#include "tests/support/test.h"

enum { LEAD, SERVER, WORKER, SMALL_WORKER, STEPS_STAGES };
enum { STEPS_LAYERS = 3 };

struct exchange_config steps_config(size_t index);
struct exchange *steps_make(const struct exchange_config *config);
/* The same, running. */
struct exchange *steps_run(const struct exchange_config *config);
void steps_order(struct exchange *exchange, const struct orders *orders);

/* ---- messages to it ---- */

struct exchange_message steps_pull(size_t to, int64_t version, size_t first, size_t end);
struct exchange_message steps_contribution(size_t to, int64_t step, size_t block, size_t first,
                                           size_t end);
struct exchange_message steps_commit(size_t to, int64_t step);
/* It is taken, and arrives whole. */
void steps_deliver(struct exchange *exchange, const struct exchange_message *message);
enum exchange_verdict steps_offer(struct exchange *exchange,
                                  const struct exchange_message *message);
/* Deliver everything of a step to the server or the lead. */
void steps_deliver_all(struct exchange *exchange, size_t to, int64_t step);

/* ---- work ---- */

/* The next task is this one, and is done. */
struct exchange_task steps_do(struct exchange *exchange, enum exchange_work work);
void steps_wait(struct exchange *exchange, enum exchange_wait why);
/* BEGIN, with these segments. */
void steps_begin(struct exchange *exchange, const struct exchange_segments *segments);
/* One segment for each layer. */
struct exchange_segments steps_layers(void);
/* The worker has the parameters of the version, all of them. */
void steps_pull_all(struct exchange *exchange, int64_t version);

/* ---- messages from it ---- */

struct exchange_message steps_message(struct exchange *exchange, enum exchange_kind kind);
void steps_no_message(struct exchange *exchange);

#endif
