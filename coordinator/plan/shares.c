#include "coordinator/plan/shares.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/assert.h"

struct shares_scratch {
    double seconds[SHARES_WORKERS_MAX + 1][REDUCE_COUNT_MAX + 1]; /* F */
    uint16_t first[SHARES_WORKERS_MAX][REDUCE_COUNT_MAX + 1];     /* a of the best share [a, b) */
};

int shares_scratch_new(struct shares_scratch **out, struct err *err)
{
    *out = malloc(sizeof(**out));
    return *out ? 0 : err_set(err, ERR_MEMORY, "%zu bytes for shares", sizeof(**out));
}

void shares_scratch_free(struct shares_scratch **scratch)
{
    free(*scratch);
    *scratch = NULL;
}

/* F(worker + 1, b) from F(worker, a) of all a. */
static double best_share(const struct shares_problem *problem, const double *before, size_t worker,
                         size_t b, uint16_t *first)
{
    const double least = problem->least_seconds ? problem->least_seconds[worker] : 0;
    const double each = problem->each_seconds ? problem->each_seconds[worker] : 0;
    const bool needed = problem->needed && problem->needed[worker];
    double best = needed || before[b] >= problem->limit_seconds ? INFINITY : before[b];
    *first = (uint16_t)b;
    for (size_t n = 1; n <= b; n++) {
        const size_t a = b - n;
        const double bound = least + (double)(n - 1) * each;
        if (bound >= best || bound >= problem->limit_seconds) {
            break;
        }
        if (before[a] >= best) {
            continue;
        }
        const double own = problem->seconds(problem->arg, worker, (struct reduce_range){a, b});
        const double seconds = own > before[a] ? own : before[a];
        if (seconds < best && seconds < problem->limit_seconds) {
            best = seconds;
            *first = (uint16_t)a;
        }
    }
    return best;
}

double shares_solve(const struct shares_problem *problem, struct shares_scratch *scratch,
                    struct reduce_range *share)
{
    const size_t workers = problem->worker_count, count = problem->micro_batches;
    ASSERT(workers >= 1 && workers <= SHARES_WORKERS_MAX);
    ASSERT(count >= 1 && count <= REDUCE_COUNT_MAX);
    scratch->seconds[0][0] = 0;
    for (size_t b = 1; b <= count; b++) {
        scratch->seconds[0][b] = INFINITY;
    }
    for (size_t w = 0; w < workers; w++) {
        const size_t least = w + 1 < workers ? 0 : count; /* the last one ends the step */
        for (size_t b = least; b <= count; b++) {
            scratch->seconds[w + 1][b] =
                best_share(problem, scratch->seconds[w], w, b, &scratch->first[w][b]);
        }
    }
    const double best = scratch->seconds[workers][count];
    for (size_t w = workers, b = count; w-- > 0 && isfinite(best);) {
        share[w] = (struct reduce_range){scratch->first[w][b], b};
        b = share[w].first;
    }
    return best;
}
