#include "libtrain/model/arena.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/size.h"
#include "libtrain/model/onednn_plan.h"
#include "libtrain/model/op_traits.h"
#include "libtrain/model/op_workspace.h"

/* A piece of memory that one or more tensors live in, one after the other. */
struct storage {
    enum arena_area area; /* decided last for activations: SLOT when kept */
    uint64_t bytes;
    uint64_t offset;
    size_t first, last; /* steps in which it is alive */
    bool keep;          /* backward reads it */
    bool shared;        /* a tensor on it has several readers */
    size_t readers;     /* gradients: ops whose backward still reads it */
};

/* Tensors are numbered through the stage: 0 is the stage's input, g + 1 the output of op g. Steps count through a
 * forward and a backward pass: op g runs in step g + 1 and in step 2 * op_count + 1 - g. */
struct planner {
    struct arena *arena;
    size_t op_count;
    size_t *base;        /* [op_count] number of the input tensor of the op's unit */
    size_t *consumers;   /* [op_count + 1] */
    bool *wants;         /* [op_count + 1] has a gradient */
    struct shape *shape; /* [op_count + 1] */
    struct storage *storage;
    size_t storage_count, storage_capacity;
    size_t *live;       /* [storage_capacity] storages in the workspace, by offset */
    size_t *activation; /* [op_count + 1] storage of the tensor */
    size_t *gradient;   /* [op_count + 1] storage of its gradient, or NO_STORAGE */
};

#define NO_STORAGE SIZE_MAX

static uint64_t tensor_bytes(const struct planner *planner, size_t tensor)
{
    return (uint64_t)shape_elements(planner->shape[tensor]) * planner->arena->micro_batch * sizeof(float);
}

static size_t storage_add(struct planner *planner, enum arena_area area, uint64_t bytes, size_t step)
{
    ASSERT(planner->storage_count < planner->storage_capacity);
    planner->storage[planner->storage_count] =
        (struct storage){.area = area, .bytes = size_align(bytes, WORKSPACE_ALIGNMENT), .first = step, .last = step};
    return planner->storage_count++;
}

static struct arena_place place_of(const struct planner *planner, size_t storage)
{
    return (struct arena_place){.area = planner->storage[storage].area, .offset = planner->storage[storage].offset};
}

static bool is_outside(const struct storage *storage)
{
    return storage->area != ARENA_WORKSPACE && storage->area != ARENA_NOWHERE;
}

/* ---- the graph ---- */

/* Parameters and buffers lie in their arenas in the order of the ops, but frozen parameters behind the others. */
static void place_tensors(struct arena *arena, bool frozen)
{
    for (size_t g = 0; g < arena->op_count; g++) {
        struct arena_op *op = &arena->op[g];
        for (size_t t = 0; t < op->op->tensor_count && op->frozen == frozen; t++) {
            const struct op_tensor *tensor = &op->op->tensor[t];
            uint64_t *end = tensor->role == TENSOR_PARAMETER ? &arena->parameter_floats : &arena->buffer_floats;
            uint64_t floats = size_align(tensor->elements * sizeof(float), WORKSPACE_ALIGNMENT) / sizeof(float);
            op->tensor[t] = *end;
            *end += floats;
            arena->turn_floats = frozen && floats > arena->turn_floats ? floats : arena->turn_floats;
        }
    }
    arena->trained_floats = frozen ? arena->trained_floats : arena->parameter_floats;
}

