/* optimizer.h: from the optimizer of a recipe to its kernel: one table, one row per type; how many
 * arrays of state each keeps says libtrain/model/recipe.h. Used by libtrain/stage; one calling
 * thread. */
#ifndef LIBTRAIN_OPTIM_OPTIMIZER_H
#define LIBTRAIN_OPTIM_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/backend/pool.h"
#include "libtrain/model/recipe.h"

/* One update. */
struct optimizer_call {
    const struct optimizer *optimizer;
    int64_t step; /* of the job, from 1 */
    double rate;  /* learning rate of this step */
    size_t count;
    float *parameter;                   /* [count] */
    float *gradient;                    /* [count], finite and clipped; zeroed */
    float *array[OPTIMIZER_ARRAYS_MAX]; /* [count] each; NULL behind the last of
                                           optimizer_state_arrays */
};

void optimizer_update(const struct compute *compute, const struct optimizer_call *call);

#endif
