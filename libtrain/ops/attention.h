/* attention.h: scaled dot-product attention of several heads. Used by libtrain/stage; one calling
 * thread. A task is one head of one sample, computed in blocks of queries. Nothing is kept for
 * backward, which recomputes the probabilities: the scores of a long sequence would be larger than
 * all its other tensors. Source: Vaswani et al., "Attention is all you need", 2017; the blocks as
 * in Rabe and Staats, "Self-attention does not need O(n^2) memory", 2021. */
#ifndef LIBTRAIN_OPS_ATTENTION_H
#define LIBTRAIN_OPS_ATTENTION_H

#include "libtrain/backend/pool.h"
#include "libtrain/kernels/workspace.h"

/* x [N][T][3 C]: q, k and v side by side; head j has channels [j D, (j + 1) D) of each, D = C /
 * heads. Per sample and head: y = softmax(q k^T / sqrt(D)) v; if the shape is causal, over the
 * positions up to the query's own. y [N][T][C]: overwrites. Needs attention_workspace. */
void attention_forward(const struct compute *compute, const struct attention_shape *shape,
                       const float *x, float *y);
/* The gradients of q, k and v from dy [N][T][C]: dx [N][T][3 C] overwrites, or accumulates. */
void attention_backward(const struct compute *compute, const struct attention_shape *shape,
                        const float *x, const float *dy, float *dx, bool accumulate);

#endif
