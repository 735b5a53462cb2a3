#include <string.h>

#include "base/json.h"
#include "libtrain/description/zoo.h"
#include "tests/unit/coordinator_core/world.h"

struct model *world_zoo_model(const char *name, const struct model_fit *fit)
{
    const char *text = zoo_text(name);
    json_auto_t *description = NULL;
    struct model *model = NULL;
    struct err err = {0};
    assert_ok(json_parse(text, strlen(text), &description, &err), &err);
    assert_ok(description_parse(description, fit, &model, NULL, &err), &err);
    return model;
}

struct model *world_model(void)
{
    const struct model_fit fit = {.input = {28, 28, 1}, .dtype = DTYPE_U8, .classes = 10};
    return world_zoo_model(WORLD_MODEL, &fit);
}

struct model *world_tuned_model(void)
{
    struct model *model = world_model();
    for (size_t u = 0; u < model->unit_count; u++) {
        for (size_t k = 0; k < model->unit[u].op_count; k++) {
            struct op *op = &model->unit[u].op[k];
            if (op->type == OP_CONV2D) {
                op->kernels = (struct conv2d_kernels){
                    {CONV2D_ONEDNN_NHWC, CONV2D_ONEDNN_DIRECT, CONV2D_COLUMNS}};
            }
        }
    }
    return model;
}
