#include "schema/model_view.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "libtrain/model/cost.h"
#include "libtrain/model/recipe.h"

static const struct field shape_fields[] = {
    MEMBER_INT(struct model_view_unit, height, "height", FIELD_REQUIRED, 0, UINT32_MAX),
    MEMBER_INT(struct model_view_unit, width, "width", FIELD_REQUIRED, 0, UINT32_MAX),
    MEMBER_INT(struct model_view_unit, channels, "channels", FIELD_REQUIRED, 0, UINT32_MAX),
};
static const struct record shape_group =
    RECORD(struct model_view_unit, "model_output", shape_fields);

static const struct field unit_fields[] = {
    MEMBER_TEXT(struct model_view_unit, name, "name", FIELD_REQUIRED),
    MEMBER_GROUP("output", FIELD_REQUIRED, &shape_group),
    MEMBER_INT(struct model_view_unit, parameters, "parameters", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_INT(struct model_view_unit, parameter_bytes, "parameter_bytes", FIELD_REQUIRED, 0,
               INTEGER_MAX, .about = "Bytes of the parameters and of batch-norm's statistics."),
    MEMBER_INT(struct model_view_unit, activation_bytes, "activation_bytes", FIELD_REQUIRED, 0,
               INTEGER_MAX, .about = "Bytes per sample, kept from forward to backward."),
    MEMBER_INT(struct model_view_unit, output_bytes, "output_bytes", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Bytes per sample of the tensor at the boundary after the unit."),
    MEMBER_DOUBLE(struct model_view_unit, forward_flops, "forward_flops", FIELD_REQUIRED, 0, 0,
                  .about = "Operations per sample."),
    MEMBER_DOUBLE(struct model_view_unit, backward_flops, "backward_flops", FIELD_REQUIRED, 0, 0,
                  .about = "Operations per sample."),
};
static const struct record unit_record = RECORD(struct model_view_unit, "model_unit", unit_fields);

static const struct field input_fields[] = {
    MEMBER_INT(struct model_view, height, "height", FIELD_REQUIRED, 0, UINT32_MAX),
    MEMBER_INT(struct model_view, width, "width", FIELD_REQUIRED, 0, UINT32_MAX),
    MEMBER_INT(struct model_view, channels, "channels", FIELD_REQUIRED, 0, UINT32_MAX),
    MEMBER_TEXT(struct model_view, dtype, "dtype", FIELD_REQUIRED),
};
static const struct record input_group = RECORD(struct model_view, "model_input", input_fields);

static const struct field view_fields[] = {
    MEMBER_TEXT(struct model_view, row.name, "name", FIELD_REQUIRED),
    MEMBER_FORM(struct model_view, row.sha256, "sha256", FIELD_REQUIRED, &sha256_form),
    MEMBER_INT(struct model_view, row.revision, "revision", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_TIME(struct model_view, row.created_ms, "created_at", FIELD_NULLABLE,
                .about = "null: a model of the zoo."),
    MEMBER_BOOL(
        struct model_view, assumed, "assumed", FIELD_REQUIRED,
        .about =
            "The description leaves its input or classes open, and the request names no data set."),
    MEMBER_GROUP("input", FIELD_REQUIRED, &input_group),
    MEMBER_INT(struct model_view, classes, "classes", FIELD_REQUIRED, 0, UINT32_MAX),
    MEMBER_INT(struct model_view, parameters, "parameters", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_DOUBLE(struct model_view, forward_flops, "forward_flops", FIELD_REQUIRED, 0, 0,
                  .about = "Operations per sample; a multiply-add counts 2."),
    MEMBER_DOUBLE(struct model_view, backward_flops, "backward_flops", FIELD_REQUIRED, 0, 0,
                  .about = "Operations per sample."),
    MEMBER_DOUBLE(
        struct model_view, sgd_learning_rate, "sgd_learning_rate", FIELD_REQUIRED, 0, 0,
        .about = "The `learning_rate.value` of a job with this model and sgd that states none."),
    MEMBER_RECORDS(struct model_view, unit, unit_count, "units", FIELD_REQUIRED, &unit_record),
    MEMBER_JSON(
        struct model_view, description, "description", FIELD_REQUIRED,
        .shared = "model_description",
        .about =
            "The description as posted, or the zoo's: the start for a copy with another name."),
};
const struct record model_view_record = RECORD(struct model_view, "model_view", view_fields);

static int64_t count_parameters(const struct unit *unit)
{
    int64_t count = 0;
    for (size_t i = 0; i < unit->op_count; i++) {
        const struct op *op = &unit->op[i];
        for (size_t k = 0; k < op->tensor_count; k++) {
            count += op->tensor[k].role == TENSOR_PARAMETER ? (int64_t)op->tensor[k].elements : 0;
        }
    }
    return count;
}

static void view_unit(const struct unit *unit, const struct unit_cost *cost,
                      struct model_view_unit *out)
{
    *out = (struct model_view_unit){
        .height = unit->out.h,
        .width = unit->out.w,
        .channels = unit->out.c,
        .parameters = count_parameters(unit),
        .parameter_bytes = (int64_t)(cost->parameter_bytes + cost->buffer_bytes),
        .activation_bytes = (int64_t)cost->activation_bytes,
        .output_bytes = (int64_t)cost->output_bytes,
        .forward_flops = cost->forward_flops,
        .backward_flops = cost->backward_flops,
    };
    (void)snprintf(out->name, sizeof(out->name), "%s", unit->name);
}

int model_view_make(const struct model *model, const struct model_row *row, bool assumed,
                    struct model_view *out, struct err *err)
{
    ASSERT(model->unit_count <= UNITS_MAX);
    struct unit_cost *cost = calloc(model->unit_count, sizeof(*cost));
    if (!cost) {
        return err_set(err, ERR_MEMORY, "no memory for the costs of model '%s'", model->name);
    }
    cost_count(model, cost);
    *out = (struct model_view){
        .row = *row,
        .assumed = assumed,
        .height = model->input.h,
        .width = model->input.w,
        .channels = model->input.c,
        .classes = model->classes,
        .sgd_learning_rate = learning_rate_default(row->name, OPTIMIZER_SGD),
        .unit_count = model->unit_count,
    };
    (void)snprintf(out->dtype, sizeof(out->dtype), "%s", dtype_name(model->input_dtype));
    for (size_t i = 0; i < model->unit_count; i++) {
        view_unit(&model->unit[i], &cost[i], &out->unit[i]);
        out->parameters += out->unit[i].parameters;
        out->forward_flops += cost[i].forward_flops;
        out->backward_flops += cost[i].backward_flops;
    }
    free(cost);
    return 0;
}
