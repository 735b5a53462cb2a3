#include "coordinator/plan/shares.h"

#include <math.h>

#include "base/assert.h"

/* ---- a worker's step ---- */

static double transfer(const struct shares_worker *worker, const struct segments_problem *problem,
                       struct segments_scratch *scratch)
{
    size_t end[SEGMENTS_LAYERS_MAX], count;
    return worker->streams ? segments_stream(problem)
                           : segments_solve(problem, scratch, end, &count);
}

double shares_worker_seconds(const struct shares_worker *worker, size_t count,
                             struct reduce_range share, struct segments_scratch *scratch)
{
    struct reduce_range block[REDUCE_BLOCKS_MAX];
    const size_t blocks = reduce_blocks(count, share, block);
    const double passes = worker->forward_seconds + worker->backward_seconds;
    struct segments_problem push = worker->push;
    if (blocks == 0) {
        return 0;
    }
    /* The forward pass of the first micro-batch ends with the pull. */
    double computed = transfer(worker, &worker->pull, scratch), link = 0;
    for (size_t i = 0; i < blocks; i++) {
        const double others = (double)(block[i].end - block[i].first - 1) * passes;
        const double last = computed + others + (i == 0 ? 0 : worker->forward_seconds);
        push.busy_seconds = link > last ? link - last : 0;
        link = last + transfer(worker, &push, scratch);
        computed = last + worker->backward_seconds;
    }
    return link > computed ? link : computed;
}

/* ---- shares ---- */

static double longer(double a, double b)
{
    return a > b ? a : b;
}

/* The least that workers [0, w) take for micro-batches [0, b), and where the last of them begins:
 * at b if it has none. */
static void fill_row(size_t w, size_t count,
                     double (*seconds)(void *arg, size_t worker, struct reduce_range share),
                     void *arg, struct shares_scratch *scratch)
{
    const double *before = scratch->least[w - 1];
    for (size_t b = 0; b <= count; b++) {
        double best = before[b];
        size_t begin = b;
        for (size_t a = b; a-- > 0;) {
            if (before[a] >= best) {
                continue; /* the others alone take as long */
            }
            const double slowest =
                longer(before[a], seconds(arg, w - 1, (struct reduce_range){a, b}));
            if (slowest < best) {
                best = slowest;
                begin = a;
            }
        }
        scratch->least[w][b] = best;
        scratch->begin[w][b] = (unsigned short)begin;
    }
}

double shares_solve(size_t workers, size_t count,
                    double (*seconds)(void *arg, size_t worker, struct reduce_range share),
                    void *arg, struct shares_scratch *scratch, struct reduce_range *share)
{
    ASSERT(workers >= 1 && workers <= SHARES_WORKERS_MAX && count >= 1 &&
           count <= SHARES_COUNT_MAX);
    for (size_t b = 0; b <= count; b++) {
        scratch->least[0][b] = b == 0 ? 0 : INFINITY;
    }
    for (size_t w = 1; w <= workers; w++) {
        fill_row(w, count, seconds, arg, scratch);
    }
    size_t end = count;
    for (size_t w = workers; w > 0; w--) {
        share[w - 1] = (struct reduce_range){scratch->begin[w][end], end};
        end = share[w - 1].first;
    }
    return scratch->least[workers][count];
}
