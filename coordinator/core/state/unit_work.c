#include "coordinator/core/state/unit_work.h"

#include <math.h>
#include <stdbool.h>

#include "base/elementary.h"
#include "libtrain/kernels/op_workspace.h"
#include "libtrain/model/op_traits.h"

/* Logarithms are relative to usual values, so that features are small. */
#define FLOPS_USUAL 1e8
#define BYTES_USUAL 1e6
#define CHANNELS_USUAL 64.0
#define WEIGHTS_USUAL 1e5
#define ROWS_USUAL 512.0

/* The cost of starting an op, in operations. */
#define OP_FLOPS 50000.0

/* Winograd kernels multiply tiles of 4 x 4 outputs by 36 numbers per filter, which they first
 * compute from its 9 weights. They move correspondingly more bytes than the weights have. */
#define WINOGRAD_TILE 4.0
#define WINOGRAD_PRODUCTS 36.0
#define WINOGRAD_WEIGHT_PASSES 8.0

/* Usual rates, by which features weigh computing against moving bytes. */
#define FLOPS_PER_SECOND_USUAL 2e10
#define BYTES_PER_SECOND_USUAL 1e10

#define HASH_START 0xcbf29ce484222325u
#define HASH_PRIME 0x100000001b3u

/* ---- shape ---- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * HASH_PRIME;
    return hash ^ (hash >> 29);
}

static uint64_t mix_shape(uint64_t hash, struct shape shape)
{
    return mix(mix(mix(hash, shape.h), shape.w), shape.c);
}

static uint64_t mix_extent(uint64_t hash, struct extent extent)
{
    return mix(mix(hash, extent.h), extent.w);
}

static uint64_t mix_op(uint64_t hash, const struct op *op)
{
    hash = mix_shape(mix_shape(mix(hash, (uint64_t)op->type), op->in), op->out);
    hash = mix_extent(mix_extent(mix_extent(hash, op->kernel), op->stride), op->padding);
    hash = mix(mix(mix(hash, op->groups), op->heads), op->rows);
    hash = mix(hash, (uint64_t)op->bias | (uint64_t)op->causal << 1 | (uint64_t)op->ceil_mode << 2);
    for (size_t i = 0; i < CONV2D_PASSES; i++) {
        hash = mix(hash, op->kernels.pass[i]);
    }
    for (size_t i = 0; i < op->input_count; i++) {
        hash = mix(hash, op->input[i]);
    }
    return mix(hash, op->input_count);
}

/* The backward pass depends on the preceding units: if none of them is trained, it computes no
 * gradient of the input. The FLOPs of `cost` reflect this. */
static uint64_t shape_of(const struct unit_setting *setting, size_t index)
{
    const struct unit *unit = &setting->model->unit[index];
    const struct unit_cost *cost = &setting->cost[index];
    uint64_t hash = mix(HASH_START, (uint64_t)setting->samples);
    hash = mix(mix(hash, (uint64_t)setting->recompute), (uint64_t)setting->backend);
    hash = mix(mix(hash, (uint64_t)cost->backward_flops), (uint64_t)cost->backward_bytes);
    hash = mix(mix(hash, (uint64_t)cost->forward_bytes), unit->frozen);
    for (size_t i = 0; i < unit->op_count; i++) {
        hash = mix_op(hash, &unit->op[i]);
    }
    return hash != UNIT_SHAPE_NONE ? hash : 1;
}

/* ---- features ---- */

enum kind { KIND_POINTWISE, KIND_DEPTHWISE, KIND_DENSE, KIND_ATTENTION, KIND_OTHER, KINDS };

/* KINDS: an ordinary convolution, the reference for the other kinds. */
static enum kind kind_of(const struct op *op)
{
    switch (op_traits(op->type)->product) {
    case PRODUCT_CONVOLUTION:
        return op->groups > 1                           ? KIND_DEPTHWISE
               : op->kernel.h == 1 && op->kernel.w == 1 ? KIND_POINTWISE
                                                        : KINDS;
    case PRODUCT_DENSE: return KIND_DENSE;
    case PRODUCT_ATTENTION: return KIND_ATTENTION;
    case PRODUCT_NONE: break;
    }
    return KIND_OTHER;
}

