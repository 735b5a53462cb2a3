#include "libtrain/stage/op_table.h"

#include "libtrain/kernels/op_workspace.h"
#include "libtrain/ops/activation.h"
#include "libtrain/ops/attention.h"
#include "libtrain/ops/batch_norm.h"
#include "libtrain/ops/conv2d.h"
#include "libtrain/ops/dropout.h"
#include "libtrain/ops/embedding.h"
#include "libtrain/ops/join.h"
#include "libtrain/ops/layer_norm.h"
#include "libtrain/ops/linear.h"
#include "libtrain/ops/onednn_conv2d.h"
#include "libtrain/ops/pool2d.h"
#include "libtrain/ops/relu.h"

#define RELU6_CEILING 6.0f

/* Floats of the op's output for the samples of the call. */
static size_t output_count(const struct op_call *call)
{
    return call->N * shape_elements(call->op->out);
}

/* ---- conv2d ---- */

/* Whether oneDNN computes this pass. */
static bool is_onednn(const struct op_call *call, enum conv2d_pass pass)
{
    return call->onednn && onednn_conv2d_does(call->onednn, pass);
}

static void forward_conv2d(const struct op_call *call)
{
    struct conv2d_shape shape = op_conv2d_shape(call->op, call->N);
    if (is_onednn(call, CONV2D_FORWARD)) {
        onednn_conv2d_forward(call->onednn, call->compute, call->contents, call->N, call->input[0],
                              call->tensor[0], call->tensor[1], call->output);
    } else {
        conv2d_forward(call->compute, &shape, call->plan->kernels, call->input[0], call->tensor[0],
                       call->tensor[1], call->output);
    }
}

static void backward_conv2d_weights(const struct op_call *call, const struct conv2d_shape *shape)
{
    if (is_onednn(call, CONV2D_BACKWARD_WEIGHTS)) {
        onednn_conv2d_backward_weights(call->onednn, call->compute, call->input[0],
                                       call->output_gradient, call->gradient[0]);
    } else {
        conv2d_backward_weights(call->compute, shape, call->plan->kernels, call->input[0],
                                call->output_gradient, call->gradient[0]);
    }
    if (call->gradient[1]) {
        conv2d_backward_bias(call->compute, shape, call->output_gradient, call->gradient[1]);
    }
}

static void backward_conv2d_data(const struct op_call *call)
{
    struct conv2d_shape shape = op_conv2d_shape(call->op, call->N);
    if (!call->input_gradient[0]) {
        return;
    }
    if (is_onednn(call, CONV2D_BACKWARD_DATA)) {
        onednn_conv2d_backward_data(call->onednn, call->compute, call->contents,
                                    call->output_gradient, call->tensor[0], call->input_gradient[0],
                                    call->plan->accumulate[0]);
    } else {
        conv2d_backward_data(call->compute, &shape, call->plan->kernels, call->output_gradient,
                             call->tensor[0], call->input_gradient[0], call->plan->accumulate[0]);
    }
}

static void backward_conv2d(const struct op_call *call)
{
    struct conv2d_shape shape = op_conv2d_shape(call->op, call->N);
    backward_conv2d_weights(call, &shape);
    backward_conv2d_data(call);
}

/* ---- linear: on each position of a sequence ---- */

static struct linear_shape linear_shape_of(const struct op_call *call)
{
    const struct op *op = call->op;
    return (struct linear_shape){.N = call->N * op->in.h, .F = op->in.c, .O = op->out.c};
}

static void forward_linear(const struct op_call *call)
{
    struct linear_shape shape = linear_shape_of(call);
    linear_forward(call->compute, &shape, call->input[0], call->tensor[0], call->tensor[1],
                   call->output);
}

static void backward_linear_data(const struct op_call *call)
{
    struct linear_shape shape = linear_shape_of(call);
    if (call->input_gradient[0]) {
        linear_backward_data(call->compute, &shape, call->output_gradient, call->tensor[0],
                             call->input_gradient[0], call->plan->accumulate[0]);
    }
}

static void backward_linear(const struct op_call *call)
{
    struct linear_shape shape = linear_shape_of(call);
    linear_backward_weights(call->compute, &shape, call->input[0], call->output_gradient,
                            call->gradient[0], call->gradient[1]);
    backward_linear_data(call);
}

static float ceiling_of(const struct op *op)
{
    return op->type == OP_RELU6 ? RELU6_CEILING : RELU_NO_CEILING;
}

/* ---- batch_norm: tensors weight, bias, running_mean, running_var ---- */

