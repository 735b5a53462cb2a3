/* softmax_cross_entropy.h: the loss over class scores. Used by libtrain/stage; one calling thread.
 * In double, with libtrain's own exp and log. */
#ifndef LIBTRAIN_OPS_SOFTMAX_CROSS_ENTROPY_H
#define LIBTRAIN_OPS_SOFTMAX_CROSS_ENTROPY_H

#include <stdint.h>

#include "libtrain/backend/pool.h"

/* loss[n] = log(sum over c of exp(x[n,c])) - sum over c of target[n,c] x[n,c]; returns their sum in
 * sample order, not divided. target = (1 - smoothing) one_hot(label) + smoothing / C, smoothing in
 * [0, 1) (as PyTorch's label_smoothing). x [N][C], label [N] in [0, C). dx [N][C]: (softmax(x) -
 * target) * gradient_scale, overwrites; NULL: not wanted. The loss is not finite if a score is not.
 * Needs N doubles of shared scratch, at whose beginning it leaves loss[N]. Source of the smoothing:
 * Szegedy et al., "Rethinking the Inception architecture for computer vision", 2016. */
double softmax_cross_entropy(const struct compute *compute, size_t N, size_t C, const float *x,
                             const int32_t *label, double smoothing, double gradient_scale,
                             float *dx);

#endif
