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
