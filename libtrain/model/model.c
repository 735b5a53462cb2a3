#include "libtrain/model/model.h"

#include <stdlib.h>

void model_free(struct model **model)
{
    struct model *old = *model;
    if (!old) {
        return;
    }
    for (size_t i = 0; old->unit && i < old->unit_count; i++) {
        free(old->unit[i].op);
    }
    free(old->unit);
    free(old);
    *model = NULL;
}

bool model_trains(const struct model *model, size_t unit)
{
    const struct unit *from = &model->unit[unit];
    bool trains = false;
    for (size_t i = 0; i < from->op_count && !from->frozen && !trains; i++) {
        for (size_t k = 0; k < from->op[i].tensor_count; k++) {
            trains = trains || from->op[i].tensor[k].role == TENSOR_PARAMETER;
        }
    }
    return trains;
}

size_t model_first_trained(const struct model *model)
{
    size_t unit = 0;
    while (unit < model->unit_count && !model_trains(model, unit)) {
        unit++;
    }
    return unit;
}
