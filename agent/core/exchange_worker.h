/* exchange_worker.h: the worker's part of exchange.h. In each step the worker goes through the
 * states pulling, computing, pushing, done. It pulls the parameters in forward order; the first
 * micro-batch's layers run as they arrive, the others follow. The sum of a block is final layer by
 * layer in the backward pass of the block's last micro-batch; the worker pushes it in backward
 * order, blocks one after the other.
 *
 * The last request of a step goes to the lead, after everything else of the step was acknowledged:
 * the lowest layers of the last block, or an empty contribution if the lead keeps no layers. So
 * `done` means that every server has everything from this worker.
 *
 * The next step begins with its requests for parameters, while the last pushes are under way;
 * servers park them. Its sums overwrite those of the previous step, so its first forward pass waits
 * until all pushes are acknowledged. After a step with an evaluation, the worker evaluates its
 * micro-batches of the test set with the parameters of that version, then goes on to train with
 * them.
 *
 * Pure; allocates in exchange_worker_init only. */
#ifndef AGENT_CORE_EXCHANGE_WORKER_H
#define AGENT_CORE_EXCHANGE_WORKER_H

#include "agent/core/exchange_plan.h"

/* The sum of one block of the share. */
struct exchange_sum {
    int64_t step;            /* 0: none yet */
    size_t final;            /* layers from here on are final */
    size_t pushes;           /* requests that it takes */
    size_t handed, answered; /* of these */
    size_t *push_end;        /* [layers] as in exchange_requests */
};

/* A result of an evaluation on its way. */
enum exchange_result_state { RESULT_NONE, RESULT_READY, RESULT_SENDING };
struct exchange_result {
    enum exchange_result_state state;
    int64_t version;
    size_t micro_batch;
};

struct exchange_worker {
    const struct exchange_plan *plan;
    const struct exchange_course *course;
    int64_t step;                  /* the step that it pulls for or computes */
    bool begun;                    /* its segments are chosen */
    struct exchange_segments list; /* of the step; arrays of the worker */
    size_t *pull_end, *push_end;   /* these arrays: [layers], [blocks of the share][layers] */
    size_t *pulled;                /* [pulls] one past the last layer that is here */
    size_t pull_next, pulls_open;
    size_t arrived;     /* layers from the first on */
    size_t test;        /* the next micro-batch of the evaluation; evaluation_batches: none left */
    size_t micro_batch; /* the present one, */
    size_t forward;     /* its layers of the forward pass that are done */
    size_t block;       /* and its block */
    struct exchange_sum *sum; /* by block of the share */
    size_t pushes_open;
    struct exchange_result result[EXCHANGE_RESULTS];
};

/* Set up the worker. On a stage without a share it has no tasks. plan, course: borrowed.
 * ERR_MEMORY; exchange_worker_done also on failure. */
NODISCARD int exchange_worker_init(struct exchange_worker *worker, const struct exchange_plan *plan,
                                   const struct exchange_course *course, struct err *err);
void exchange_worker_done(struct exchange_worker *worker);

/* Return the next task; false: none, for the reason in *why. held: no step begins. */
bool exchange_worker_next(const struct exchange_worker *worker, bool held,
                          struct exchange_task *task, enum exchange_wait *why);
/* As exchange_begin. */
NODISCARD int exchange_worker_begin(struct exchange_worker *worker,
                                    const struct exchange_segments *segments, struct err *err);
void exchange_worker_summed(struct exchange_worker *worker, size_t layer);
void exchange_worker_end(struct exchange_worker *worker, const struct exchange_task *task);

/* Take the next request; false: none. */
bool exchange_worker_message(struct exchange_worker *worker, struct exchange_message *out);
/* As exchange_sendable. */
size_t exchange_worker_sendable(const struct exchange_worker *worker,
                                const struct exchange_message *message);
bool exchange_worker_withholds(const struct exchange_worker *worker,
                               const struct exchange_message *message);
/* Return the newest step for which the worker may have sent `done`. This can be the current step as
 * soon as its last sum is final, which is before the task is done. */
int64_t exchange_worker_done_step(const struct exchange_worker *worker);
/* As exchange_pulled and exchange_sent. */
void exchange_worker_pulled(struct exchange_worker *worker, const struct exchange_message *message,
                            size_t end);
void exchange_worker_sent(struct exchange_worker *worker, const struct exchange_message *message);

#endif
