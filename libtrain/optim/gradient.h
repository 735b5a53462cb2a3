/* gradient.h: checks and clips gradients between backward and the optimizer. Used by
 * libtrain/stage; one calling thread. Results do not depend on the number of threads. */
#ifndef LIBTRAIN_OPTIM_GRADIENT_H
#define LIBTRAIN_OPTIM_GRADIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "libtrain/backend/pool.h"

/* Return whether all of `count` floats are finite. */
bool gradient_all_finite(const struct compute *compute, size_t count, const float *gradient);

/* gradient[i] = min(max(gradient[i], -limit), limit), limit > 0; finite gradients. */
void gradient_clip_value(const struct compute *compute, size_t count, float limit, float *gradient);

/* Sum the squares of `count` finite floats, in double and in an order that depends on count
 * alone. */
double gradient_sum_squares(const struct compute *compute, size_t count, const float *gradient);
/* Return the factor that limits the Euclidean norm of gradients, the root of `squares`, to limit >
 * 0: limit / (norm + 1e-6), at most 1, as torch.nn.utils.clip_grad_norm_. */
float gradient_norm_factor(double limit, double squares);
/* sum[i] += gradient[i]: the other order of the two gives the same bits. No overlap. */
void gradient_add(const struct compute *compute, size_t count, const float *gradient, float *sum);
/* gradient[i] *= factor. */
void gradient_scale(const struct compute *compute, size_t count, float factor, float *gradient);

#endif
