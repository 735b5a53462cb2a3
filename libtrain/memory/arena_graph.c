#include "base/size.h"
#include "libtrain/kernels/op_workspace.h"
#include "libtrain/memory/arena_parts.h"
#include "libtrain/model/op_traits.h"
#include "libtrain/model/unit_graph.h"

/* Parameters and buffers are ordered by op, with frozen parameters after the trained ones. */
static void place_tensors(struct arena *arena, bool frozen)
{
    for (size_t g = 0; g < arena->op_count; g++) {
        struct arena_op *op = &arena->op[g];
        for (size_t t = 0; t < op->op->tensor_count && op->frozen == frozen; t++) {
            const struct op_tensor *tensor = &op->op->tensor[t];
            uint64_t *end =
                tensor->role == TENSOR_PARAMETER ? &arena->parameter_floats : &arena->buffer_floats;
            uint64_t floats =
                size_align(tensor->elements * sizeof(float), WORKSPACE_ALIGNMENT) / sizeof(float);
            op->tensor[t] = *end;
            *end += floats;
            arena->turn_floats =
                frozen && floats > arena->turn_floats ? floats : arena->turn_floats;
        }
    }
    arena->trained_floats = frozen ? arena->trained_floats : arena->parameter_floats;
}

static void number_tensors(struct planner *planner)
{
    struct arena *arena = planner->arena;
    const struct model *model = arena->model;
    size_t g = 0;
    planner->tensor[0].shape = model->unit[arena->first].in;
    planner->tensor[0].wants = arena->hands_back = arena->first > model_first_trained(model);
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
            planner->tensor[g + 1].shape = op->op->out;
            planner->tensor[g + 1].wants = op->op->tensor_count > 0 && !unit->frozen;
            for (size_t i = 0; i < op->op->input_count; i++) {
                size_t input = base + op->op->input[i];
                op->input_shape[i] = planner->tensor[input].shape;
                planner->tensor[input].consumers++;
                planner->tensor[g + 1].wants =
                    planner->tensor[g + 1].wants || planner->tensor[input].wants;
            }
        }
    }
}

/* Mark the fused ops of a unit whose ops start at g. */
static void find_fusions(struct planner *planner, const struct unit *unit, size_t g)
{
    for (size_t k = 0; k + 1 < unit->op_count; k++) {
        if (unit_fuses(unit, k)) {
            planner->arena->op[g + k].fusion = ARENA_WITH_NEXT;
            planner->arena->op[g + k + 1].fusion = ARENA_DONE_BEFORE;
        }
    }
}

/* Find the tensors that backward reads. Ops without a gradient have no backward. */
static void find_read(struct planner *planner, size_t g)
{
    const struct arena_op *op = &planner->arena->op[g];
    const struct op_traits *trait = op_traits(op->op->type);
    if (!planner->tensor[g + 1].wants || op->fusion == ARENA_DONE_BEFORE) {
        return;
    }
    planner->tensor[g + 1].read =
        planner->tensor[g + 1].read || (trait->backward_output && op->fusion == ARENA_ALONE);
    for (size_t i = 0; i < op->op->input_count; i++) {
        size_t input = input_of(planner, g, i);
        planner->tensor[input].read = planner->tensor[input].read || trait->backward_input;
    }
}

/* Decide which tensors the forward pass keeps: all that backward reads, or those at unit
 * boundaries. The others are recomputed. */
static void find_kept(struct planner *planner)
{
    struct arena *arena = planner->arena;
    size_t g = 0;
    for (size_t u = arena->first; u < arena->end; u++) {
        const struct unit *unit = &arena->model->unit[u];
        struct unit_again again = {0};
        find_fusions(planner, unit, g);
        if (arena->recompute == RECOMPUTE_UNIT) {
            unit_plan_again(unit, planner->tensor[g].wants, &again);
            planner->tensor[g].kept = planner->tensor[g].kept || again.input;
            planner->tensor[g + unit->op_count].kept = again.output;
        }
        for (size_t k = 0; k < unit->op_count; k++) {
            arena->op[g + k].again = again.op[k];
            find_read(planner, g + k);
        }
        g += unit->op_count;
    }
    for (size_t t = 0; t <= planner->op_count && arena->recompute == RECOMPUTE_NONE; t++) {
        planner->tensor[t].kept = planner->tensor[t].read;
    }
    if (arena->recompute == RECOMPUTE_UNIT && arena->scale_input) {
        arena->scale_again = planner->tensor[0].kept;
        planner->tensor[0].kept = false;
    }
}

void planner_graph(struct planner *planner)
{
    number_tensors(planner);
    place_tensors(planner->arena, false);
    place_tensors(planner->arena, true);
    find_kept(planner);
}
