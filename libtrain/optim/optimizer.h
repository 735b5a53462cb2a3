/* optimizer.h: the kernel of each optimizer type, one row per type. libtrain/model/recipe.h says
 * how many arrays of state each has. Used by libtrain/stage; one calling thread. */
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
    const float *before; /* [count] parameters before the update; may be `parameter` */
    float *parameter;    /* [count] out; no partial overlap with `before` */
    float *gradient;     /* [count], finite and clipped; zeroed */
    float *array[OPTIMIZER_ARRAYS_MAX]; /* [count] each; NULL after optimizer_state_arrays */
};

void optimizer_update(const struct compute *compute, const struct optimizer_call *call);

#endif
