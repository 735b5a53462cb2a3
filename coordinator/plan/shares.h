/* shares.h: divides the micro-batches of a step among workers, in contiguous ranges, to minimise
 * the time of the slowest worker. A worker's time need not rise with its share: a share of 8 can be
 * one block, one of 7 is three (libtrain/model/reduce.h). So no rule that adds micro-batches one by
 * one is exact. Our own derivation. Pure; nothing allocates after shares_scratch_new. */
#ifndef COORDINATOR_PLAN_SHARES_H
#define COORDINATOR_PLAN_SHARES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "libtrain/model/reduce.h"

#define SHARES_WORKERS_MAX 32

struct shares_problem {
    size_t worker_count; /* 1 to SHARES_WORKERS_MAX; their ranges follow each other in this order */
    size_t micro_batches; /* 1 to REDUCE_COUNT_MAX */
    /* Seconds of a worker for a nonempty share; INFINITY: the worker cannot compute it. */
    double (*seconds)(void *arg, size_t worker, struct reduce_range share);
    void *arg;
    /* By worker: n micro-batches take at least least_seconds + (n - 1) * each_seconds, which saves
     * calls of `seconds`. NULL: 0. */
    const double *least_seconds, *each_seconds;
    const bool *needed; /* by worker: its share must not be empty; NULL: any may be */
    size_t grain;       /* shares begin at multiples of it; 0 counts as 1. A power of 2 keeps blocks
                           whole. The search takes 1 / grain^2 of the time */
    double limit_seconds; /* only shares that take less count; INFINITY: all */
};

/* Memory of the search: times by worker and micro-batch. */
struct shares_scratch;
NODISCARD int shares_scratch_new(struct shares_scratch **out, struct err *err);
void shares_scratch_free(struct shares_scratch **scratch);

/* Find the shares with the least seconds of the slowest worker.
 *
 *     share  out: [worker_count], written if there is an answer
 *
 * Returns these seconds; INFINITY if there is no answer below the limit. A worker gets a share only
 * if that is faster than leaving it without.
 * With F(w, b) the least seconds in which the first w workers compute [0, b):
 *
 *     F(w, b) = min over a of max(F(w - 1, a), seconds of worker w for [a, b))
 *
 * Exact for this order of workers and grain. O(worker_count * (micro_batches / grain)^2). */
double shares_solve(const struct shares_problem *problem, struct shares_scratch *scratch,
                    struct reduce_range *share);

#endif
