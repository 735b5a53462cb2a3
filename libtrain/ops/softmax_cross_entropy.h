/* softmax_cross_entropy.h: the loss over class scores. Used by libtrain/stage; one calling thread. In double, with
 * libtrain's own exp and log. */
#ifndef LIBTRAIN_OPS_SOFTMAX_CROSS_ENTROPY_H
#define LIBTRAIN_OPS_SOFTMAX_CROSS_ENTROPY_H

#include <stdint.h>

#include "libtrain/backend/pool.h"

/* loss[n] = log(sum over c of exp(x[n,c])) - x[n,label[n]]; returns their sum in sample order, not divided.
 * x [N][C], label [N] in [0, C). dx [N][C]: (softmax(x) - one_hot(label)) * gradient_scale, overwrites; NULL: not
 * wanted. Not finite where a score is not. Needs N doubles of shared scratch. */
double softmax_cross_entropy(const struct compute *compute, size_t N, size_t C, const float *x, const int32_t *label,
                             double gradient_scale, float *dx);

#endif
