/* Plans the passes step by step: which storages exist, and from which step to which step. */
#include "base/assert.h"
#include "base/size.h"
#include "libtrain/memory/arena_parts.h"
#include "libtrain/model/op_traits.h"

static uint64_t tensor_bytes(const struct planner *planner, size_t tensor)
{
    return (uint64_t)shape_elements(planner->tensor[tensor].shape) * planner->arena->micro_batch *
           sizeof(float);
}

static size_t storage_add(struct planner *planner, enum arena_area area, uint64_t bytes, bool keep)
{
    size_t index = planner->storage_count++;
    ASSERT(index < planner->storage_capacity);
    planner->storage[index] = (struct storage){
        .bytes = workspace_align(bytes), .first = planner->step, .last = planner->step};
    planner->holder[index] = (struct holder){.area = area, .keep = keep};
    return index;
}

static void use(struct planner *planner, size_t storage)
{
    planner->storage[storage].last = planner->step;
}

/* ---- activations ---- */

/* Return the storage that op g writes to: the storage of its input if possible. */
static size_t output_storage(struct planner *planner, enum pass pass, size_t g, bool keep)
{
    const struct op *op = planner->arena->op[g].op;
    ASSERT(op);
    const struct op_traits *trait = op_traits(op->type);
    size_t input = planner->tensor[input_of(planner, g, 0)].storage[pass];
    const struct holder *holder = &planner->holder[input];
    bool pass_on = trait->pass || planner->arena->op[g].fusion == ARENA_DONE_BEFORE;
    if (pass_on ||
        (trait->in_place && !is_outside(planner, input) && !holder->shared && !holder->keep)) {
        return input;
    }
    return storage_add(planner, ARENA_WORKSPACE, tensor_bytes(planner, g + 1), keep);
}

static void put_tensor(struct planner *planner, enum pass pass, size_t tensor, size_t storage,
                       bool keep)
{
    struct holder *holder = &planner->holder[storage];
    planner->tensor[tensor].storage[pass] = storage;
    holder->shared = holder->shared || planner->tensor[tensor].consumers > 1;
    holder->keep = holder->keep || keep;
}

/* Plan the step of op g: record the storage that it writes and the tensors that it reads. */
static void plan_op(struct planner *planner, enum pass pass, size_t g, bool keep)
{
    const struct op *op = planner->arena->op[g].op;
    planner->step++;
    /* A kept tensor is recomputed into its own place: the next unit's backward read it there. */
    bool lies = pass == PASS_BACKWARD && planner->tensor[g + 1].kept;
    size_t output =
        lies ? planner->tensor[g + 1].storage[pass] : output_storage(planner, pass, g, keep);
    put_tensor(planner, pass, g + 1, output, keep);
    use(planner, output);
    for (size_t i = 0; i < op->input_count; i++) {
        use(planner, planner->tensor[input_of(planner, g, i)].storage[pass]);
    }
}

static uint64_t saved_bytes(const struct planner *planner, size_t g)
{
    const struct op *op = planner->arena->op[g].op;
    uint64_t samples = planner->arena->micro_batch;
    switch (op->type) {
    case OP_BATCH_NORM:
        return planner->arena->op[g].frozen
                   ? 0
                   : (uint64_t)BATCH_NORM_SAVED * op->out.c * sizeof(float);
    case OP_LAYER_NORM: return (uint64_t)2 * op->out.h * op->out.w * samples * sizeof(float);
    case OP_MAX_POOL: return (uint64_t)shape_elements(op->out) * samples * sizeof(uint16_t);
    case OP_CONV2D:
    case OP_LINEAR:
    case OP_RELU:
    case OP_RELU6:
    case OP_AVG_POOL:
    case OP_GLOBAL_AVG_POOL:
    case OP_FLATTEN:
    case OP_DROPOUT:
    case OP_GELU:
    case OP_SILU:
    case OP_EMBEDDING:
    case OP_POSITIONS:
    case OP_ATTENTION:
    case OP_SELECT:
    case OP_ADD:
    case OP_CONCAT: break;
    }
    return 0;
}

/* Add the storage of the data that op g saves with its output, in the step of op g. */
static void plan_saved(struct planner *planner, enum pass pass, size_t g, bool keep)
{
    uint64_t bytes = saved_bytes(planner, g);
    if (bytes > 0) {
        planner->tensor[g + 1].saved[pass] = storage_add(planner, ARENA_WORKSPACE, bytes, keep);
    }
}

/* The first storage holds the input. The last step writes the output or the loss. */
void planner_forward(struct planner *planner, bool training)
{
    struct arena *arena = planner->arena;
    const enum pass pass = PASS_FORWARD;
    enum arena_area area = arena->scale_input ? ARENA_WORKSPACE : ARENA_STAGE_INPUT;
    size_t last = planner->op_count;
    planner->step = 0;
    planner->storage_count = 0;
    size_t input = storage_add(planner, area, tensor_bytes(planner, 0), false);
    put_tensor(planner, pass, 0, input, training && planner->tensor[0].kept);
    for (size_t g = 0; g < last; g++) {
        const struct arena_op *op = &arena->op[g];
        planner->tensor[g + 1].saved[pass] = NO_STORAGE;
        plan_op(planner, pass, g, training && planner->tensor[g + 1].kept);
        if (training) {
            bool later = op->again && op_traits(op->op->type)->saved_again;
            plan_saved(planner, pass, g, planner->tensor[g + 1].wants && !later);
        }
    }
    planner->step++;
    use(planner, planner->tensor[last].storage[pass]);
}

