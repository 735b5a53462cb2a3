#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"
#include "libtrain/kernels/op_workspace.h"
#include "libtrain/model/op_traits.h"
#include "libtrain/ops/conv2d.h"
#include "libtrain/ops/linear.h"
#include "libtrain/stage/stage.h"
#include "libtrain/stage/versions.h"

static size_t local_unit(const struct train_stage *stage, size_t unit)
{
    ASSERT(unit >= stage->config.first && unit < stage->config.end);
    return unit - stage->config.first;
}

static const struct arena_op *op_of(const struct train_stage *stage, size_t unit, size_t op)
{
    return &stage->arena->op[stage->first_op[local_unit(stage, unit)] + op];
}

static bool has_optimizer_state(const struct train_stage *stage, const struct arena_op *plan)
{
    return !plan->frozen && !stage->config.worker;
}

/* [trained_floats] */
static float *optimizer_array(const struct train_stage *stage, size_t array)
{
    return stage->optimizer_state + array * stage->arena->trained_floats;
}

/* A parameter in the latest version. */
static float *parameter_of(const struct train_stage *stage, const struct arena_op *plan,
                           size_t tensor)
{
    return (plan->frozen ? stage->parameter : versions_latest(stage)->trained) +
           plan->tensor[tensor];
}

/* Return transposed scratch of a parameter's size: the memory of the parameter's gradient, if it
 * has a gradient. */
static float *turn_memory(const struct train_stage *stage, const struct arena_op *plan,
                          size_t tensor)
{
    return plan->frozen ? stage->gradients + stage->arena->trained_floats
                        : stage->gradient + plan->tensor[tensor];
}

/* ---- layouts: PyTorch's in blobs, ours in arenas ---- */

/* Whether the two layouts of the tensor differ: only those of convolution and linear weights do. */
static bool is_matrix(const struct op *op, size_t tensor)
{
    return tensor == 0 && (op->type == OP_CONV2D || op->type == OP_LINEAR);
}

static void import_tensor(const struct op *op, size_t tensor, const float *from, float *to)
{
    if (!is_matrix(op, tensor)) {
        memcpy(to, from, op->tensor[tensor].elements * sizeof(float));
    } else if (op->type == OP_LINEAR) {
        linear_import(op->out.c, op->flat_from, from, to);
    } else {
        struct conv2d_shape shape = op_conv2d_shape(op, 1);
        conv2d_import(&shape, from, to);
    }
}

static void export_tensor(const struct op *op, size_t tensor, const float *from, float *to)
{
    if (!is_matrix(op, tensor)) {
        memcpy(to, from, op->tensor[tensor].elements * sizeof(float));
    } else if (op->type == OP_LINEAR) {
        linear_export(op->out.c, op->flat_from, from, to);
    } else {
        struct conv2d_shape shape = op_conv2d_shape(op, 1);
        conv2d_export(&shape, from, to);
    }
}

/* ---- initial state ---- */

/* Bound of the uniform draws, or 0 for a constant. The last layer has no rule of its own, so that a
 * unit's state does not depend on the units after it. */
static float initial_bound(const struct op *op, enum op_initial initial)
{
    if (initial != INITIAL_HE) {
        return initial == INITIAL_TABLE ? (float)sqrt(3.0) : 0.0f;
    }
    size_t fan_in = op->in.c;
    if (op->type == OP_CONV2D) {
        fan_in = (size_t)op->in.c / op->groups * op->kernel.h * op->kernel.w;
    }
    return (float)sqrt(6.0 / (double)fan_in);
}

static void fill(float *to, size_t count, float value)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = value;
    }
}

/* parameter: the parameter's number within the unit. Draws follow PyTorch's order of elements. */
static void initialise_parameter(struct train_stage *stage, const struct arena_op *plan,
                                 size_t tensor, uint32_t parameter)
{
    const struct op *op = plan->op;
    size_t elements = op->tensor[tensor].elements;
    float *to = parameter_of(stage, plan, tensor);
    float *draws = turn_memory(stage, plan, tensor);
    const enum op_initial initial = tensor == 0 ? op_traits(op->type)->initial : INITIAL_ZERO;
    const float bound = initial_bound(op, initial);
    if (bound > 0.0f) {
        struct rng_stream stream =
            rng_stream(stage->config.seed, RNG_INITIALISE, plan->unit, parameter);
        for (size_t i = 0; i < elements; i++) {
            draws[i] = (2.0f * rng_uniform(&stream, i) - 1.0f) * bound;
        }
        import_tensor(op, tensor, draws, to);
    } else {
        fill(to, elements, initial == INITIAL_ONE ? 1.0f : 0.0f);
    }
    fill(draws, elements, 0.0f);
    const size_t arrays =
        has_optimizer_state(stage, plan) ? optimizer_state_arrays(&stage->config.optimizer) : 0;
    for (size_t array = 0; array < arrays; array++) {
        fill(optimizer_array(stage, array) + plan->tensor[tensor], elements, 0.0f);
    }
}

