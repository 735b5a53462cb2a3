/* onednn_conv2d.h: convolutions whose kernels are oneDNN's (backend/onednn.h), in some passes or in
 * all: blocks of samples for the threads, sums of the weights' gradient in order (onednn_plan.h).
 * Made with the stage, as the library's objects know shapes and addresses. Used by libtrain/stage;
 * one calling thread. Shapes, layouts and what is overwritten or added to are those of conv2d.h. */
#ifndef LIBTRAIN_OPS_ONEDNN_CONV2D_H
#define LIBTRAIN_OPS_ONEDNN_CONV2D_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "libtrain/backend/pool.h"
#include "libtrain/kernels/workspace.h"

struct onednn;
struct onednn_conv2d;

/* Prepare the passes whose kernel is oneDNN's, for a micro-batch of shape->N samples. `library`
 * must outlive it. ERR_INVALID where the library cannot; ERR_MEMORY. */
NODISCARD int onednn_conv2d_new(struct onednn *library, const struct conv2d_shape *shape,
                                struct conv2d_kernels kernels, bool bias,
                                struct onednn_conv2d **out, struct err *err);
void onednn_conv2d_free(struct onednn_conv2d **conv2d);

/* Scratch of its passes, and bytes for the weights in the library's layouts. */
struct workspace_bytes onednn_conv2d_workspace(const struct onednn_conv2d *conv2d);
size_t onednn_conv2d_packed_bytes(const struct onednn_conv2d *conv2d);

/* Say where its memory lies, for good: compute's scratch, and `packed` of packed_bytes, which it
 * keeps; both aligned to WORKSPACE_ALIGNMENT. */
NODISCARD int onednn_conv2d_bind(struct onednn_conv2d *conv2d, const struct compute *compute,
                                 unsigned char *packed, struct err *err);

/* Whether a pass is its. */
bool onednn_conv2d_does(const struct onednn_conv2d *conv2d, enum conv2d_pass pass);

/* Of N <= shape->N samples. `version` is another one whenever the weights are: then they are packed
 * anew. */
void onednn_conv2d_forward(struct onednn_conv2d *conv2d, const struct compute *compute,
                           uint64_t version, size_t N, const float *x, const float *weight,
                           const float *bias, float *y);
void onednn_conv2d_backward_data(struct onednn_conv2d *conv2d, const struct compute *compute,
                                 uint64_t version, const float *dy, const float *weight, float *dx,
                                 bool accumulate);
void onednn_conv2d_backward_weights(struct onednn_conv2d *conv2d, const struct compute *compute,
                                    const float *x, const float *dy, float *dweight);

#endif
