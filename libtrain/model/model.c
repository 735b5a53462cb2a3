#include "libtrain/model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "libtrain/formats/class_names.h"
#include "libtrain/model/op_traits.h"

const char *const op_type_names[] = {
    [OP_CONV2D] = "conv2d",
    [OP_LINEAR] = "linear",
    [OP_BATCH_NORM] = "batch_norm",
    [OP_RELU] = "relu",
    [OP_RELU6] = "relu6",
    [OP_MAX_POOL] = "max_pool",
    [OP_AVG_POOL] = "avg_pool",
    [OP_GLOBAL_AVG_POOL] = "global_avg_pool",
    [OP_FLATTEN] = "flatten",
    [OP_DROPOUT] = "dropout",
    [OP_LAYER_NORM] = "layer_norm",
    [OP_GELU] = "gelu",
    [OP_SILU] = "silu",
    [OP_EMBEDDING] = "embedding",
    [OP_POSITIONS] = "positions",
    [OP_ATTENTION] = "attention",
    [OP_SELECT] = "select",
    [OP_ADD] = "add",
    [OP_CONCAT] = "concat",
    NULL,
};

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
    name_list_done(&old->class_names);
    free(old);
    *model = NULL;
}

/* Return why the model's input cannot be normalised with these numbers, or NULL if it can. */
static const char *refusal(const struct model *model, const struct normalise *normalise)
{
    const struct normalise *own = &model->input_normalise;
    const size_t bytes = normalise->mean_count * sizeof(double);
    if (model->unit[0].op[0].type == OP_EMBEDDING) {
        return "the input are tokens, which cannot be normalised";
    }
    if (own->mean_count > 0 && (memcmp(own->mean, normalise->mean, bytes) != 0 ||
                                memcmp(own->std, normalise->std, bytes) != 0)) {
        return "the job's mean and std differ from those that the model states";
    }
    return NULL;
}

int model_normalise(struct model *model, const struct normalise *normalise,
                    struct record_faults *faults, struct err *err)
{
    if (normalise->mean_count == 0) {
        return 0;
    }
    ASSERT(normalise->mean_count == model->input.c && normalise->std_count == model->input.c);
    const char *refused = refusal(model, normalise);
    if (refused) {
        if (faults) {
            record_fault(faults, "/input/mean", "%s", refused);
        }
        return err_set(err, ERR_INVALID, "/input/mean: %s", refused);
    }
    model->input_normalise = *normalise;
    return 0;
}

static int refuse_samples(struct record_faults *faults, const char *pointer, const char *message,
                          struct err *err)
{
    if (faults) {
        record_fault(faults, pointer, "%s", message);
    }
    return err_set(err, ERR_INVALID, "%s: %s", pointer, message);
}

int model_take_samples(struct model *model, const struct model_samples *samples,
                       struct record_faults *faults, struct err *err)
{
    char message[RECORD_MESSAGE_MAX];
    if (!class_names_agree(samples->class_names, &model->class_names)) {
        char difference[CLASS_NAMES_DIFFERENCE_MAX];
        class_names_difference(samples->class_names, &model->class_names, difference);
        (void)snprintf(message, sizeof(message),
                       "the data set has other classes than the description (%s)", difference);
        return refuse_samples(faults, "/class_names", message, err);
    }
    if (samples->reading[0] && model->input_reading[0] &&
        strcmp(samples->reading, model->input_reading) != 0) {
        (void)snprintf(message, sizeof(message), "is not the data set's, '%s'", samples->reading);
        return refuse_samples(faults, "/input/reading", message, err);
    }
    if (samples->reading[0]) {
        (void)snprintf(model->input_reading, sizeof(model->input_reading), "%s", samples->reading);
    }
    const bool named = model->class_names.count > 0 || samples->class_names->count > model->classes;
    return named ? 0 : class_names_copy(samples->class_names, &model->class_names, err);
}

bool model_scales_input(const struct model *model)
{
    return model->input_dtype != DTYPE_F32 || (float)model->input_scale != 1.0f ||
           model->input_normalise.mean_count > 0;
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

bool model_has(const struct model *model, enum op_type type)
{
    bool found = false;
    for (size_t unit = 0; unit < model->unit_count && !found; unit++) {
        for (size_t i = 0; i < model->unit[unit].op_count; i++) {
            found = found || model->unit[unit].op[i].type == type;
        }
    }
    return found;
}

bool model_is_causal(const struct model *model)
{
    bool causal = true;
    for (size_t unit = 0; unit < model->unit_count; unit++) {
        for (size_t i = 0; i < model->unit[unit].op_count; i++) {
            const struct op *op = &model->unit[unit].op[i];
            causal =
                causal && (!op_traits(op->type)->mixes || (op->type == OP_ATTENTION && op->causal));
        }
    }
    return causal;
}

struct op *model_next_convolution(const struct model *model, size_t end, size_t *unit, size_t *op)
{
    for (; *unit < end; (*unit)++, *op = 0) {
        while (*op < model->unit[*unit].op_count) {
            struct op *candidate = &model->unit[*unit].op[(*op)++];
            if (candidate->type == OP_CONV2D) {
                return candidate;
            }
        }
    }
    return NULL;
}
