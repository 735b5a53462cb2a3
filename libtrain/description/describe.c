#include <string.h>

#include "libtrain/description/description_parts.h"
#include "libtrain/description/op_fields.h"
#include "libtrain/formats/class_names.h"
#include "libtrain/kernels/op_workspace.h"

/* The chain of the unit's fields that holds the op; NULL for a join, which the residual or branches
 * field implies. */
static struct chain *chain_of(struct unit_fields *fields, const struct op *op)
{
    switch (op->part) {
    case OP_PART_OPS: return &fields->ops;
    case OP_PART_BODY: return &fields->residual.body;
    case OP_PART_SHORTCUT: return &fields->residual.shortcut;
    case OP_PART_BRANCH: return &fields->branch[op->branch];
    case OP_PART_THEN: return &fields->then;
    case OP_PART_JOIN: return NULL;
    }
    return NULL;
}

static json_t *describe_unit(const struct unit *unit)
{
    struct unit_fields fields = {.branch_count = unit->branch_count, .frozen = unit->frozen};
    bool complete = true;
    memcpy(fields.name, unit->name, sizeof(fields.name));
    for (size_t i = 0; i < unit->op_count && complete; i++) {
        struct chain *chain = chain_of(&fields, &unit->op[i]);
        fields.has_residual = fields.has_residual || unit->op[i].part == OP_PART_BODY;
        if (chain) {
            complete = (chain->op[chain->count] = op_fields_write(&unit->op[i])) != NULL;
            chain->count += complete;
        }
    }
    json_t *value = complete ? record_write(&unit_record, &fields) : NULL;
    record_done(&unit_record, &fields);
    return value;
}

json_t *description_write(const struct model *model)
{
    struct description fields = {
        .has_input = true,
        .input = {.dimension = {model->input.h, model->input.w, model->input.c},
                  .rank = 3,
                  .dtype = model->input_dtype == input_dtypes[0] ? 0 : 1,
                  .scale = model->input_scale,
                  .normalise = model->input_normalise},
        .loss = {.label_smoothing = model->label_smoothing},
    };
    bool complete = true;
    memcpy(fields.name, model->name, sizeof(fields.name));
    memcpy(fields.input.reading, model->input_reading, sizeof(fields.input.reading));
    if (model->class_names.count > 0) {
        complete = (fields.class_names = class_names_json(&model->class_names)) != NULL;
    }
    for (size_t i = 0; i < model->unit_count && complete; i++) {
        complete = (fields.unit[i] = describe_unit(&model->unit[i])) != NULL;
        fields.unit_count += complete;
    }
    json_t *value = complete ? record_write(&description_record, &fields) : NULL;
    record_done(&description_record, &fields);
    return value;
}

static void choose_kernels(const struct slim_split *split, struct model *model)
{
    size_t unit = split->stem, index = 0;
    struct op *op = model_next_convolution(model, model->unit_count, &unit, &index);
    for (; op; op = model_next_convolution(model, model->unit_count, &unit, &index)) {
        op->kernels = op_slice_kernels(op);
    }
}

int description_write_slice(const struct slim_split *split, size_t group, struct buf *out,
                            struct err *err)
{
    struct model *model AUTO(model_free) = NULL;
    int rc = slim_derive(split, group, &model, err);
    if (rc) {
        return rc;
    }
    choose_kernels(split, model);
    json_auto_t *value = description_write(model);
    return value ? json_write(value, out, err)
                 : err_set(err, ERR_MEMORY, "no memory for the description of group %zu", group);
}
