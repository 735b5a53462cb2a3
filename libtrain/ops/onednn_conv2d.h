/* onednn_conv2d.h: convolutions that oneDNN (backend/onednn.h) computes in some or all passes:
 * blocks of samples for the threads, sums of the weight gradient in order (onednn_plan.h). Created
 * with the stage, because the library's objects hold shapes and addresses. Used by libtrain/stage;
 * one calling thread. Shapes, layouts and overwriting are as in conv2d.h. */
#ifndef LIBTRAIN_OPS_ONEDNN_CONV2D_H
#define LIBTRAIN_OPS_ONEDNN_CONV2D_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "libtrain/backend/pool.h"
#include "libtrain/kernels/workspace.h"

struct onednn;
struct onednn_conv2d;

/* Prepare the passes with a kernel of oneDNN, for a micro-batch of shape->N samples. `library` must
 * outlive it. ERR_INVALID if the library does not support one; ERR_MEMORY. */
NODISCARD int onednn_conv2d_new(struct onednn *library, const struct conv2d_shape *shape,
                                struct conv2d_kernels kernels, bool bias,
                                struct onednn_conv2d **out, struct err *err);
void onednn_conv2d_free(struct onednn_conv2d **conv2d);

/* Scratch of its passes, and bytes of the weights in the library's layouts. */
struct workspace_bytes onednn_conv2d_workspace(const struct onednn_conv2d *conv2d);
size_t onednn_conv2d_packed_bytes(const struct onednn_conv2d *conv2d);

/* Bind it to its memory, once: compute's scratch, and `packed` of packed_bytes, which it keeps.
 * Both are aligned to WORKSPACE_ALIGNMENT. */
NODISCARD int onednn_conv2d_bind(struct onednn_conv2d *conv2d, const struct compute *compute,
                                 unsigned char *packed, struct err *err);

/* Whether oneDNN computes this pass. */
bool onednn_conv2d_does(const struct onednn_conv2d *conv2d, enum conv2d_pass pass);

/* Compute N <= shape->N samples. `version` changes with the weights: they are packed once per
 * version. */
void onednn_conv2d_forward(struct onednn_conv2d *conv2d, const struct compute *compute,
                           uint64_t version, size_t N, const float *x, const float *weight,
                           const float *bias, float *y);
void onednn_conv2d_backward_data(struct onednn_conv2d *conv2d, const struct compute *compute,
                                 uint64_t version, const float *dy, const float *weight, float *dx,
                                 bool accumulate);
void onednn_conv2d_backward_weights(struct onednn_conv2d *conv2d, const struct compute *compute,
                                    const float *x, const float *dy, float *dweight);

#endif
