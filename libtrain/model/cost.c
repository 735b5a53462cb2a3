#include "libtrain/model/cost.h"

#include <stdbool.h>

#include "libtrain/model/op_traits.h"
#include "libtrain/model/unit_graph.h"

#define SOFTMAX_FLOPS 13 /* per score: scale, maximum, exponential, sum, division */

/* Operations of an op per element, for ops whose count does not depend on a window. Batch-norm
 * forward: mean 1, variance 3, scale and shift 2; backward: the two sums 5, the gradient 5.
 * Layer-norm: the same, and the gradient of the weight. Dropout: mask and scale. The exponential of
 * gelu, silu and softmax counts 10. */
static const struct {
    double forward, backward; /* per output element */
    uint32_t
        keeps_bytes; /* saved per output element: the position in the window that has the maximum */
    uint32_t row_bytes; /* saved per position: its mean and deviation */
} ops[] = {
    [OP_CONV2D] = {0},
    [OP_LINEAR] = {0},
    [OP_BATCH_NORM] = {.forward = 6, .backward = 10},
    [OP_RELU] = {.forward = 1, .backward = 1},
    [OP_RELU6] = {.forward = 2, .backward = 2},
    [OP_MAX_POOL] = {.backward = 1, .keeps_bytes = sizeof(uint16_t)},
    [OP_AVG_POOL] = {0},
    [OP_GLOBAL_AVG_POOL] = {0},
    [OP_FLATTEN] = {0},
    [OP_DROPOUT] = {.forward = 2, .backward = 1},
    [OP_LAYER_NORM] = {.forward = 6, .backward = 14, .row_bytes = 2 * sizeof(float)},
    [OP_GELU] = {.forward = 30, .backward = 35},
    [OP_SILU] = {.forward = 12, .backward = 15},
    [OP_EMBEDDING] = {.backward = 1},
    [OP_POSITIONS] = {.forward = 1, .backward = 1},
    [OP_ATTENTION] = {0},
    [OP_SELECT] = {0},
    [OP_ADD] = {.forward = 1, .backward = 1},
    [OP_CONCAT] = {0},
};

static double elements(struct shape shape)
{
    return (double)shape_elements(shape);
}

/* Scores of an attention per sample: pairs of positions that see each other, for each head. */
static double scores(const struct op *op)
{
    double T = op->in.h;
    return op->heads * (op->causal ? T * (T + 1) / 2 : T * T);
}

/* Multiply-adds of a convolution or linear per sample: output elements x weights that each element
 * reads. Attention: the products of queries and keys; those of probabilities and values are as many
 * again. */
static double multiply_adds(const struct op *op)
{
    if (op->type == OP_ATTENTION) {
        return scores(op) * (op->out.c / op->heads);
    }
    double weights = (double)op->tensor[0].elements / op->out.c;
    return elements(op->out) * weights;
}

static double forward_flops(const struct op *op)
{
    double out = elements(op->out);
    double window = (double)op->kernel.h * op->kernel.w;
    switch (op->type) {
    case OP_CONV2D:
    case OP_LINEAR: return 2 * multiply_adds(op) + (op->bias ? out : 0);
    case OP_MAX_POOL:
    case OP_AVG_POOL: return out * window;
    case OP_GLOBAL_AVG_POOL: return elements(op->in);
    case OP_ATTENTION: return 4 * multiply_adds(op) + SOFTMAX_FLOPS * scores(op);
    case OP_BATCH_NORM:
    case OP_RELU:
    case OP_RELU6:
    case OP_FLATTEN:
    case OP_DROPOUT:
    case OP_LAYER_NORM:
    case OP_GELU:
    case OP_SILU:
    case OP_EMBEDDING:
    case OP_POSITIONS:
    case OP_SELECT:
    case OP_ADD:
    case OP_CONCAT: return out * ops[op->type].forward;
    }
    return 0;
}

/* Which gradients an op computes. */
struct wanted {
    bool input;   /* false if its input depends on the model's input and frozen units alone */
    bool weights; /* it has trained parameters */
};