static void number_tensors(struct planner *planner)
{
    struct arena *arena = planner->arena;
    const struct model *model = arena->model;
    size_t g = 0;
    planner->shape[0] = model->unit[arena->first].in;
    planner->wants[0] = arena->hands_back = arena->first > model_first_trained(model);
    for (size_t u = arena->first; u < arena->end; u++) {
        const struct unit *unit = &model->unit[u];
        size_t base = g;
        for (size_t k = 0; k < unit->op_count; k++, g++) {
            struct arena_op *op = &arena->op[g];
            op->op = &unit->op[k];
            op->unit = (uint16_t)u;
            op->index = (uint16_t)k;
            op->frozen = unit->frozen;
            if (op->op->type == OP_CONV2D) {
                op->kernels = op_conv2d_kernels(op->op, arena->backend);
            }
            planner->base[g] = base;
            planner->shape[g + 1] = op->op->out;
            planner->wants[g + 1] = op->op->tensor_count > 0 && !unit->frozen;
            for (size_t i = 0; i < op->op->input_count; i++) {
                size_t input = base + op->op->input[i];
                op->input_shape[i] = planner->shape[input];
                planner->consumers[input]++;
                planner->wants[g + 1] = planner->wants[g + 1] || planner->wants[input];
            }
        }
    }
}

static bool is_relu(const struct op *op)
{
    return op->type == OP_RELU || op->type == OP_RELU6;
}

/* The two ops lie next to each other and nobody else reads what is between them. */
static void find_fusions(struct planner *planner)
{
    struct arena *arena = planner->arena;
    for (size_t g = 0; g + 1 < planner->op_count; g++) {
        struct arena_op *op = &arena->op[g];
        struct arena_op *next = &arena->op[g + 1];
        if (op->op->type == OP_BATCH_NORM && op->unit == next->unit && is_relu(next->op) &&
            planner->base[g + 1] + next->op->input[0] == g + 1 && planner->consumers[g + 1] == 1) {
            op->fusion = ARENA_WITH_NEXT;
            next->fusion = ARENA_DONE_BEFORE;
        }
    }
}

/* ---- activations ---- */

/* The storage that op g writes to: its input's where that is possible. */
static size_t output_storage(struct planner *planner, size_t g, bool training)
{
    const struct op *op = planner->arena->op[g].op;
    ASSERT(op);
    const struct op_traits *trait = op_traits(op->type);
    size_t input = planner->activation[planner->base[g] + op->input[0]];
    const struct storage *storage = &planner->storage[input];
    bool may = training ? trait->in_place : trait->evaluate_in_place;
    bool pass = trait->pass || planner->arena->op[g].fusion == ARENA_DONE_BEFORE;
    if (pass || (may && !is_outside(storage) && !storage->shared && !storage->keep)) {
        return input;
    }
    return storage_add(planner, ARENA_WORKSPACE, tensor_bytes(planner, g + 1), g + 1);
}

static void put_tensor(struct planner *planner, size_t tensor, size_t storage)
{
    planner->activation[tensor] = storage;
    planner->storage[storage].shared = planner->storage[storage].shared || planner->consumers[tensor] > 1;
}

/* Who writes where, and until when it is read. The first storage is the input's. */
static void plan_activations(struct planner *planner, bool training)
{
    struct arena *arena = planner->arena;
    enum arena_area area = arena->scale_input ? ARENA_WORKSPACE : ARENA_STAGE_INPUT;
    put_tensor(planner, 0, storage_add(planner, area, tensor_bytes(planner, 0), 0));
    for (size_t g = 0; g < planner->op_count; g++) {
        const struct op *op = arena->op[g].op;
        bool backward = training && planner->wants[g + 1];
        size_t output = output_storage(planner, g, training);
        put_tensor(planner, g + 1, output);
        for (size_t i = 0; i < op->input_count; i++) {
            struct storage *input = &planner->storage[planner->activation[planner->base[g] + op->input[i]]];
            input->last = g + 1;
            input->keep = input->keep || (backward && op_traits(op->type)->backward_input);
        }
        bool reads_output = op_traits(op->type)->backward_output && arena->op[g].fusion == ARENA_ALONE;
        planner->storage[output].last = g + 1;
        planner->storage[output].keep = planner->storage[output].keep || (backward && reads_output);
    }
    planner->storage[planner->activation[planner->op_count]].last = planner->op_count + 1; /* output, or loss */
}

