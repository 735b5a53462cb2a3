/* exchange_plan.h: what the assignment of a stage says about its exchange (strategy
 * parameter_server): which layers each server keeps, which blocks each worker sends, in which order
 * a server adds them, and which worker evaluates which micro-batch. Does not change within a
 * generation. Pure; allocates in exchange_plan_init only. */
#ifndef AGENT_CORE_EXCHANGE_PLAN_H
#define AGENT_CORE_EXCHANGE_PLAN_H

#include "agent/core/exchange_message.h"
#include "agent/core/exchange_task.h"
#include "base/err.h"
#include "schema/limits.h"

/* An inner node of the reduction tree above the blocks: its children's sums are in the blocks
 * `left` and `right`, that of the node takes the place of the left one. */
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
/* Its micro-batches; empty: none. */
struct reduce_range exchange_plan_share(const struct exchange_plan *plan, size_t stage);
/* Whether layers [first, end) are some, of one server. */
bool exchange_plan_server_of(const struct exchange_plan *plan, size_t first, size_t end,
                             size_t *server);
/* Whether the message is one that this stage may get from its sender, whatever has arrived. */
bool exchange_plan_expects(const struct exchange_plan *plan,
                           const struct exchange_message *message);

bool exchange_plan_evaluation_due(const struct exchange_plan *plan, int64_t version);
/* The first micro-batch of an evaluation, at or after `micro_batch`, that the stage evaluates;
 * evaluation_batches: none. They are dealt as those of a step are: in the same proportions. */
size_t exchange_plan_test(const struct exchange_plan *plan, size_t stage, size_t micro_batch);

#endif
