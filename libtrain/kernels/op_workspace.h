/* op_workspace.h: from an op of a model to the shape its kernels take and the scratch they need.
 * Used by the memory plan and libtrain/stage. Pure; any thread. */
#ifndef LIBTRAIN_KERNELS_OP_WORKSPACE_H
#define LIBTRAIN_KERNELS_OP_WORKSPACE_H

#include "libtrain/kernels/conv2d_kernel.h"
#include "libtrain/kernels/workspace.h"
#include "libtrain/model/model.h"

/* The shape of a CONV2D op for N samples. */
struct conv2d_shape op_conv2d_shape(const struct op *op, size_t N);
/* The shape of an ATTENTION op for N samples. */
struct attention_shape op_attention_shape(const struct op *op, size_t N);

/* The kernels of a CONV2D op on a backend. If the model names a kernel of oneDNN and the backend
 * has none, the shape decides. */
struct conv2d_kernels op_conv2d_kernels(const struct op *op, enum conv2d_backend backend);

/* The kernels that a CONV2D op of a slice (model/slim.h) states. Channels of slices are seldom
 * multiples of 16: by shape, such convolutions would not use winograd4, which takes a fraction of
 * the time. */
struct conv2d_kernels op_slice_kernels(const struct op *op);

/* Scratch of an op of any type for N samples. */
struct workspace_bytes op_workspace(const struct op *op, size_t N, enum conv2d_backend backend);

#endif