/* Kept tensors are laid out side by side in the slot. */
static void place_slot(struct planner *planner)
{
    struct arena *arena = planner->arena;
    for (size_t i = 0; i < planner->storage_count; i++) {
        struct holder *holder = &planner->holder[i];
        if (holder->keep && holder->area == ARENA_WORKSPACE) {
            holder->area = ARENA_SLOT;
            planner->storage[i].offset = arena->slot_bytes;
            arena->slot_bytes += planner->storage[i].bytes;
        }
    }
}

/* Recompute the tensors that the backward of the unit with ops [g, end) reads and forward did not
 * keep. */
static void plan_again(struct planner *planner, size_t g, size_t end)
{
    struct arena *arena = planner->arena;
    const enum pass pass = PASS_BACKWARD;
    if (g == 0 && arena->scale_again) {
        planner->step++;
        size_t input = storage_add(planner, ARENA_WORKSPACE, tensor_bytes(planner, 0),
                                   planner->tensor[0].read);
        put_tensor(planner, pass, 0, input, planner->tensor[0].read);
    }
    for (; g < end; g++) {
        if (arena->op[g].again) {
            plan_op(planner, pass, g, planner->tensor[g + 1].read);
            if (op_traits(arena->op[g].op->type)->saved_again) {
                plan_saved(planner, pass, g, true);
            }
        }
    }
}

/* ---- gradients ---- */

/* Choose the storage to which op g's backward writes the gradient of its i-th input. */
static void plan_input_gradient(struct planner *planner, size_t g, size_t i)
{
    struct arena_op *op = &planner->arena->op[g];
    const struct op_traits *trait = op_traits(op->op->type);
    size_t input = input_of(planner, g, i);
    if (!planner->tensor[input].wants) {
        return;
    }
    if (planner->tensor[input].gradient != NO_STORAGE) {
        op->accumulate[i] = true;
        use(planner, planner->tensor[input].gradient);
        return;
    }
    size_t from = planner->tensor[g + 1].gradient;
    bool alone = planner->tensor[input].consumers == 1 && input != 0;
    bool pass = trait->pass_gradient || op->fusion == ARENA_DONE_BEFORE;
    bool in_place = trait->gradient_in_place && !is_outside(planner, from) &&
                    planner->holder[from].readers == 0;
    if (input == 0) {
        planner->tensor[input].gradient = storage_add(planner, ARENA_INPUT_GRADIENT, 0, false);
    } else if (alone && (in_place || pass)) {
        planner->tensor[input].gradient = from;
    } else {
        planner->tensor[input].gradient =
            storage_add(planner, ARENA_WORKSPACE, tensor_bytes(planner, input), false);
    }
    planner->holder[planner->tensor[input].gradient].readers++;
    use(planner, planner->tensor[input].gradient);
}

/* Record the forward pass's tensors that the backward of op g reads. */
static void use_activations(struct planner *planner, size_t g)
{
    const struct arena_op *op = &planner->arena->op[g];
    const struct op_traits *trait = op_traits(op->op->type);
    const enum pass pass = PASS_BACKWARD;
    if (op->fusion == ARENA_DONE_BEFORE) {
        return;
    }
    for (size_t i = 0; trait->backward_input && i < op->op->input_count; i++) {
        use(planner, planner->tensor[input_of(planner, g, i)].storage[pass]);
    }
    if (trait->backward_output && op->fusion == ARENA_ALONE) {
        use(planner, planner->tensor[g + 1].storage[pass]);
    }
    if (planner->tensor[g + 1].saved[pass] != NO_STORAGE) {
        use(planner, planner->tensor[g + 1].saved[pass]);
    }
}

/* Plan the gradient that the backward pass begins with. */
void planner_loss(struct planner *planner)
{
    struct arena *arena = planner->arena;
    size_t last = planner->op_count;
    bool loss = arena->end == arena->model->unit_count;
    size_t output = loss ? storage_add(planner, ARENA_WORKSPACE, tensor_bytes(planner, last), true)
                         : storage_add(planner, ARENA_OUTPUT_GRADIENT, 0, true);
    if (planner->tensor[last].wants) {
        planner->tensor[last].gradient = output;
        planner->holder[output].readers = 1;
    }
    place_slot(planner);
    arena->output_gradient = place_of(planner, output);
    planner->backward_first = planner->storage_count;
}

/* Plan each unit, from the last to the first: its recompute pass, then the backward of its ops. */
void planner_backward(struct planner *planner)
{
    struct arena *arena = planner->arena;
    for (size_t t = 0; t <= planner->op_count; t++) {
        struct tensor *tensor = &planner->tensor[t];
        tensor->storage[PASS_BACKWARD] = tensor->storage[PASS_FORWARD];
        tensor->saved[PASS_BACKWARD] = tensor->saved[PASS_FORWARD];
    }
    for (size_t g = planner->op_count; g-- > 0;) {
        if (g + 1 == planner->op_count || planner->base[g] != planner->base[g + 1]) {
            plan_again(planner, planner->base[g], g + 1);
        }
        planner->step++;
        if (planner->tensor[g + 1].gradient == NO_STORAGE) {
            continue;
        }
        use_activations(planner, g);
        use(planner, planner->tensor[g + 1].gradient);
        planner->holder[planner->tensor[g + 1].gradient].readers--;
        for (size_t i = 0; i < arena->op[g].op->input_count; i++) {
            plan_input_gradient(planner, g, i);
        }
    }
}