static struct batch_norm_shape batch_norm_shape_of(const struct op_call *call)
{
    bool relu = call->plan->fusion == ARENA_WITH_NEXT;
    return (struct batch_norm_shape){.M = call->N * call->op->out.h * call->op->out.w,
                                     .C = call->op->out.c,
                                     .epsilon = call->op->epsilon,
                                     .momentum = call->op->momentum,
                                     .relu = relu,
                                     .ceiling =
                                         relu ? ceiling_of(call->plan[1].op) : RELU_NO_CEILING};
}

static void forward_batch_norm(const struct op_call *call)
{
    struct batch_norm_shape shape = batch_norm_shape_of(call);
    batch_norm_forward(call->compute, &shape, call->input[0], call->tensor[0], call->tensor[1],
                       call->tensor[2], call->tensor[3], call->saved, call->output);
}

/* Use the statistics that forward saved. The running statistics do not change. */
static void again_batch_norm(const struct op_call *call)
{
    struct batch_norm_shape shape = batch_norm_shape_of(call);
    batch_norm_again(call->compute, &shape, call->input[0], call->saved, call->output);
}

static void evaluate_batch_norm(const struct op_call *call)
{
    struct batch_norm_shape shape = batch_norm_shape_of(call);
    batch_norm_evaluate(call->compute, &shape, call->input[0], call->tensor[0], call->tensor[1],
                        call->tensor[2], call->tensor[3], call->output);
}

static void backward_batch_norm(const struct op_call *call)
{
    struct batch_norm_shape shape = batch_norm_shape_of(call);
    batch_norm_backward(call->compute, &shape, call->input[0], call->tensor[0], call->saved,
                        call->output_gradient, call->input_gradient[0], call->plan->accumulate[0],
                        call->gradient[0], call->gradient[1]);
}

static void backward_batch_norm_frozen(const struct op_call *call)
{
    struct batch_norm_shape shape = batch_norm_shape_of(call);
    if (call->input_gradient[0]) {
        batch_norm_backward_frozen(call->compute, &shape, call->input[0], call->tensor[0],
                                   call->tensor[1], call->tensor[2], call->tensor[3],
                                   call->output_gradient, call->input_gradient[0],
                                   call->plan->accumulate[0]);
    }
}

/* ---- relu, relu6 ---- */

static void forward_relu(const struct op_call *call)
{
    relu_forward(call->compute, output_count(call), ceiling_of(call->op), call->input[0],
                 call->output);
}

static void backward_relu(const struct op_call *call)
{
    if (call->input_gradient[0]) {
        relu_backward(call->compute, output_count(call), ceiling_of(call->op), call->output,
                      call->output_gradient, call->input_gradient[0], call->plan->accumulate[0]);
    }
}

/* ---- pools ---- */

static struct pool2d_shape pool2d_shape_of(const struct op_call *call)
{
    const struct op *op = call->op;
    return (struct pool2d_shape){.N = call->N,
                                 .H = op->in.h,
                                 .W = op->in.w,
                                 .C = op->in.c,
                                 .KH = op->kernel.h,
                                 .KW = op->kernel.w,
                                 .SH = op->stride.h,
                                 .SW = op->stride.w,
                                 .PH = op->padding.h,
                                 .PW = op->padding.w,
                                 .OH = op->out.h,
                                 .OW = op->out.w};
}

static void forward_max_pool(const struct op_call *call)
{
    struct pool2d_shape shape = pool2d_shape_of(call);
    max_pool_forward(call->compute, &shape, call->input[0], call->output, call->saved);
}

static void backward_max_pool(const struct op_call *call)
{
    struct pool2d_shape shape = pool2d_shape_of(call);
    if (call->input_gradient[0]) {
        max_pool_backward(call->compute, &shape, call->saved, call->output_gradient,
                          call->input_gradient[0], call->plan->accumulate[0]);
    }
}

static void forward_avg_pool(const struct op_call *call)
{
    struct pool2d_shape shape = pool2d_shape_of(call);
    avg_pool_forward(call->compute, &shape, call->input[0], call->output);
}

static void backward_avg_pool(const struct op_call *call)
{
    struct pool2d_shape shape = pool2d_shape_of(call);
    if (call->input_gradient[0]) {
        avg_pool_backward(call->compute, &shape, call->output_gradient, call->input_gradient[0],
                          call->plan->accumulate[0]);
    }
}

static void forward_global_avg_pool(const struct op_call *call)
{
    const struct shape *in = &call->op->in;
    global_avg_pool_forward(call->compute, call->N, (size_t)in->h * in->w, in->c, call->input[0],
                            call->output);
}

static void backward_global_avg_pool(const struct op_call *call)
{
    const struct shape *in = &call->op->in;
    if (call->input_gradient[0]) {
        global_avg_pool_backward(call->compute, call->N, (size_t)in->h * in->w, in->c,
                                 call->output_gradient, call->input_gradient[0],
                                 call->plan->accumulate[0]);
    }
}