void train_unit_initialise(struct train_stage *stage, size_t unit)
{
    const struct unit *description = &stage_model(stage)->unit[unit];
    uint32_t parameter = 0;
    versions_latest(stage)->contents = ++stage->contents;
    for (size_t k = 0; k < description->op_count; k++) {
        const struct arena_op *plan = op_of(stage, unit, k);
        for (size_t t = 0; t < plan->op->tensor_count; t++) {
            const struct op_tensor *tensor = &plan->op->tensor[t];
            if (tensor->role == TENSOR_PARAMETER) {
                initialise_parameter(stage, plan, t, parameter++);
                continue;
            }
            float value = strcmp(tensor->suffix, "running_var") == 0 ? 1.0f : 0.0f;
            fill(stage->buffer + plan->tensor[t], tensor->elements, value);
            fill(stage->running + plan->tensor[t], tensor->elements, value);
        }
    }
}

/* ---- snapshots ---- */

/* The place of a snapshot's tensor in the stage's arenas. */
static float *memory_of(const struct train_stage *stage, const struct arena_op *plan,
                        const struct state_source *source)
{
    size_t offset = (size_t)plan->tensor[source->tensor];
    switch (source->kind) {
    case STATE_PARAMETER: return parameter_of(stage, plan, source->tensor);
    case STATE_BUFFER: return stage->buffer + offset;
    case STATE_OPTIMIZER: return optimizer_array(stage, source->array) + offset;
    }
    return NULL;
}

size_t train_unit_bytes(const struct train_stage *stage, size_t unit)
{
    return (size_t)stage->layout[local_unit(stage, unit)]->blob_bytes;
}

void train_unit_save(const struct train_stage *stage, size_t unit, void *out)
{
    const struct state_layout *layout = stage->layout[local_unit(stage, unit)];
    unsigned char *data = (unsigned char *)out + layout->header.data_offset;
    ASSERT((uintptr_t)out % sizeof(float) == 0 && !stage->config.worker);
    memcpy(out, layout->header_text, (size_t)layout->header.data_offset);
    for (size_t i = 0; i < layout->header.tensor_count; i++) {
        const struct state_source *source = &layout->source[i];
        const struct arena_op *plan = op_of(stage, unit, source->op);
        export_tensor(plan->op, source->tensor, memory_of(stage, plan, source),
                      (float *)(data + layout->header.tensor[i].begin));
    }
}

static void forget_gradients(struct train_stage *stage, size_t unit)
{
    const struct unit *description = &stage_model(stage)->unit[unit];
    for (size_t k = 0; k < description->op_count; k++) {
        const struct arena_op *plan = op_of(stage, unit, k);
        for (size_t t = 0; t < plan->op->tensor_count; t++) {
            const struct op_tensor *tensor = &plan->op->tensor[t];
            if (tensor->role == TENSOR_PARAMETER) {
                fill(turn_memory(stage, plan, t), tensor->elements, 0.0f);
            }
        }
    }
}

int train_unit_export(struct train_stage *stage, size_t unit, train_write_fn write, void *arg,
                      struct err *err)
{
    const struct state_layout *layout = stage->layout[local_unit(stage, unit)];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < layout->header.tensor_count; i++) {
        const struct state_source *source = &layout->source[i];
        if (source->kind == STATE_OPTIMIZER) {
            break;
        }
        const struct arena_op *plan = op_of(stage, unit, source->op);
        size_t elements = plan->op->tensor[source->tensor].elements;
        const float *memory = memory_of(stage, plan, source);
        if (!is_matrix(plan->op, source->tensor)) {
            rc = write(arg, memory, elements * sizeof(float), err);
            continue;
        }
        float *turned = turn_memory(stage, plan, source->tensor);
        export_tensor(plan->op, source->tensor, memory, turned);
        rc = write(arg, turned, elements * sizeof(float), err);
    }
    forget_gradients(stage, unit);
    return rc;
}

