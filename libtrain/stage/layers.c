#include "libtrain/stage/layers.h"

#include <stdlib.h>

#include "libtrain/model/layers.h"
#include "libtrain/stage/versions.h"

/* Offset of the op's first parameter, in floats. */
static uint64_t parameters_at(const struct arena_op *plan)
{
    size_t t = 0;
    while (plan->op->tensor[t].role != TENSOR_PARAMETER) {
        t++;
    }
    return plan->tensor[t];
}

int layers_init(struct train_stage *stage, struct err *err)
{
    const struct arena *arena = stage->arena;
    stage->layer = calloc(arena->op_count + 1, sizeof(stage->layer[0]));
    stage->op_layer = calloc(arena->op_count, sizeof(stage->op_layer[0]));
    if (!stage->layer || !stage->op_layer) {
        return err_set(err, ERR_MEMORY, "out of memory for the layers of %zu ops", arena->op_count);
    }
    for (size_t g = 0; g < arena->op_count; g++) {
        const struct arena_op *plan = &arena->op[g];
        if (layers_begins(&arena->model->unit[plan->unit], plan->index)) {
            stage->layer[stage->layer_count++] =
                (struct train_layer){.unit = plan->unit, .first = (size_t)parameters_at(plan)};
        }
        stage->op_layer[g] = stage->layer_count > 0 ? stage->layer_count - 1 : 0;
    }
    for (size_t i = 0; i < stage->layer_count; i++) {
        const size_t end =
            i + 1 < stage->layer_count ? stage->layer[i + 1].first : (size_t)arena->trained_floats;
        stage->layer[i].count = end - stage->layer[i].first;
    }
    return 0;
}

const struct train_layer *train_layers(const struct train_stage *stage, size_t *count)
{
    *count = stage->layer_count;
    return stage->layer;
}

float *train_parameters(struct train_stage *stage)
{
    return versions_latest(stage)->trained;
}

void train_parameters_changed(struct train_stage *stage)
{
    versions_latest(stage)->contents = ++stage->contents;
}
