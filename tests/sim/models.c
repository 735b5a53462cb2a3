/* The models that the coordinator knows, by name. */
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "libtrain/kernels/kernel_table.h"
#include "libtrain/model/model.h"
#include "libtrain/state/state.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/sim.h"

/* Every device measures the same of the same convolution. */
static int tune(struct models *models, size_t index, const json_t *description,
                const struct model_fit *fit, struct err *err)
{
    json_auto_t *kernels = kernel_table_describe(models->item[index], CONV2D_BACKEND_ONEDNN);
    const int rc = description_parse(description, fit, &models->tuned[index], NULL, err);
    return rc ? rc : kernel_table_apply(models->tuned[index], kernels, NULL, err);
}

static int measure_units(struct models *models, size_t index, struct err *err)
{
    const struct model *model = models->item[index];
    for (size_t unit = 0; unit < model->unit_count; unit++) {
        struct state_layout *layout AUTO(state_layout_free) = NULL;
        const int rc = state_layout_new(model, unit, &job_spec_default.optimizer, &layout, err);
        if (rc != 0) {
            return rc;
        }
        models->unit_bytes[index][unit] = (int64_t)layout->blob_bytes;
    }
    return 0;
}

int sim_models_new(struct models *out, struct err *err)
{
    static const char *const names[] = {"lenet5", "mlp", "resnet8"};
    const struct model_fit fit = {.input = {32, 32, 3}, .dtype = DTYPE_U8, .classes = 10};
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *text = zoo_text(names[i]);
        json_auto_t *description = NULL;
        int rc = json_parse(text, strlen(text), &description, err);
        rc = rc ? rc : description_parse(description, &fit, &out->item[i], NULL, err);
        rc = rc ? rc : tune(out, i, description, &fit, err);
        out->count++;
        if (rc != 0) {
            sim_models_free(out);
            return rc;
        }
        rc = measure_units(out, i, err);
        if (rc != 0) {
            sim_models_free(out);
            return rc;
        }
    }
    return 0;
}

void sim_models_free(struct models *models)
{
    for (size_t i = 0; i < models->count; i++) {
        model_free(&models->item[i]);
        model_free(&models->tuned[i]);
    }
    models->count = 0;
}

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