static double backward_flops(const struct op *op, struct wanted wanted)
{
    const bool input_gradient = wanted.input;
    double out = elements(op->out);
    double window = (double)op->kernel.h * op->kernel.w;
    switch (op->type) {
    case OP_CONV2D:
    case OP_LINEAR:
        return 2 * multiply_adds(op) * (input_gradient + wanted.weights) +
               (op->bias && wanted.weights ? out : 0);
    case OP_AVG_POOL: return input_gradient ? out * window : 0;
    case OP_GLOBAL_AVG_POOL: return input_gradient ? elements(op->in) : 0;
    case OP_BATCH_NORM:
        return out * (!wanted.weights  ? input_gradient
                      : input_gradient ? ops[op->type].backward
                                       : 5);
    case OP_LAYER_NORM:
        return out * (input_gradient ? ops[op->type].backward : wanted.weights ? 5 : 0);
    case OP_EMBEDDING: return wanted.weights ? out * ops[op->type].backward : 0;
    case OP_POSITIONS: return wanted.weights || input_gradient ? out * ops[op->type].backward : 0;
    /* Recomputed scores, and the gradients of the values, probabilities, queries and keys. */
    case OP_ATTENTION:
        return input_gradient ? 10 * multiply_adds(op) + (SOFTMAX_FLOPS + 5) * scores(op) : 0;
    case OP_MAX_POOL:
    case OP_RELU:
    case OP_RELU6:
    case OP_FLATTEN:
    case OP_DROPOUT:
    case OP_GELU:
    case OP_SILU:
    case OP_SELECT:
    case OP_ADD:
    case OP_CONCAT: return input_gradient ? out * ops[op->type].backward : 0;
    }
    return 0;
}

/* Memory traffic: every input and output once. A flatten moves nothing. A select reads only the
 * channels that it writes. */
static double moved_bytes(const struct unit *unit, const struct op *op, double first_input_size)
{
    if (op->type == OP_FLATTEN) {
        return 0;
    }
    double bytes = 4 * elements(op->out);
    if (op->type == OP_SELECT) {
        return 2 * bytes;
    }
    for (size_t i = 0; i < op->input_count; i++) {
        uint16_t from = op->input[i];
        bytes += from == 0 ? first_input_size * elements(unit->in)
                           : 4 * elements(unit->op[from - 1].out);
    }
    return bytes;
}

/* The bytes that a unit keeps from forward to backward without RECOMPUTE_UNIT. */
struct kept {
    uint64_t bytes; /* of its ops' outputs; the input belongs to the preceding unit */
    bool input;     /* its input is kept */
};

/* Whether the op's output shares its input's memory: a flatten, or a relu fused into a
 * batch_norm. */
static bool passes_on(const struct unit *unit, size_t op)
{
    return op_traits(unit->op[op].type)->pass || (op > 0 && unit_fuses(unit, op - 1));
}

/* Kept: outputs that some op's backward reads, and the saved data of ops. gradient[i + 1]: op i has
 * a backward; output: the next unit's backward reads this unit's output. */
static struct kept find_kept(const struct unit *unit, const bool *gradient, bool output)
{
    bool kept[MODEL_UNIT_OPS_MAX + 1] = {false};
    uint64_t bytes = 0;
    kept[unit->op_count] = output;
    for (size_t i = 0; i < unit->op_count; i++) {
        const struct op_traits *trait = op_traits(unit->op[i].type);
        if (!gradient[i + 1] || (i > 0 && unit_fuses(unit, i - 1))) {
            continue;
        }
        kept[i + 1] = kept[i + 1] || (trait->backward_output && !unit_fuses(unit, i));
        for (size_t k = 0; k < unit->op[i].input_count; k++) {
            kept[unit->op[i].input[k]] = kept[unit->op[i].input[k]] || trait->backward_input;
        }
    }
    for (size_t i = unit->op_count; i > 0; i--) {
        const struct op *op = &unit->op[i - 1];
        uint64_t size = shape_elements(op->out);
        if (passes_on(unit, i - 1)) {
            kept[op->input[0]] = kept[op->input[0]] || kept[i];
        } else if (kept[i]) {
            bytes += size * 4;
        }
        if (gradient[i]) {
            bytes += size * ops[op->type].keeps_bytes +
                     (uint64_t)op->out.h * op->out.w * ops[op->type].row_bytes;
        }
    }
    return (struct kept){.bytes = bytes, .input = kept[0]};
}

/* gradient[0]: the unit's input has a gradient; gradient[i + 1]: out, whether op i has a backward.
 */
