/* The models that the coordinator knows, by name. */
#include <string.h>

#include "base/assert.h"
#include "tests/sim/coordinator.h"

static const struct model *model_of(const struct world *world, const char *name, bool tuned)
{
    const struct models *models = world->models;
    for (size_t i = 0; i < models->count; i++) {
        if (strcmp(models->item[i]->name, name) == 0) {
            return tuned ? models->tuned[i] : models->item[i];
        }
    }
    ASSERT(false);
    return NULL;
}

const struct model *coordinator_tuned(const struct world *world, const char *name)
{
    return model_of(world, name, true);
}

const struct model *coordinator_model(const struct world *world, const struct job_spec *spec)
{
    return model_of(world, spec->model.name, strcmp(spec->model.sha256, TUNED) == 0);
}

int64_t coordinator_unit_bytes(const struct world *world, const char *model, int64_t unit)
{
    for (size_t i = 0; i < world->models->count; i++) {
        if (strcmp(world->models->item[i]->name, model) == 0) {
            return world->models->unit_bytes[i][unit];
        }
    }
    ASSERT(false);
    return 0;
}