/* Kept storages lie side by side in the slot, with what ops save beside them. */
static void place_slot(struct planner *planner)
{
    struct arena *arena = planner->arena;
    for (size_t i = 0; i < planner->storage_count; i++) {
        struct storage *storage = &planner->storage[i];
        if (storage->keep && storage->area == ARENA_WORKSPACE) {
            storage->area = ARENA_SLOT;
            storage->offset = arena->slot_bytes;
            arena->slot_bytes += storage->bytes;
        }
    }
    for (size_t g = 0; g < planner->op_count; g++) {
        struct arena_op *op = &arena->op[g];
        uint64_t saved = 0;
        if (!planner->wants[g + 1]) {
            continue;
        }
        if (op->op->type == OP_BATCH_NORM && !op->frozen) {
            saved = (uint64_t)BATCH_NORM_SAVED * op->op->out.c * sizeof(float);
        } else if (op->op->type == OP_LAYER_NORM) {
            saved = (uint64_t)2 * op->op->out.h * op->op->out.w * arena->micro_batch * sizeof(float);
        } else if (op->op->type == OP_MAX_POOL) {
            saved = (uint64_t)shape_elements(op->op->out) * arena->micro_batch * sizeof(uint16_t);
        }
        if (saved > 0) {
            op->saved = (struct arena_place){.area = ARENA_SLOT, .offset = arena->slot_bytes};
            arena->slot_bytes += size_align(saved, WORKSPACE_ALIGNMENT);
        }
    }
}

/* ---- gradients ---- */

/* Where op g's backward writes the gradient of its i-th input. */
static void plan_input_gradient(struct planner *planner, size_t g, size_t i, size_t step)
{
    struct arena_op *op = &planner->arena->op[g];
    const struct op_traits *trait = op_traits(op->op->type);
    size_t input = planner->base[g] + op->op->input[i];
    if (!planner->wants[input]) {
        return;
    }
    if (planner->gradient[input] != NO_STORAGE) {
        op->accumulate[i] = true;
        planner->storage[planner->gradient[input]].last = step;
        return;
    }
    size_t from = planner->gradient[g + 1];
    const struct storage *storage = &planner->storage[from];
    bool alone = planner->consumers[input] == 1 && input != 0;
    bool pass = trait->pass_gradient || op->fusion == ARENA_DONE_BEFORE;
    bool in_place = trait->gradient_in_place && !is_outside(storage) && storage->readers == 0;
    if (input == 0) {
        planner->gradient[input] = storage_add(planner, ARENA_INPUT_GRADIENT, 0, step);
    } else if (alone && (in_place || pass)) {
        planner->gradient[input] = from;
    } else {
        planner->gradient[input] = storage_add(planner, ARENA_WORKSPACE, tensor_bytes(planner, input), step);
    }
    planner->storage[planner->gradient[input]].readers++;
    planner->storage[planner->gradient[input]].last = step;
}

static void plan_gradients(struct planner *planner)
{
    struct arena *arena = planner->arena;
    size_t last = planner->op_count;
    for (size_t tensor = 0; tensor <= last; tensor++) {
        planner->gradient[tensor] = NO_STORAGE;
    }
    bool loss = arena->end == arena->model->unit_count;
    size_t output = storage_add(planner, loss ? ARENA_SLOT : ARENA_OUTPUT_GRADIENT, 0, last + 1);
    if (loss) {
        planner->storage[output].offset = arena->slot_bytes;
        arena->slot_bytes += size_align(tensor_bytes(planner, last), WORKSPACE_ALIGNMENT);
    }
    arena->output_gradient = place_of(planner, output);
    if (planner->wants[last]) {
        planner->gradient[last] = output;
        planner->storage[output].readers = 1;
    }
    for (size_t g = last; g-- > 0;) {
        size_t step = 2 * last + 1 - g;
        if (planner->gradient[g + 1] == NO_STORAGE) {
            continue;
        }
        struct storage *from = &planner->storage[planner->gradient[g + 1]];
        from->readers--;
        from->last = step;
        for (size_t i = 0; i < arena->op[g].op->input_count; i++) {
            plan_input_gradient(planner, g, i, step);
        }
    }
}

/* ---- the workspace ---- */

/* Give the storages that lie in the workspace their offsets: each the lowest gap among those alive with it (they come
 * in the order of their first step). Returns the bytes needed. */
