/* adam.h: Adam and AdamW as PyTorch's torch.optim.Adam and AdamW (without amsgrad). Used by
 * libtrain/optim; one calling thread. Sources: Kingma and Ba, "Adam", 2015; Loshchilov and Hutter,
 * "Decoupled weight decay regularization", 2019. */
#ifndef LIBTRAIN_OPTIM_ADAM_H
#define LIBTRAIN_OPTIM_ADAM_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/backend/pool.h"
#include "libtrain/model/recipe.h"

/* ADAM:  g = gradient + weight_decay p ADAMW: g = gradient; p *= 1 - rate weight_decay then
 * average = beta1 average + (1 - beta1) g; square = beta2 square + (1 - beta2) g^2;
 *        p -= rate / (1 - beta1^step) average / (sqrt(square / (1 - beta2^step)) + epsilon);
 * gradient = 0. step >= 1; before, parameter, gradient, average, square [count], the last two start
 * as zeros. p is read from `before` and written to `parameter`, which may be the same array; no
 * other overlap. Factors shared by all elements are computed in double, elements in single
 * precision. */
void adam_step(const struct compute *compute, const struct optimizer *optimizer, int64_t step,
               double rate, size_t count, const float *before, float *parameter, float *gradient,
               float *average, float *square);

#endif
