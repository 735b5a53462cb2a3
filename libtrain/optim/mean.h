/* mean.h: the mean of versions of the parameters. Used by libtrain/stage; one calling thread. The
 * result does not depend on the number of threads. */
#ifndef LIBTRAIN_OPTIM_MEAN_H
#define LIBTRAIN_OPTIM_MEAN_H

#include <stddef.h>

#include "libtrain/backend/pool.h"

/* version[versions - 1][i] = (version[0][i] + version[1][i] + ...) / versions, the sum in that
 * order. version: arrays of `count` floats without overlap. */
void mean_into_last(const struct compute *compute, size_t count, size_t versions,
                    float *const *version);

#endif