static uint64_t place_workspace(struct planner *planner)
{
    uint64_t peak = 0;
    size_t live_count = 0;
    for (size_t s = 0; s < planner->storage_count; s++) {
        struct storage *storage = &planner->storage[s];
        if (storage->area != ARENA_WORKSPACE) {
            continue;
        }
        size_t kept = 0;
        size_t position = 0; /* in live, which is sorted by offset */
        uint64_t end = 0;    /* of the storages before the gap */
        bool found = false;
        for (size_t i = 0; i < live_count; i++) {
            const struct storage *other = &planner->storage[planner->live[i]];
            if (other->last < storage->first) {
                continue;
            }
            found = found || other->offset >= end + storage->bytes;
            if (!found) {
                end = other->offset + other->bytes;
                position = kept + 1;
            }
            planner->live[kept++] = planner->live[i];
        }
        memmove(&planner->live[position + 1], &planner->live[position], (kept - position) * sizeof(planner->live[0]));
        planner->live[position] = s;
        live_count = kept + 1;
        storage->offset = end;
        peak = end + storage->bytes > peak ? end + storage->bytes : peak;
    }
    return peak;
}

static void plan_scratch(struct arena *arena)
{
    struct workspace_bytes most = softmax_cross_entropy_workspace(arena->micro_batch * arena->model->positions);
    for (size_t g = 0; g < arena->op_count; g++) {
        struct workspace_bytes bytes = op_workspace(arena->op[g].op, arena->micro_batch, arena->backend);
        most.shared = bytes.shared > most.shared ? bytes.shared : most.shared;
        most.worker = bytes.worker > most.worker ? bytes.worker : most.worker;
        if (arena->op[g].op->type == OP_CONV2D) {
            struct conv2d_shape shape = op_conv2d_shape(arena->op[g].op, arena->micro_batch);
            arena->packed_bytes += onednn_packed_bytes(arena->op[g].kernels, &shape);
        }
    }
    arena->shared_bytes = most.shared;
    arena->worker_bytes = most.worker;
}

/* ---- put together ---- */

static void plan_training(struct planner *planner)
{
    struct arena *arena = planner->arena;
    plan_activations(planner, true);
    place_slot(planner);
    plan_gradients(planner);
    arena->tensor_bytes = place_workspace(planner);
    arena->input = place_of(planner, planner->activation[0]);
    arena->output = place_of(planner, planner->activation[planner->op_count]);
    for (size_t g = 0; g < planner->op_count; g++) {
        struct arena_op *op = &arena->op[g];
        op->output = place_of(planner, planner->activation[g + 1]);
        bool backward = planner->gradient[g + 1] != NO_STORAGE;
        if (backward) {
            op->output_gradient = place_of(planner, planner->gradient[g + 1]);
        }
        for (size_t i = 0; i < op->op->input_count; i++) {
            size_t input = planner->base[g] + op->op->input[i];
            op->input[i] = place_of(planner, planner->activation[input]);
            if (backward && planner->gradient[input] != NO_STORAGE) {
                op->input_gradient[i] = place_of(planner, planner->gradient[input]);
            }
        }
    }
}

static void plan_evaluation(struct planner *planner)
{
    struct arena *arena = planner->arena;
    planner->storage_count = 0;
    plan_activations(planner, false);
    uint64_t bytes = place_workspace(planner);
    arena->tensor_bytes = bytes > arena->tensor_bytes ? bytes : arena->tensor_bytes;
    arena->evaluate_input = place_of(planner, planner->activation[0]);
    arena->evaluate_output = place_of(planner, planner->activation[planner->op_count]);
    for (size_t g = 0; g < planner->op_count; g++) {
        struct arena_op *op = &arena->op[g];
        op->evaluate_output = place_of(planner, planner->activation[g + 1]);
        for (size_t i = 0; i < op->op->input_count; i++) {
            op->evaluate_input[i] = place_of(planner, planner->activation[planner->base[g] + op->op->input[i]]);
        }
    }
}

