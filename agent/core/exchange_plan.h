/* exchange_plan.h: the plan of an exchange (strategy parameter_server), from a stage's assignment:
 * which layers each server keeps, which blocks each worker sends, in which order a server adds
 * them, and which worker evaluates which micro-batch. Does not change within a generation. Pure;
 * allocates in exchange_plan_init only. */
#ifndef AGENT_CORE_EXCHANGE_PLAN_H
#define AGENT_CORE_EXCHANGE_PLAN_H

#include "agent/core/exchange_message.h"
#include "agent/core/exchange_task.h"
#include "base/err.h"
#include "schema/limits.h"

/* An inner node of the reduction tree above the blocks: the sums of its children are in the blocks
 * `left` and `right`. The node's own sum replaces the one in `left`. */
struct exchange_add {
    size_t left, right;
    struct reduce_range added; /* the right child */
};

struct exchange_plan {
    struct exchange_config config; /* `block` is the plan's own copy */
    struct exchange_block *block;
    struct exchange_add *add; /* [blocks - 1], children first */
    size_t layers;            /* of the model */
    size_t first, end;        /* layers that this stage keeps */
    struct {
        size_t first, end; /* blocks; equal: the stage has no share */
    } share[STAGES_MAX];
};

/* ERR_INVALID names the number that does not fit; ERR_MEMORY. exchange_plan_done also on
 * failure. */
NODISCARD int exchange_plan_init(struct exchange_plan *plan, const struct exchange_config *config,
                                 struct err *err);
void exchange_plan_done(struct exchange_plan *plan);

bool exchange_plan_is_lead(const struct exchange_plan *plan);
bool exchange_plan_is_server(const struct exchange_plan *plan, size_t stage);
bool exchange_plan_is_worker(const struct exchange_plan *plan, size_t stage);
/* Return the stage's share of micro-batches; empty: none. */
struct reduce_range exchange_plan_share(const struct exchange_plan *plan, size_t stage);
/* Return whether the range [first, end) is not empty and all its layers belong to one server. */
bool exchange_plan_server_of(const struct exchange_plan *plan, size_t first, size_t end,
                             size_t *server);
/* Return whether the plan allows this message from its sender to this stage, regardless of what has
 * arrived. */
bool exchange_plan_expects(const struct exchange_plan *plan,
                           const struct exchange_message *message);

bool exchange_plan_evaluation_due(const struct exchange_plan *plan, int64_t version);
/* Return the first micro-batch of an evaluation, at or after `micro_batch`, that the stage
 * evaluates; evaluation_batches: none. They are distributed in the same proportions as those of a
 * step. */
size_t exchange_plan_test(const struct exchange_plan *plan, size_t stage, size_t micro_batch);

#endif
