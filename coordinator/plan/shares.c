#include "coordinator/plan/shares.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/assert.h"

struct shares_scratch {
    double seconds[SHARES_WORKERS_MAX + 1][REDUCE_COUNT_MAX + 1]; /* F */
    uint16_t first[SHARES_WORKERS_MAX][REDUCE_COUNT_MAX + 1];     /* where the best share begins */
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

/* The micro-batches before a boundary, by its number. */
static size_t boundary(const struct shares_problem *problem, size_t number)
{
    const size_t at = number * (problem->grain > 0 ? problem->grain : 1);
    return at < problem->micro_batches ? at : problem->micro_batches;
}

/* F(worker + 1, b) from F(worker, a) of all a. *first: the number of the best a. */
static double best_share(const struct shares_problem *problem, const double *before, size_t worker,
                         size_t number, uint16_t *first)
{
    const size_t b = boundary(problem, number);
    const double least = problem->least_seconds ? problem->least_seconds[worker] : 0;
    const double each = problem->each_seconds ? problem->each_seconds[worker] : 0;
    const bool needed = problem->needed && problem->needed[worker];
    double best = needed || before[number] >= problem->limit_seconds ? INFINITY : before[number];
    *first = (uint16_t)number;
    for (size_t i = number; i-- > 0;) {
        const size_t a = boundary(problem, i);
        const double bound = least + (double)(b - a - 1) * each;
        if (bound >= best || bound >= problem->limit_seconds) {
            break;
        }
        if (before[i] >= best) {
            continue;
        }
        const double own = problem->seconds(problem->arg, worker, (struct reduce_range){a, b});
        const double seconds = own > before[i] ? own : before[i];
        if (seconds < best && seconds < problem->limit_seconds) {
            best = seconds;
            *first = (uint16_t)i;
        }
    }
    return best;
}

double shares_solve(const struct shares_problem *problem, struct shares_scratch *scratch,
                    struct reduce_range *share)
{
    const size_t workers = problem->worker_count;
    size_t last = 1;
    ASSERT(workers >= 1 && workers <= SHARES_WORKERS_MAX);
    ASSERT(problem->micro_batches >= 1 && problem->micro_batches <= REDUCE_COUNT_MAX);
    while (boundary(problem, last) < problem->micro_batches) {
        last++;
    }
    scratch->seconds[0][0] = 0;
    for (size_t i = 1; i <= last; i++) {
        scratch->seconds[0][i] = INFINITY;
    }
    for (size_t w = 0; w < workers; w++) {
        for (size_t i = w + 1 < workers ? 0 : last; i <= last;
             i++) { /* the last one ends the step */
            scratch->seconds[w + 1][i] =
                best_share(problem, scratch->seconds[w], w, i, &scratch->first[w][i]);
        }
    }
    const double best = scratch->seconds[workers][last];
    for (size_t w = workers, i = last; w-- > 0 && isfinite(best);) {
        const size_t from = scratch->first[w][i];
        share[w] = (struct reduce_range){boundary(problem, from), boundary(problem, i)};
        i = from;
    }
    return best;
}