/* ---- dropout ---- */

static struct dropout_mask dropout_mask_of(const struct op_call *call)
{
    uint64_t sample = (uint64_t)call->position.micro_batch * call->micro_batch;
    return (struct dropout_mask){
        .stream = rng_stream(call->seed, RNG_DROPOUT, (uint64_t)call->position.step,
                             (uint32_t)call->plan->unit << 16 | call->plan->index),
        .first = sample * shape_elements(call->op->out),
        .rate = call->op->rate,
    };
}

static void forward_dropout(const struct op_call *call)
{
    struct dropout_mask mask = dropout_mask_of(call);
    dropout_apply(call->compute, output_count(call), &mask, call->input[0], call->output, false);
}

static void backward_dropout(const struct op_call *call)
{
    struct dropout_mask mask = dropout_mask_of(call);
    if (call->input_gradient[0]) {
        dropout_apply(call->compute, output_count(call), &mask, call->output_gradient,
                      call->input_gradient[0], call->plan->accumulate[0]);
    }
}

/* ---- layer_norm ---- */

static struct layer_norm_shape layer_norm_shape_of(const struct op_call *call)
{
    return (struct layer_norm_shape){.M = call->N * call->op->out.h * call->op->out.w,
                                     .C = call->op->out.c,
                                     .epsilon = call->op->epsilon};
}

static void forward_layer_norm(const struct op_call *call)
{
    struct layer_norm_shape shape = layer_norm_shape_of(call);
    layer_norm_forward(call->compute, &shape, call->input[0], call->tensor[0], call->tensor[1],
                       call->saved, call->output);
}

static void backward_layer_norm(const struct op_call *call)
{
    struct layer_norm_shape shape = layer_norm_shape_of(call);
    layer_norm_backward(call->compute, &shape, call->input[0], call->tensor[0], call->saved,
                        call->output_gradient, call->input_gradient[0], call->plan->accumulate[0],
                        call->gradient[0], call->gradient[1]);
}

/* ---- gelu, silu ---- */

static enum activation activation_of(const struct op_call *call)
{
    return call->op->type == OP_GELU ? ACTIVATION_GELU : ACTIVATION_SILU;
}

static void forward_activation(const struct op_call *call)
{
    activation_forward(call->compute, activation_of(call), output_count(call), call->input[0],
                       call->output);
}

static void backward_activation(const struct op_call *call)
{
    if (call->input_gradient[0]) {
        activation_backward(call->compute, activation_of(call), output_count(call), call->input[0],
                            call->output_gradient, call->input_gradient[0],
                            call->plan->accumulate[0]);
    }
}

/* ---- embedding (its input has no gradient), positions ---- */

static void forward_embedding(const struct op_call *call)
{
    embedding_forward(call->compute, call->N * call->op->in.h, call->op->out.c, call->input[0],
                      call->tensor[0], call->output);
}

static void backward_nothing(const struct op_call *call)
{
    (void)call;
}

static void backward_embedding(const struct op_call *call)
{
    embedding_backward(call->compute, call->N * call->op->in.h, call->op->out.c, call->input[0],
                       call->output_gradient, call->gradient[0]);
}

static void forward_positions(const struct op_call *call)
{
    positions_forward(call->compute, call->N, shape_elements(call->op->out), call->input[0],
                      call->tensor[0], call->output);
}

static void backward_same(const struct op_call *call);

static void backward_positions(const struct op_call *call)
{
    positions_backward(call->compute, call->N, shape_elements(call->op->out), call->output_gradient,
                       call->gradient[0]);
    backward_same(call);
}

/* ---- attention ---- */

static void forward_attention(const struct op_call *call)
{
    struct attention_shape shape = op_attention_shape(call->op, call->N);
    attention_forward(call->compute, &shape, call->input[0], call->output);
}

static void backward_attention(const struct op_call *call)
{
    struct attention_shape shape = op_attention_shape(call->op, call->N);
    if (call->input_gradient[0]) {
        attention_backward(call->compute, &shape, call->input[0], call->output_gradient,
                           call->input_gradient[0], call->plan->accumulate[0]);
    }
}

/* ---- flatten, add, concat ---- */

/* The output equals the input (flatten, dropout in evaluation). There is nothing to do if the plan
 * gave both the same place. */
static void forward_same(const struct op_call *call)
{
    if (call->output && call->output != call->input[0]) {
        add_forward(call->compute, output_count(call), call->input, 1, call->output);
    }
}

static void forward_add(const struct op_call *call)
{
    add_forward(call->compute, output_count(call), call->input, call->op->input_count,
                call->output);
}