static struct wanted find_wanted(const struct unit *unit, size_t i, bool *gradient)
{
    const struct op *op = &unit->op[i];
    struct wanted wanted = {.weights = op->tensor_count > 0 && !unit->frozen};
    for (size_t k = 0; k < op->input_count; k++) {
        wanted.input = wanted.input || gradient[op->input[k]];
    }
    gradient[i + 1] = wanted.input || wanted.weights;
    return wanted;
}

static void count_tensors(const struct unit *unit, const struct op *op, struct unit_cost *cost)
{
    for (size_t k = 0; k < op->tensor_count; k++) {
        uint64_t bytes = (uint64_t)op->tensor[k].elements * 4;
        cost->parameter_bytes += op->tensor[k].role == TENSOR_PARAMETER ? bytes : 0;
        cost->trained_bytes += op->tensor[k].role == TENSOR_PARAMETER && !unit->frozen ? bytes : 0;
        cost->buffer_bytes += op->tensor[k].role == TENSOR_BUFFER ? bytes : 0;
    }
}

void cost_count_unit(const struct unit *unit, bool hands_back, size_t input_size,
                     struct unit_cost *cost)
{
    bool gradient[MODEL_UNIT_OPS_MAX + 1] = {hands_back};
    struct unit_again again;
    unit_plan_again(unit, hands_back, &again);
    *cost = (struct unit_cost){
        .output_bytes = shape_elements(unit->out) * 4,
    };
    for (size_t i = 0; i < unit->op_count; i++) {
        const struct op *op = &unit->op[i];
        struct wanted wanted = find_wanted(unit, i, gradient);
        double moved = moved_bytes(unit, op, (double)input_size);
        cost->forward_flops += forward_flops(op);
        cost->backward_flops += backward_flops(op, wanted);
        cost->forward_bytes += moved;
        cost->again_flops += again.op[i] ? forward_flops(op) : 0;
        cost->again_bytes += again.op[i] ? moved : 0;
        /* The weight gradient and the data gradient each go over the tensors once. */
        cost->backward_bytes += moved * (wanted.weights + wanted.input);
        count_tensors(unit, op, cost);
    }
}

void cost_count_ops(const struct unit *unit, bool hands_back, struct op_cost *cost)
{
    bool gradient[MODEL_UNIT_OPS_MAX + 1] = {hands_back};
    for (size_t i = 0; i < unit->op_count; i++) {
        const struct wanted wanted = find_wanted(unit, i, gradient);
        cost[i] = (struct op_cost){.forward_flops = forward_flops(&unit->op[i]),
                                   .backward_flops = backward_flops(&unit->op[i], wanted)};
    }
}

/* Return the unit's activation_bytes. *border: in, whether the unit's output is kept; out, whether
 * its input is kept. */
static uint64_t count_activations(const struct unit *unit, bool hands_back, bool *border)
{
    bool gradient[MODEL_UNIT_OPS_MAX + 1] = {hands_back};
    for (size_t i = 0; i < unit->op_count; i++) {
        (void)find_wanted(unit, i, gradient);
    }
    struct kept kept = find_kept(unit, gradient, *border);
    *border = kept.input;
    return kept.bytes;
}

void cost_count(const struct model *model, struct unit_cost *cost)
{
    const size_t first = model_first_trained(model);
    bool border = false; /* no backward reads the last output; the loss's gradient, of the same
                            size, is kept instead */
    for (size_t i = model->unit_count; i-- > 0;) {
        const size_t input_size = i == 0 ? dtype_size(model->input_dtype) : sizeof(float);
        cost_count_unit(&model->unit[i], i > first, input_size, &cost[i]);
        cost[i].activation_bytes = count_activations(&model->unit[i], i > first, &border);
    }
    cost[model->unit_count - 1].activation_bytes += cost[model->unit_count - 1].output_bytes;
    if (border && model_scales_input(model)) {
        cost[0].activation_bytes += shape_elements(model->input) * 4;
    }
}

uint64_t cost_state_bytes(const struct model *model)
{
    struct unit_cost cost[MODEL_UNITS_MAX];
    uint64_t bytes = 0;
    cost_count(model, cost);
    for (size_t u = 0; u < model->unit_count; u++) {
        bytes += cost[u].parameter_bytes + cost[u].buffer_bytes;
    }
    return bytes;
}
