#include "libtrain/model/unit_graph.h"

#include "libtrain/model/op_traits.h"

static size_t readers(const struct unit *unit, size_t tensor)
{
    size_t count = 0;
    for (size_t k = 0; k < unit->op_count; k++) {
        for (size_t i = 0; i < unit->op[k].input_count; i++) {
            count += unit->op[k].input[i] == tensor;
        }
    }
    return count;
}

bool unit_fuses(const struct unit *unit, size_t k)
{
    if (k + 1 >= unit->op_count || unit->op[k].type != OP_BATCH_NORM) {
        return false;
    }
    const struct op *next = &unit->op[k + 1];
    bool relu = next->type == OP_RELU || next->type == OP_RELU6;
    return relu && next->input[0] == k + 1 && readers(unit, k + 1) == 1;
}

/* From the last op to the first: the readers of a tensor come after its op. */
void unit_plan_again(const struct unit *unit, bool input_gradient, struct unit_again *out)
{
    bool wants[MODEL_UNIT_OPS_MAX + 1] = {
        input_gradient}; /* tensors of the unit that have a gradient */
    bool needed[MODEL_UNIT_OPS_MAX + 1] = {false};
    for (size_t k = 0; k < unit->op_count; k++) {
        wants[k + 1] = unit->op[k].tensor_count > 0 && !unit->frozen;
        for (size_t i = 0; i < unit->op[k].input_count; i++) {
            wants[k + 1] = wants[k + 1] || wants[unit->op[k].input[i]];
        }
    }
    *out = (struct unit_again){0};
    for (size_t k = unit->op_count; k-- > 0;) {
        const struct op *op = &unit->op[k];
        const struct op_traits *trait = op_traits(op->type);
        bool done_before = k > 0 && unit_fuses(unit, k - 1);
        bool backward = wants[k + 1] && !done_before;
        if (backward && trait->backward_output && k + 1 == unit->op_count) {
            out->output = true;
        } else if (backward && (trait->backward_output || trait->saved_again)) {
            needed[k + 1] = true;
        }
        for (size_t i = 0; i < op->input_count; i++) {
            bool reads = needed[k + 1] || (backward && trait->backward_input);
            needed[op->input[i]] = needed[op->input[i]] || reads;
        }
        out->op[k] = needed[k + 1];
    }
    out->input = needed[0];
}
