/* sgd.h: stochastic gradient descent as PyTorch's torch.optim.SGD. One calling thread. */
#ifndef LIBTRAIN_OPTIM_SGD_H
#define LIBTRAIN_OPTIM_SGD_H

#include <stddef.h>

#include "libtrain/backend/pool.h"
#include "libtrain/model/recipe.h"

/* g = gradient + weight_decay p; buffer = momentum buffer + g; p -= rate (nesterov ? g + momentum
 * buffer : buffer), or p -= rate g without momentum. Then gradient = 0. parameter, gradient, buffer
 * [count]; buffer starts as zeros (PyTorch starts it as the first gradient: the same), NULL without
 * momentum. p is read from `before` and written to `parameter`, which may be the same array; no
 * other overlap. */
void sgd_step(const struct compute *compute, const struct optimizer *optimizer, double rate,
              size_t count, const float *before, float *parameter, float *gradient, float *buffer);

#endif
