#include "libtrain/model/layers.h"

static uint64_t parameters_of(const struct op *op)
{
    uint64_t floats = 0;
    for (size_t t = 0; t < op->tensor_count; t++) {
        floats += op->tensor[t].role == TENSOR_PARAMETER ? op->tensor[t].elements : 0;
    }
    return floats;
}

static bool is_norm(const struct op *op)
{
    return op->type == OP_BATCH_NORM || op->type == OP_LAYER_NORM;
}

bool layers_begins(const struct unit *unit, size_t k)
{
    bool follows = false;
    for (size_t i = 0; i < k && is_norm(&unit->op[k]); i++) {
        follows = follows || parameters_of(&unit->op[i]) > 0;
    }
    return !unit->frozen && parameters_of(&unit->op[k]) > 0 && !follows;
}

size_t layers_list(const struct model *model, size_t first, size_t end, struct model_layer *out,
                   size_t most)
{
    size_t count = 0;
    for (size_t u = first; u < end; u++) {
        const struct unit *unit = &model->unit[u];
        for (size_t k = 0; k < unit->op_count; k++) {
            if (layers_begins(unit, k)) {
                count++;
                if (count <= most) {
                    out[count - 1] = (struct model_layer){.unit = u, .op = k};
                }
            }
            if (count > 0 && count <= most && !unit->frozen) {
                out[count - 1].floats += parameters_of(&unit->op[k]);
            }
        }
    }
    return count;
}
