#include "agent/runtime/tune.h"

#include <malloc.h>

#include "base/clock.h"

#define BUDGET_SECONDS 20.0
#define LATE_SECONDS 1e18 /* past any budget */

/* The clock of the tuning: after a cancellation it is past any budget, which ends the tuning. */
static double seconds(void *arg)
{
    const struct cancel *cancel = arg;
    return cancel && cancel_is_set(cancel) ? LATE_SECONDS : clock_now_seconds();
}

int tune_units(struct train_tuner *tuner, struct model *model, size_t first, size_t end,
               size_t micro_batch, size_t threads, struct cancel *cancel, struct err *err)
{
    struct train_pool *pool = NULL;
    int rc = train_pool_new(threads, &pool, err);
    if (rc == 0) {
        const struct train_tuning tuning = {.first = first,
                                            .end = end,
                                            .micro_batch = micro_batch,
                                            .pool = pool,
                                            .seconds = seconds,
                                            .arg = cancel,
                                            .budget_seconds = BUDGET_SECONDS};
        rc = train_tune(tuner, model, &tuning, err);
    }
    train_pool_free(&pool);
    (void)malloc_trim(0); /* return the memory of the convolutions before the stage allocates */
    return rc == 0 && cancel && cancel_is_set(cancel) ? err_set(err, ERR_CANCELLED, "cancelled")
                                                      : rc;
}