static double multiply_adds(const struct op *op, enum kind kind)
{
    const double out = (double)shape_elements(op->out);
    if (kind == KIND_ATTENTION) {
        return 2 * out * op->in.h;
    }
    return kind == KIND_OTHER ? 0 : out * ((double)op->tensor[0].elements / op->out.c);
}

/* The sum of operations and bytes of an op: on usual machines, one of each takes about the same
 * time. */
static double weight_of(const struct op *op, enum kind kind)
{
    const double elements = (double)shape_elements(op->out) + (double)shape_elements(op->in);
    return op->type == OP_FLATTEN ? 0 : 2 * multiply_adds(op, kind) + sizeof(float) * elements;
}

/* The part of an op's pass that Winograd kernels compute with fewer multiplications. */
static double winograd_part(const struct op *op, enum conv2d_backend backend, enum unit_pass pass)
{
    if (op->type != OP_CONV2D) {
        return 0;
    }
    const struct conv2d_kernels kernels = op_conv2d_kernels(op, backend);
    double parts[CONV2D_PASSES];
    for (size_t i = 0; i < CONV2D_PASSES; i++) {
        const enum conv2d_kernel kernel = (enum conv2d_kernel)kernels.pass[i];
        parts[i] = kernel == CONV2D_WINOGRAD4 || kernel == CONV2D_ONEDNN_WINOGRAD ? 1 : 0;
    }
    return pass == UNIT_FORWARD
               ? parts[CONV2D_FORWARD]
               : (parts[CONV2D_BACKWARD_DATA] + parts[CONV2D_BACKWARD_WEIGHTS]) / 2;
}

/* Operations of a sample that a Winograd kernel saves; below 0 if tiles exceed the output. */
static double winograd_saves(const struct op *op)
{
    const double tiles = ceil(op->out.h / WINOGRAD_TILE) * ceil(op->out.w / WINOGRAD_TILE);
    const double products = tiles * WINOGRAD_PRODUCTS * op->in.c * op->out.c;
    return op->type == OP_CONV2D ? 2 * (multiply_adds(op, KINDS) - products) : 0;
}

static double log_of(double value, double usual)
{
    return elementary_log(fmax(value, 1) / usual);
}

/* Means over the ops by their weight. */
struct mixture {
    double share[KINDS], channels_in, channels_out, rows, stride;
    double winograd[UNIT_PASSES]; /* of the weight */
    double saved[UNIT_PASSES];    /* operations of a sample that Winograd kernels save */
    double moved[UNIT_PASSES];    /* additional bytes that they move */
};

static void divide(double *sums, size_t count, double by)
{
    for (size_t i = 0; i < count; i++) {
        sums[i] = by > 0 ? sums[i] / by : 0;
    }
}

static void mix_ops(const struct unit *unit, const struct unit_setting *setting,
                    struct mixture *out)
{
    double weights = 0;
    *out = (struct mixture){0};
    for (size_t i = 0; i < unit->op_count; i++) {
        const struct op *op = &unit->op[i];
        const enum kind kind = kind_of(op);
        const double weight = weight_of(op, kind);
        const double rows = (double)setting->samples * op->out.h * op->out.w;
        weights += weight;
        if (kind < KINDS) {
            out->share[kind] += weight;
        }
        out->channels_in += weight * log_of(op->in.c, CHANNELS_USUAL);
        out->channels_out += weight * log_of(op->out.c, CHANNELS_USUAL);
        out->rows += weight * log_of(rows, ROWS_USUAL);
        out->stride += op->stride.h > 1 ? weight : 0;
        for (enum unit_pass pass = 0; pass < UNIT_PASSES; pass++) {
            const double part = winograd_part(op, setting->backend, pass);
            out->winograd[pass] += part * weight;
            out->saved[pass] += (1 + (double)pass) * part * winograd_saves(op);
            out->moved[pass] += (1 + (double)pass) * part * WINOGRAD_WEIGHT_PASSES *
                                (double)op->tensor[0].elements * sizeof(float);
        }
    }
    divide(out->share, KINDS, weights);
    divide(&out->channels_in, 1, weights);
    divide(&out->channels_out, 1, weights);
    divide(&out->rows, 1, weights);
    divide(&out->stride, 1, weights);
    divide(out->winograd, UNIT_PASSES, weights);
}