/* The gradient of each input equals the gradient of the output. */
static void backward_same(const struct op_call *call)
{
    for (size_t i = 0; i < call->op->input_count; i++) {
        if (call->input_gradient[i] && call->input_gradient[i] != call->output_gradient) {
            copy_backward(call->compute, output_count(call), call->output_gradient,
                          call->input_gradient[i], call->plan->accumulate[i]);
        }
    }
}

static void forward_concat(const struct op_call *call)
{
    size_t M = call->N * call->op->out.h * call->op->out.w;
    size_t offset = 0;
    for (size_t i = 0; i < call->op->input_count; i++) {
        size_t C = call->plan->input_shape[i].c;
        concat_forward(call->compute, M, C, call->op->out.c, offset, call->input[i], call->output);
        offset += C;
    }
}

static void backward_concat(const struct op_call *call)
{
    size_t M = call->N * call->op->out.h * call->op->out.w;
    size_t offset = 0;
    for (size_t i = 0; i < call->op->input_count; i++) {
        size_t C = call->plan->input_shape[i].c;
        if (call->input_gradient[i]) {
            concat_backward(call->compute, M, C, call->op->out.c, offset, call->output_gradient,
                            call->input_gradient[i], call->plan->accumulate[i]);
        }
        offset += C;
    }
}

/* ---- select ---- */

static void forward_select(const struct op_call *call)
{
    const struct op *op = call->op;
    select_forward(call->compute, call->N * op->out.h * op->out.w, op->out.c, op->in.c, op->first,
                   call->input[0], call->output);
}

static void backward_select(const struct op_call *call)
{
    const struct op *op = call->op;
    if (call->input_gradient[0]) {
        select_backward(call->compute, call->N * op->out.h * op->out.w, op->out.c, op->in.c,
                        op->first, call->output_gradient, call->input_gradient[0],
                        call->plan->accumulate[0]);
    }
}

struct op_functions op_functions(const struct arena_op *plan)
{
    static const struct op_functions table[] = {
        [OP_CONV2D] = {forward_conv2d, forward_conv2d, forward_conv2d, backward_conv2d,
                       backward_conv2d_data},
        [OP_LINEAR] = {forward_linear, forward_linear, forward_linear, backward_linear,
                       backward_linear_data},
        [OP_BATCH_NORM] = {forward_batch_norm, evaluate_batch_norm, again_batch_norm,
                           backward_batch_norm, backward_batch_norm_frozen},
        [OP_RELU] = {forward_relu, forward_relu, forward_relu, backward_relu, backward_relu},
        [OP_RELU6] = {forward_relu, forward_relu, forward_relu, backward_relu, backward_relu},
        [OP_MAX_POOL] = {forward_max_pool, forward_max_pool, forward_max_pool, backward_max_pool,
                         backward_max_pool},
        [OP_AVG_POOL] = {forward_avg_pool, forward_avg_pool, forward_avg_pool, backward_avg_pool,
                         backward_avg_pool},
        [OP_GLOBAL_AVG_POOL] = {forward_global_avg_pool, forward_global_avg_pool,
                                forward_global_avg_pool, backward_global_avg_pool,
                                backward_global_avg_pool},
        [OP_FLATTEN] = {forward_same, forward_same, forward_same, backward_same, backward_same},
        [OP_DROPOUT] = {forward_dropout, forward_same, forward_dropout, backward_dropout,
                        backward_same},
        [OP_LAYER_NORM] = {forward_layer_norm, forward_layer_norm, forward_layer_norm,
                           backward_layer_norm, backward_layer_norm},
        [OP_GELU] = {forward_activation, forward_activation, forward_activation,
                     backward_activation, backward_activation},
        [OP_SILU] = {forward_activation, forward_activation, forward_activation,
                     backward_activation, backward_activation},
        [OP_EMBEDDING] = {forward_embedding, forward_embedding, forward_embedding,
                          backward_embedding, backward_nothing},
        [OP_POSITIONS] = {forward_positions, forward_positions, forward_positions,
                          backward_positions, backward_same},
        [OP_ATTENTION] = {forward_attention, forward_attention, forward_attention,
                          backward_attention, backward_attention},
        [OP_SELECT] = {forward_select, forward_select, forward_select, backward_select,
                       backward_select},
        [OP_ADD] = {forward_add, forward_add, forward_add, backward_same, backward_same},
        [OP_CONCAT] = {forward_concat, forward_concat, forward_concat, backward_concat,
                       backward_concat},
    };
    struct op_functions functions = table[plan->op->type];
    if (plan->frozen) {
        functions.forward = functions.again = functions.evaluate;
        functions.backward = functions.backward_frozen;
    }
    return functions;
}
