#include "libtrain/memory/arena.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/pages.h"
#include "base/size.h"
#include "libtrain/kernels/onednn_plan.h"
#include "libtrain/kernels/op_workspace.h"
#include "libtrain/memory/arena_parts.h"

/* ---- memory ---- */

/* Size of the largest plan. Its number of storages is the number that planner_init reserves. */
#define TENSORS_MAX (MODEL_OPS_MAX + 1)
#define STORAGES_MAX (4 * TENSORS_MAX + MODEL_OPS_MAX * MODEL_OP_INPUTS_MAX + 1)
#define PIECES 8
#define SCRATCH_BYTES                                                                              \
    (sizeof(struct arena) + MODEL_OPS_MAX * sizeof(struct arena_op) +                              \
     TENSORS_MAX * (sizeof(struct tensor) + sizeof(size_t)) +                                      \
     STORAGES_MAX * (sizeof(struct storage) + sizeof(struct holder)) +                             \
     (STORAGES_MAX + 1) * 2 * sizeof(struct storage_alive) + PIECES * _Alignof(max_align_t))

struct arena_scratch {
    size_t used;
    _Alignas(max_align_t) char bytes[SCRATCH_BYTES];
};

int arena_scratch_new(struct arena_scratch **out, struct err *err)
{
    struct arena_scratch *scratch = pages_new(1, sizeof(*scratch));
    if (!scratch) {
        return err_set(err, ERR_MEMORY, "out of memory for the plans of stages");
    }
    *out = scratch;
    return 0;
}

void arena_scratch_free(struct arena_scratch **scratch)
{
    pages_free(*scratch);
    *scratch = NULL;
}

/* Return zeroed memory. Without a scratch it comes from the heap, and give_back frees it. */
static void *take(struct arena_scratch *scratch, size_t count, size_t size)
{
    if (!scratch) {
        return calloc(count, size);
    }
    const size_t bytes = size_align(count * size, _Alignof(max_align_t));
    ASSERT(bytes <= sizeof(scratch->bytes) - scratch->used);
    void *memory = scratch->bytes + scratch->used;
    scratch->used += bytes;
    return memset(memory, 0, bytes);
}

static void give_back(struct arena_scratch *scratch, void *memory)
{
    if (!scratch) {
        free(memory);
    }
}

/* ---- places ---- */

/* Place all storages without an offset, in the order of their first steps: into a gap of the slot
 * (an evaluation has none), or else into the workspace. */
static void place_rest(struct planner *planner, uint64_t slot_bytes)
{
    struct arena *arena = planner->arena;
    struct storage_room slot = {.live = planner->live[0], .limit = slot_bytes};
    struct storage_room workspace = {.live = planner->live[1], .limit = UINT64_MAX};
    size_t next = 0;
    for (size_t s = 0; s < planner->storage_count; s++) {
        struct holder *holder = &planner->holder[s];
        if (holder->area != ARENA_WORKSPACE) {
            continue;
        }
        for (; next < planner->storage_count &&
               planner->storage[next].first <= planner->storage[s].last;
             next++) {
            if (planner->holder[next].area == ARENA_SLOT) {
                storage_put(&slot, planner->storage, next); /* kept: place_slot has placed it */
            }
        }
        if (storage_place(&slot, planner->storage, s)) {
            holder->area = ARENA_SLOT;
        } else {
            bool placed = storage_place(&workspace, planner->storage, s);
            ASSERT(placed);
        }
    }
    arena->tensor_bytes =
        workspace.peak > arena->tensor_bytes ? workspace.peak : arena->tensor_bytes;
}

static void fill_io(const struct planner *planner, enum pass pass, size_t g, struct arena_io *io)
{
    const struct op *op = planner->arena->op[g].op;
    for (size_t i = 0; i < op->input_count; i++) {
        io->input[i] = place_of(planner, planner->tensor[input_of(planner, g, i)].storage[pass]);
    }
    io->output = place_of(planner, planner->tensor[g + 1].storage[pass]);
    io->saved = place_of(planner, planner->tensor[g + 1].saved[pass]);
}

/* Drop the tensors that lived only within the forward pass. */
static void forget_forward(struct planner *planner, size_t *storage)
{
    bool gone = *storage < planner->backward_first && !is_outside(planner, *storage);
    *storage = gone ? NO_STORAGE : *storage;
}

