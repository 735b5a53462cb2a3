#include "coordinator/core/generation/scatter.h"

#include <math.h>

#include "coordinator/core/generation/progress.h"

void scatter_begin(struct scatter *scatter, int64_t now_ms)
{
    scatter->before = 0;
    scatter->due_ms = now_ms + SCATTER_MS;
}

void scatter_take(struct scatter *scatter, double seconds, int64_t now_ms)
{
    if (now_ms < scatter->due_ms || !(seconds > 0)) {
        return;
    }
    if (scatter->before > 0) {
        scatter->change[scatter->count++ % SCATTER_KEPT] = fabs(log(seconds / scatter->before));
    }
    scatter->before = seconds;
    scatter->due_ms = now_ms + SCATTER_MS;
}

double scatter_share(const struct scatter *scatter)
{
    const size_t count = scatter->count < SCATTER_KEPT ? (size_t)scatter->count : SCATTER_KEPT;
    return count < SCATTER_LEAST ? 0 : expm1(progress_median(scatter->change, count));
}
