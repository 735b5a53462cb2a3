/* shares.h: which micro-batches of a batch each worker computes, where servers keep the units
 * (libtrain/model/reduce.h, segments.h). Shares are contiguous. A larger share can take less time
 * than a smaller one: eight micro-batches can be one block and seven are three, and each block is
 * one push. So shares are found by an exact programme over all ranges, not by adding to the worker
 * that ends first. Our own derivation. Pure; nothing allocates. */
#ifndef COORDINATOR_PLAN_SHARES_H
#define COORDINATOR_PLAN_SHARES_H

#include <stdbool.h>
#include <stddef.h>

#include "libtrain/model/reduce.h"
#include "libtrain/model/segments.h"

#define SHARES_WORKERS_MAX 32
#define SHARES_COUNT_MAX 1024 /* micro-batches, = REDUCE_COUNT_MAX */

/* What a worker's step takes, as segments_problem: its layers and its links to their servers. */
struct shares_worker {
    struct segments_problem pull, push; /* push.busy_seconds is ignored */
    double forward_seconds;             /* of a micro-batch, all units */
    double backward_seconds;
    bool streams; /* its transfers are streams, else optimal segments */
};

/* Return the seconds of a step from the first pull to the end of the last push, by a worker that
 * computes this share of `count` micro-batches; 0 for an empty share. Pushes of earlier blocks
 * overlap with the computation of later ones. The scratch holds the worker's layers. */
double shares_worker_seconds(const struct shares_worker *worker, size_t count,
                             struct reduce_range share, struct segments_scratch *scratch);

/* Memory of the programme, for SHARES_WORKERS_MAX workers: the caller's. */
struct shares_scratch {
    double least[SHARES_WORKERS_MAX + 1][SHARES_COUNT_MAX + 1];
    unsigned short begin[SHARES_WORKERS_MAX + 1][SHARES_COUNT_MAX + 1];
};

/* Divide `count` micro-batches among workers, in this order, so that the slowest one is fastest;
 * of divisions that are equally fast, the one that leaves most workers out.
 *
 *     seconds    the seconds of a worker for a share, which is not empty; finite and not negative
 *     share      out: [workers]; empty for a worker that would only lengthen the step
 *
 * Returns the seconds of the slowest worker. O(workers * count^2) calls of `seconds`. */
double shares_solve(size_t workers, size_t count,
                    double (*seconds)(void *arg, size_t worker, struct reduce_range share),
                    void *arg, struct shares_scratch *scratch, struct reduce_range *share);

#endif