static void plan_scratch(struct arena *arena)
{
    struct workspace_bytes most =
        softmax_cross_entropy_workspace(arena->micro_batch * arena->model->positions);
    for (size_t g = 0; g < arena->op_count; g++) {
        struct workspace_bytes bytes =
            op_workspace(arena->op[g].op, arena->micro_batch, arena->backend);
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
    planner_forward(planner, true);
    planner_loss(planner);
    planner_backward(planner);
    for (size_t t = 0; t <= planner->op_count; t++) {
        forget_forward(planner, &planner->tensor[t].storage[PASS_BACKWARD]);
        forget_forward(planner, &planner->tensor[t].saved[PASS_BACKWARD]);
    }
    place_rest(planner, arena->slot_bytes);
    arena->input = place_of(planner, planner->tensor[0].storage[PASS_FORWARD]);
    arena->again_input = place_of(planner, planner->tensor[0].storage[PASS_BACKWARD]);
    arena->output = place_of(planner, planner->tensor[planner->op_count].storage[PASS_FORWARD]);
    for (size_t g = 0; g < planner->op_count; g++) {
        struct arena_op *op = &arena->op[g];
        fill_io(planner, PASS_FORWARD, g, &op->forward);
        fill_io(planner, PASS_BACKWARD, g, &op->backward);
        op->output_gradient = place_of(planner, planner->tensor[g + 1].gradient);
        for (size_t i = 0; i < op->op->input_count && planner->tensor[g + 1].gradient != NO_STORAGE;
             i++) {
            op->input_gradient[i] =
                place_of(planner, planner->tensor[input_of(planner, g, i)].gradient);
        }
    }
}

static void plan_evaluation(struct planner *planner)
{
    struct arena *arena = planner->arena;
    planner_forward(planner, false);
    place_rest(planner, 0);
    arena->evaluate_input = place_of(planner, planner->tensor[0].storage[PASS_FORWARD]);
    arena->evaluate_output =
        place_of(planner, planner->tensor[planner->op_count].storage[PASS_FORWARD]);
    for (size_t g = 0; g < planner->op_count; g++) {
        fill_io(planner, PASS_FORWARD, g, &arena->op[g].evaluate);
    }
}

static void planner_done(struct planner *planner)
{
    struct arena_scratch *scratch = planner->arena->scratch;
    give_back(scratch, planner->tensor);
    give_back(scratch, planner->base);
    give_back(scratch, planner->storage);
    give_back(scratch, planner->holder);
    give_back(scratch, planner->live[0]);
    give_back(scratch, planner->live[1]);
}

static int planner_init(struct planner *planner, struct arena *arena, size_t input_count,
                        struct err *err)
{
    struct arena_scratch *scratch = arena->scratch;
    size_t tensors = arena->op_count + 1;
    *planner = (struct planner){.arena = arena, .op_count = arena->op_count};
    /* Storages: at most two for each activation, two for its saved data, one for the gradient of
     * each input, and one for the gradient of the loss. */
    planner->storage_capacity = 4 * tensors + input_count + 1;
    planner->tensor = take(scratch, tensors, sizeof(planner->tensor[0]));
    planner->base = take(scratch, tensors, sizeof(planner->base[0]));
    planner->storage = take(scratch, planner->storage_capacity, sizeof(planner->storage[0]));
    planner->holder = take(scratch, planner->storage_capacity, sizeof(planner->holder[0]));
    planner->live[0] = take(scratch, planner->storage_capacity + 1, sizeof(planner->live[0][0]));
    planner->live[1] = take(scratch, planner->storage_capacity + 1, sizeof(planner->live[1][0]));
    if (!planner->tensor || !planner->base || !planner->storage || !planner->holder ||
        !planner->live[0] || !planner->live[1]) {
        return err_set(err, ERR_MEMORY, "out of memory for the plan of units %zu to %zu",
                       arena->first, arena->end);
    }
    for (size_t t = 0; t < tensors; t++) {
        planner->tensor[t].saved[PASS_FORWARD] = planner->tensor[t].gradient = NO_STORAGE;
    }
    return 0;
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
    arena->scale_input = arena->first == 0 && model_scales_input(arena->model);
    arena->op = take(arena->scratch, arena->op_count, sizeof(arena->op[0]));
    if (!arena->op) {
        return err_set(err, ERR_MEMORY, "out of memory for the plan of %zu ops", arena->op_count);
    }
    struct planner planner;
    int rc = planner_init(&planner, arena, input_count, err);
    if (rc == 0) {
        planner_graph(&planner);
        plan_training(&planner);
        plan_evaluation(&planner);
        plan_scratch(arena);
    }
    planner_done(&planner);
    return rc;
}

int arena_new(const struct model *model, const struct arena_request *request, struct arena **out,
              struct err *err)
{
    if (request->first >= request->end || request->end > model->unit_count) {
        return err_set(err, ERR_INVALID, "units %zu to %zu: model '%s' has %zu units",
                       request->first, request->end, model->name, model->unit_count);
    }
    if (request->micro_batch < 1 || request->micro_batch > ARENA_MICRO_BATCH_MAX) {
        return err_set(err, ERR_INVALID, "micro-batch of %zu samples: expected 1 to %u",
                       request->micro_batch, ARENA_MICRO_BATCH_MAX);
    }
    if (request->scratch) {
        request->scratch->used = 0;
    }
    struct arena *arena = take(request->scratch, 1, sizeof(*arena));
    if (!arena) {
        return err_set(err, ERR_MEMORY, "out of memory for a stage's plan");
    }
    *arena = (struct arena){.model = model,
                            .scratch = request->scratch,
                            .first = request->first,
                            .end = request->end,
                            .micro_batch = request->micro_batch,
                            .recompute = request->recompute,
                            .backend = request->backend};
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
        struct arena_scratch *scratch = (*arena)->scratch;
        give_back(scratch, (*arena)->op);
        give_back(scratch, *arena);
        *arena = NULL;
    }
}