int train_unit_load(struct train_stage *stage, size_t unit, const void *blob, size_t size,
                    struct err *err)
{
    const struct state_layout *layout = stage->layout[local_unit(stage, unit)];
    const char *name = stage_model(stage)->unit[unit].name;
    if (size != layout->blob_bytes) {
        return err_set(err, ERR_FORMAT, "snapshot of unit '%s' has %zu bytes: expected %" PRIu64,
                       name, size, layout->blob_bytes);
    }
    if (memcmp(blob, layout->header_text, (size_t)layout->header.data_offset) != 0) {
        return err_set(err, ERR_FORMAT,
                       "snapshot of unit '%s': its tensors are not those of the unit", name);
    }
    const unsigned char *data = (const unsigned char *)blob + layout->header.data_offset;
    versions_latest(stage)->contents = ++stage->contents;
    for (size_t i = 0; i < layout->header.tensor_count; i++) {
        const struct state_source *source = &layout->source[i];
        const struct arena_op *plan = op_of(stage, unit, source->op);
        size_t bytes = plan->op->tensor[source->tensor].elements * sizeof(float);
        const unsigned char *from = data + layout->header.tensor[i].begin;
        size_t offset = (size_t)plan->tensor[source->tensor];
        if (source->kind == STATE_OPTIMIZER && !has_optimizer_state(stage, plan)) {
            continue;
        }
        if (source->kind == STATE_BUFFER) {
            memcpy(memory_of(stage, plan, source), from, bytes);
            memcpy(stage->running + offset, from, bytes);
            continue;
        }
        /* The blob need not be aligned. */
        float *aligned = turn_memory(stage, plan, source->tensor);
        memcpy(aligned, from, bytes);
        import_tensor(plan->op, source->tensor, aligned, memory_of(stage, plan, source));
        memset(aligned, 0, bytes);
    }
    return 0;
}

/* ---- the state of all units together ---- */

struct train_state train_state(struct train_stage *stage)
{
    const struct arena *arena = stage->arena;
    ASSERT(stage->config.versions <= 1 && stage->config.reduction == REDUCTION_IN_PLACE);
    return (struct train_state){.parameter = versions_latest(stage)->trained,
                                .statistic = stage->buffer,
                                .parameters = (size_t)arena->trained_floats,
                                .statistics = (size_t)arena->buffer_floats};
}

void train_state_changed(struct train_stage *stage)
{
    train_parameters_changed(stage);
    if (stage->arena->buffer_floats > 0) {
        memcpy(stage->running, stage->buffer, (size_t)stage->arena->buffer_floats * sizeof(float));
    }
}

/* The place of an exported tensor in a copy of the state. */
static const float *memory_in(const struct train_stage *stage, const struct train_state *state,
                              const struct arena_op *plan, const struct state_source *source)
{
    const size_t offset = (size_t)plan->tensor[source->tensor];
    return source->kind == STATE_BUFFER ? state->statistic + offset
           : plan->frozen               ? stage->parameter + offset
                                        : state->parameter + offset;
}

const float *train_state_tensor(const struct train_stage *stage, const struct train_state *state,
                                size_t unit, size_t index, float *scratch, size_t *count)
{
    const struct state_layout *layout = stage->layout[local_unit(stage, unit)];
    if (index >= layout->export_count) {
        return NULL;
    }
    const struct state_source *source = &layout->source[index];
    const struct arena_op *plan = op_of(stage, unit, source->op);
    const float *memory = memory_in(stage, state, plan, source);
    *count = plan->op->tensor[source->tensor].elements;
    if (!is_matrix(plan->op, source->tensor)) {
        return memory;
    }
    export_tensor(plan->op, source->tensor, memory, scratch);
    return scratch;
}

size_t train_scratch_floats(const struct train_stage *stage)
{
    size_t most = 0;
    for (size_t g = 0; g < stage->arena->op_count; g++) {
        const struct op *op = stage->arena->op[g].op;
        for (size_t t = 0; t < op->tensor_count; t++) {
            const size_t elements = op->tensor[t].elements;
            most = is_matrix(op, t) && elements > most ? elements : most;
        }
    }
    return most;
}