static void planner_done(struct planner *planner)
{
    free(planner->base);
    free(planner->consumers);
    free(planner->wants);
    free(planner->shape);
    free(planner->storage);
    free(planner->live);
    free(planner->activation);
    free(planner->gradient);
}

static int planner_init(struct planner *planner, struct arena *arena, size_t input_count, struct err *err)
{
    size_t tensors = arena->op_count + 1;
    *planner = (struct planner){.arena = arena, .op_count = arena->op_count};
    /* At most one for each activation, one for each input's gradient, and the loss's. */
    planner->storage_capacity = tensors + input_count + 1;
    planner->base = calloc(tensors, sizeof(planner->base[0]));
    planner->consumers = calloc(tensors, sizeof(planner->consumers[0]));
    planner->wants = calloc(tensors, sizeof(planner->wants[0]));
    planner->shape = calloc(tensors, sizeof(planner->shape[0]));
    planner->storage = calloc(planner->storage_capacity, sizeof(planner->storage[0]));
    planner->live = calloc(planner->storage_capacity + 1, sizeof(planner->live[0]));
    planner->activation = calloc(tensors, sizeof(planner->activation[0]));
    planner->gradient = calloc(tensors, sizeof(planner->gradient[0]));
    if (!planner->base || !planner->consumers || !planner->wants || !planner->shape || !planner->storage ||
        !planner->live || !planner->activation || !planner->gradient) {
        return err_set(err, ERR_MEMORY, "out of memory for the plan of units %zu to %zu", arena->first, arena->end);
    }
    return 0;
}

static bool scales_input(const struct model *model, size_t first)
{
    return first == 0 && (model->input_dtype != DTYPE_F32 || (float)model->input_scale != 1.0f ||
                          model->input_normalise.mean_count > 0);
}

static int plan_ops(struct arena *arena, struct err *err)
{
    size_t input_count = 0;
    for (size_t u = arena->first; u < arena->end; u++) {
        const struct unit *unit = &arena->model->unit[u];
        arena->op_count += unit->op_count;
        for (size_t k = 0; k < unit->op_count; k++) {
            input_count += unit->op[k].input_count;
        }
    }
    ASSERT(arena->op_count > 0);
    arena->scale_input = scales_input(arena->model, arena->first);
    arena->op = calloc(arena->op_count, sizeof(arena->op[0]));
    if (!arena->op) {
        return err_set(err, ERR_MEMORY, "out of memory for the plan of %zu ops", arena->op_count);
    }
    struct planner planner;
    int rc = planner_init(&planner, arena, input_count, err);
    if (rc == 0) {
        number_tensors(&planner);
        place_tensors(arena, false);
        place_tensors(arena, true);
        find_fusions(&planner);
        plan_training(&planner);
        plan_evaluation(&planner);
        plan_scratch(arena);
    }
    planner_done(&planner);
    return rc;
}

int arena_new(const struct model *model, size_t first, size_t end, size_t micro_batch, enum conv2d_backend backend,
              struct arena **out, struct err *err)
{
    if (first >= end || end > model->unit_count) {
        return err_set(err, ERR_INVALID, "units %zu to %zu: model '%s' has %zu units", first, end, model->name,
                       model->unit_count);
    }
    if (micro_batch < 1 || micro_batch > ARENA_MICRO_BATCH_MAX) {
        return err_set(err, ERR_INVALID, "micro-batch of %zu samples: expected 1 to %u", micro_batch,
                       ARENA_MICRO_BATCH_MAX);
    }
    struct arena *arena = calloc(1, sizeof(*arena));
    if (!arena) {
        return err_set(err, ERR_MEMORY, "out of memory for a stage's plan");
    }
    *arena = (struct arena){.model = model, .first = first, .end = end, .micro_batch = micro_batch, .backend = backend};
    int rc = plan_ops(arena, err);
    if (rc) {
        arena_free(&arena);
        return rc;
    }
    *out = arena;
    return 0;
}

void arena_free(struct arena **arena)
{
    if (*arena) {
        free((*arena)->op);
        free(*arena);
        *arena = NULL;
    }
}
