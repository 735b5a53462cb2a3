/* embedding.h: the two input ops of a transformer: token numbers to rows of a table, and a learned
 * vector added to each position. Used by libtrain/stage; one calling thread. Both weights have
 * PyTorch's layout. */
#ifndef LIBTRAIN_OPS_EMBEDDING_H
#define LIBTRAIN_OPS_EMBEDDING_H

#include "libtrain/backend/pool.h"

/* y[m] = weight[token[m]]. token [M]: whole numbers from 0, below the rows of weight [rows][C] (the
 * caller has checked it); y [M][C]: overwrites. */
void embedding_forward(const struct compute *compute, size_t M, size_t C, const float *token,
                       const float *weight, float *y);
/* dweight[token[m]] += dy[m], m in order: accumulates. */
void embedding_backward(const struct compute *compute, size_t M, size_t C, const float *token,
                        const float *dy, float *dweight);

/* y[n] = x[n] + weight, of `count` floats each (T C); y may be x. */
void positions_forward(const struct compute *compute, size_t N, size_t count, const float *x,
                       const float *weight, float *y);
/* dweight += sum over n of dy[n], in double: accumulates. */
void positions_backward(const struct compute *compute, size_t N, size_t count, const float *dy,
                        float *dweight);

#endif
