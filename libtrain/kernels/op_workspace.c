#include "libtrain/kernels/op_workspace.h"

#include "libtrain/kernels/winograd_plan.h"

struct conv2d_shape op_conv2d_shape(const struct op *op, size_t N)
{
    return (struct conv2d_shape){.N = N,
                                 .H = op->in.h,
                                 .W = op->in.w,
                                 .C = op->in.c,
                                 .O = op->out.c,
                                 .KH = op->kernel.h,
                                 .KW = op->kernel.w,
                                 .SH = op->stride.h,
                                 .SW = op->stride.w,
                                 .PH = op->padding.h,
                                 .PW = op->padding.w,
                                 .G = op->groups,
                                 .OH = op->out.h,
                                 .OW = op->out.w};
}

struct conv2d_kernels op_conv2d_kernels(const struct op *op, enum conv2d_backend backend)
{
    struct conv2d_shape shape = op_conv2d_shape(op, 1);
    struct conv2d_kernels asked = op->kernels;
    for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
        bool lacks = backend == CONV2D_BACKEND_OWN &&
                     conv2d_kernel_is_onednn((enum conv2d_kernel)asked.pass[pass]);
        asked.pass[pass] = lacks ? CONV2D_BY_SHAPE : asked.pass[pass];
    }
    return conv2d_kernels_resolve(asked, &shape, backend);
}

struct conv2d_kernels op_slice_kernels(const struct op *op)
{
    const struct conv2d_shape shape = op_conv2d_shape(op, 1);
    const bool fills = conv2d_can_winograd(&shape) && !conv2d_is_winograd(&shape);
    struct conv2d_kernels kernels;
    for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
        kernels.pass[pass] = fills ? CONV2D_WINOGRAD4 : CONV2D_BY_SHAPE;
    }
    return kernels;
}

struct attention_shape op_attention_shape(const struct op *op, size_t N)
{
    return (struct attention_shape){
        .N = N, .T = op->in.h, .C = op->out.c, .heads = op->heads, .causal = op->causal};
}

struct workspace_bytes op_workspace(const struct op *op, size_t N, enum conv2d_backend backend)
{
    switch (op->type) {
    case OP_CONV2D: {
        struct conv2d_shape shape = op_conv2d_shape(op, N);
        return conv2d_workspace(&shape, op_conv2d_kernels(op, backend));
    }
    case OP_BATCH_NORM: return batch_norm_workspace(N * op->out.h * op->out.w, op->out.c);
    case OP_LAYER_NORM: return layer_norm_workspace(N * op->out.h * op->out.w, op->out.c);
    case OP_ATTENTION: {
        struct attention_shape shape = op_attention_shape(op, N);
        return attention_workspace(&shape);
    }
    case OP_GELU:
    case OP_SILU:
    case OP_EMBEDDING:
    case OP_POSITIONS:
    case OP_LINEAR:
    case OP_RELU:
    case OP_RELU6:
    case OP_MAX_POOL:
    case OP_AVG_POOL:
    case OP_GLOBAL_AVG_POOL:
    case OP_FLATTEN:
    case OP_DROPOUT:
    case OP_SELECT:
    case OP_ADD:
    case OP_CONCAT: break;
    }
    return (struct workspace_bytes){0};
}