static void fill_features(const struct mixture *mixture, enum unit_pass pass, double weights,
                          struct unit_work *work)
{
    /* Moving data without computing counts as one operation per byte. */
    const double bytes = work->bytes[pass];
    const double log_flops = log_of(fmax(work->flops[pass], bytes), FLOPS_USUAL);
    const double log_bytes = log_of(bytes, BYTES_USUAL);
    const double moving = bytes / BYTES_PER_SECOND_USUAL;
    const double starting = work->op_count * OP_FLOPS / FLOPS_PER_SECOND_USUAL;
    const double seconds =
        unit_work_seconds(work, pass, FLOPS_PER_SECOND_USUAL, BYTES_PER_SECOND_USUAL);
    const double features[LATENCY_FEATURES] = {
        1,
        log_flops,
        log_bytes,
        mixture->share[KIND_POINTWISE],
        mixture->share[KIND_DEPTHWISE],
        mixture->share[KIND_DENSE],
        mixture->share[KIND_ATTENTION],
        mixture->share[KIND_OTHER],
        mixture->winograd[pass],
        mixture->channels_in,
        mixture->channels_out,
        mixture->rows,
        mixture->stride,
        log_of(weights, WEIGHTS_USUAL),
        fmin(mixture->rows, 0), /* products of few rows */
        moving / seconds,
        starting / seconds,
        mixture->share[KIND_DEPTHWISE] * log_flops,
    };
    for (size_t i = 0; i < LATENCY_FEATURES; i++) {
        work->features[pass][i] = features[i];
    }
}

void unit_work_of(const struct unit_setting *setting, size_t unit, struct unit_work *out)
{
    const struct unit_cost *cost = &setting->cost[unit];
    const double samples = (double)setting->samples;
    const double weights = (double)cost->parameter_bytes;
    const bool backward = cost->backward_flops > 0 || cost->backward_bytes > 0;
    struct mixture mixture;
    mix_ops(&setting->model->unit[unit], setting, &mixture);
    *out = (struct unit_work){.shape = shape_of(setting, unit),
                              .op_count = (double)setting->model->unit[unit].op_count,
                              .trained_bytes = (double)cost->trained_bytes};
    out->flops[UNIT_FORWARD] = samples * cost->forward_flops;
    out->bytes[UNIT_FORWARD] = samples * cost->forward_bytes + weights;
    if (backward) { /* weights are read once, and their gradients written once */
        out->flops[UNIT_BACKWARD] = samples * cost->backward_flops;
        out->bytes[UNIT_BACKWARD] = samples * cost->backward_bytes + 2 * weights;
    }
    for (enum unit_pass pass = 0; pass < UNIT_PASSES; pass++) {
        if (out->flops[pass] > 0) {
            out->flops[pass] = fmax(out->flops[pass] - samples * mixture.saved[pass],
                                    out->flops[pass] / WINOGRAD_PRODUCTS);
            out->bytes[pass] += mixture.moved[pass];
        }
        fill_features(&mixture, pass, weights, out);
    }
    const double forward = cost->forward_flops + cost->forward_bytes;
    if (setting->recompute == RECOMPUTE_UNIT && backward && forward > 0) {
        out->again = fmin((cost->again_flops + cost->again_bytes) / forward, 1);
    }
}

double unit_work_seconds(const struct unit_work *work, enum unit_pass pass, double flops_per_second,
                         double bytes_per_second)
{
    return (work->flops[pass] + work->op_count * OP_FLOPS) / flops_per_second +
           work->bytes[pass] / bytes_per_second;
}
