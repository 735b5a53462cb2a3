/* partials.h: combines partial sums of several tasks in order. Private to libtrain/ops. */
#ifndef LIBTRAIN_OPS_PARTIALS_H
#define LIBTRAIN_OPS_PARTIALS_H

#include <stddef.h>

#include "libtrain/backend/pool.h"

/* sum[count] += partial[0][count] + ... + partial[partials - 1][count], starting from the first. */
void partials_add(const struct compute *compute, float *sum, const float *partial, size_t partials,
                  size_t count);

#endif
