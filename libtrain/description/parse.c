#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/description/description_parts.h"
#include "libtrain/formats/class_names.h"

/* ---- the tables ---- */

static const struct field any = {.type = FIELD_JSON};
#define CHAIN(T, m, n, f, least)                                                                   \
    {                                                                                              \
        .name = (n), .type = FIELD_LIST, .flags = (f),                                             \
        .offset = offsetof(T, m) + offsetof(struct chain, op), .min = (least),                     \
        .max = MODEL_UNIT_OPS_MAX, .size = MODEL_UNIT_OPS_MAX, .element = &any,                    \
        .element_size = sizeof(json_t *),                                                          \
        .count_offset = offsetof(T, m) + offsetof(struct chain, count)                             \
    }

static const struct field residual_field[] = {
    CHAIN(struct residual_fields, body, "body", FIELD_REQUIRED, 1),
    CHAIN(struct residual_fields, shortcut, "shortcut", FIELD_SKIP_EMPTY, 0),
};
static const struct record residual_record =
    RECORD(struct residual_fields, "residual", residual_field);

/* One element of "branches". */
static const struct field branch = {
    .type = FIELD_LIST,
    .size = MODEL_UNIT_OPS_MAX,
    .element = &any,
    .element_size = sizeof(json_t *),
    .count_offset = offsetof(struct chain, count),
};

static const struct field unit_field[] = {
    MEMBER_TEXT(struct unit_fields, name, "name", FIELD_REQUIRED),
    CHAIN(struct unit_fields, ops, "ops", FIELD_SKIP_EMPTY, 1),
    MEMBER_OPTIONAL(struct unit_fields, residual, has_residual, "residual", FIELD_SKIP_EMPTY,
                    &residual_record),
    {.name = "branches",
     .type = FIELD_LIST,
     .flags = FIELD_SKIP_EMPTY,
     .offset = offsetof(struct unit_fields, branch),
     .min = 2,
     .max = MODEL_OP_INPUTS_MAX,
     .size = MODEL_OP_INPUTS_MAX,
     .element = &branch,
     .element_size = sizeof(struct chain),
     .count_offset = offsetof(struct unit_fields, branch_count)},
    CHAIN(struct unit_fields, then, "then", FIELD_SKIP_EMPTY, 0),
    MEMBER_BOOL(struct unit_fields, frozen, "frozen", FIELD_SKIP_EMPTY),
};
const struct record unit_record = RECORD(struct unit_fields, "unit", unit_field);

static const char *const dtype_words[] = {"uint8", "float32", NULL};
const enum dtype input_dtypes[] = {DTYPE_U8, DTYPE_F32};

static const struct field mean = {
    .type = FIELD_DOUBLE, .min = -NORMALISE_MEAN_MAX, .max = NORMALISE_MEAN_MAX};
static const struct field std = {
    .type = FIELD_DOUBLE, .min = NORMALISE_STD_MIN, .max = NORMALISE_STD_MAX};
static const struct field dimension = {.type = FIELD_INT, .min = 1, .max = MODEL_ELEMENTS_MAX};
static const struct field input_field[] = {
    {.name = "shape",
     .type = FIELD_LIST,
     .offset = offsetof(struct input_fields, dimension),
     .min = 3,
     .size = 3,
     .element = &dimension,
     .element_size = sizeof(int64_t),
     .count_offset = offsetof(struct input_fields, rank)},
    MEMBER_ENUM(struct input_fields, dtype, "dtype", 0, dtype_words),
    MEMBER_DOUBLE(struct input_fields, scale, "scale", 0, 1e-30, 1e30),
    /* Not written if there are none, so that older descriptions keep their bytes and hash. */
    MEMBER_LIST(struct input_fields, normalise.mean, normalise.mean_count, "mean", FIELD_SKIP_EMPTY,
                &mean),
    MEMBER_LIST(struct input_fields, normalise.std, normalise.std_count, "std", FIELD_SKIP_EMPTY,
                &std),
    MEMBER_TEXT(struct input_fields, reading, "reading", FIELD_SKIP_EMPTY),
};
static const struct record input_record = RECORD(struct input_fields, "input", input_field);

static const char *const loss_words[] = {"softmax_cross_entropy", NULL};
/* Not written if there is none, so that older descriptions keep their bytes and hash. */
static const struct field loss_field[] = {
    MEMBER_ENUM(struct loss_fields, type, "type", 0, loss_words),
    MEMBER_DOUBLE(struct loss_fields, label_smoothing, "label_smoothing", FIELD_SKIP_EMPTY, 0,
                  0.999),
};
static const struct record loss_record = RECORD(struct loss_fields, "loss", loss_field);

static const struct field description_field[] = {
    MEMBER_TEXT(struct description, name, "name", FIELD_REQUIRED),
    MEMBER_OPTIONAL(struct description, input, has_input, "input", 0, &input_record),
    {.name = "units",
     .type = FIELD_LIST,
     .flags = FIELD_REQUIRED,
     .offset = offsetof(struct description, unit),
     .min = 1,
     .max = MODEL_UNITS_MAX,
     .size = MODEL_UNITS_MAX,
     .element = &any,
     .element_size = sizeof(json_t *),
     .count_offset = offsetof(struct description, unit_count)},
    MEMBER_RECORD(struct description, loss, "loss", 0, &loss_record),
    MEMBER_JSON(struct description, class_names, "class_names", FIELD_SKIP_EMPTY),
};
const struct record description_record = RECORD(struct description, "model", description_field);

/* ---- the input ---- */

static const char *dtype_word(enum dtype dtype)
{
    return dtype == DTYPE_U8 ? dtype_words[0] : dtype_words[1];
}

static void resolve_shape(struct lowering *lowering, const struct input_fields *input,
                          const struct model_fit *fit)
{
    struct shape stated = {(uint32_t)input->dimension[0], (uint32_t)input->dimension[1],
                           (uint32_t)input->dimension[2]};
    if (input->rank == 0 && !fit) {
        record_fault(lowering->faults, "/input/shape", "is required where no data set says it");
        lowering->broken = true;
        return;
    }
    struct shape shape = input->rank > 0 ? stated : fit->input;
    if (fit && !shape_equal(shape, fit->input)) {
        record_fault(lowering->faults, "/input/shape",
                     "is %" PRIu32 " x %" PRIu32 " x %" PRIu32
                     ", but the data set's samples are %" PRIu32 " x %" PRIu32 " x %" PRIu32,
                     shape.h, shape.w, shape.c, fit->input.h, fit->input.w, fit->input.c);
        lowering->broken = true;
    } else if (!infer_shape_fits(shape)) {
        record_fault(lowering->faults, "/input/shape", "a sample has from 1 to %u elements",
                     MODEL_ELEMENTS_MAX);
        lowering->broken = true;
    }
    lowering->model->input = shape;
    lowering->form = tensor_form_plain(shape);
    lowering->form.stored = true;
}

static void resolve_dtype(struct lowering *lowering, const struct input_fields *input,
                          const struct model_fit *fit)
{
    struct model *model = lowering->model;
    if (input->dtype < 0 && !fit) {
        record_fault(lowering->faults, "/input/dtype", "is required where no data set says it");
        lowering->broken = true;
        return;
    }
    model->input_dtype = input->dtype >= 0 ? input_dtypes[input->dtype] : fit->dtype;
    if (fit && model->input_dtype != fit->dtype) {
        record_fault(lowering->faults, "/input/dtype", "is %s, but the data set's is %s",
                     dtype_word(model->input_dtype), dtype_word(fit->dtype));
        lowering->broken = true;
    }
    double usual = model->input_dtype == DTYPE_U8 ? 1.0 / 255.0 : 1.0;
    model->input_scale = input->scale > 0 ? input->scale : usual;
}

/* Called after the shape is read: there must be one number per channel. */
static void resolve_normalise(struct lowering *lowering, const struct normalise *stated)
{
    const uint32_t channels = lowering->model->input.c;
    const size_t count[] = {stated->mean_count, stated->std_count};
    static const char *const pointer[] = {"/input/mean", "/input/std"};
    if (stated->mean_count == 0 && stated->std_count == 0) {
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        if (count[i] != channels && !lowering->broken) {
            record_fault(lowering->faults, pointer[i],
                         "%zu numbers for the %" PRIu32 " channels of a sample", count[i],
                         channels);
            lowering->broken = true;
        }
    }
    lowering->model->input_normalise = *stated;
}

static void resolve_reading(struct lowering *lowering, const char *stated)
{
    struct reading reading;
    struct err err = {0};
    if (stated[0] && reading_parse_written(stated, &reading, &err)) {
        record_fault(lowering->faults, "/input/reading", "%s", err.text);
        lowering->broken = true;
        return;
    }
    (void)snprintf(lowering->model->input_reading, READING_TEXT_MAX, "%s", stated);
}

/* ---- the whole ---- */

static int read_class_names(struct lowering *lowering, const json_t *stated, struct err *err)
{
    struct err fault = {0};
    int rc = stated ? class_names_read(stated, &lowering->model->class_names, &fault) : 0;
    if (rc == ERR_INVALID) {
        record_fault(lowering->faults, "/class_names", "%s", fault.text);
        lowering->broken = true;
        return 0;
    }
    return rc ? err_set(err, rc, "%s", fault.text) : 0;
}

/* Check that the last unit's output is one score per class, in PyTorch's order, at each position
 * with a label. */
static void check_output(struct lowering *lowering, const struct model_fit *fit)
{
    struct model *model = lowering->model;
    const struct unit *last = &model->unit[model->unit_count - 1];
    char pointer[32];
    (void)snprintf(pointer, sizeof(pointer), "/units/%zu", model->unit_count - 1);
    uint32_t labels = fit && fit->positions > 0 ? fit->positions : 1;
    if (last->out.w != 1 || (fit && last->out.h != labels) || last->out.h > MODEL_POSITIONS_MAX ||
        tensor_form_reordered(lowering->form)) {
        char each[48] = "";
        if (labels > 1) {
            (void)snprintf(each, sizeof(each), " at each of %" PRIu32 " positions", labels);
        }
        record_fault(lowering->faults, pointer,
                     "unit '%s': the last unit must end with one number per class%s, not %" PRIu32
                     " x %" PRIu32 " x %" PRIu32 "%s%s",
                     last->name, each, last->out.h, last->out.w, last->out.c,
                     last->out.h == 1 && last->out.w == 1 ? " of a flatten" : "",
                     lowering->assumption->note);
        lowering->broken = true;
    } else if (fit && last->out.c < fit->classes) {
        record_fault(lowering->faults, pointer,
                     "unit '%s': %" PRIu32 " outputs are too few for the data set's %" PRIu32
                     " classes",
                     last->name, last->out.c, fit->classes);
        lowering->broken = true;
    }
    if (!lowering->broken && model->class_names.count > last->out.c) {
        record_fault(lowering->faults, "/class_names",
                     "%zu names for the %" PRIu32 " outputs of unit '%s'", model->class_names.count,
                     last->out.c, last->name);
        lowering->broken = true;
    }
    model->classes = last->out.c;
    model->positions = last->out.h;
}

static void check_frozen(struct lowering *lowering)
{
    const struct model *model = lowering->model;
    bool frozen = false;
    for (size_t i = 0; i < model->unit_count; i++) {
        frozen = frozen || model->unit[i].frozen;
    }
    if (frozen && model_first_trained(model) == model->unit_count) {
        record_fault(lowering->faults, "/units",
                     "every unit that has parameters is frozen: nothing is left to train");
        lowering->broken = true;
    }
}

/* Names of models follow the API's rule. Units may have capitals, but no dot, which separates the
 * parts of tensor names. */
static bool valid_model_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
    return name[0] != '\0' && !strchr("._-", name[0]) && name[strspn(name, letters)] == '\0';
}

static int lower_description(struct lowering *lowering, const struct description *description,
                             const struct model_fit *fit, struct err *err)
{
    struct model *model = lowering->model;
    model->unit = calloc(description->unit_count, sizeof(*model->unit));
    if (!model->unit) {
        return err_set(err, ERR_MEMORY, "no memory for a model of %zu units",
                       description->unit_count);
    }
    model->unit_count = description->unit_count;
    model->label_smoothing = description->loss.label_smoothing;
    memcpy(model->name, description->name, sizeof(model->name));
    if (!valid_model_name(model->name)) {
        record_fault(lowering->faults, "/name",
                     "expected a name: 1 to %zu of a-z 0-9 . _ - and the first a letter or digit",
                     sizeof(model->name) - 1);
        lowering->broken = true;
    }
    resolve_shape(lowering, &description->input, fit);
    resolve_dtype(lowering, &description->input, fit);
    resolve_normalise(lowering, &description->input.normalise);
    resolve_reading(lowering, description->input.reading);
    int rc = read_class_names(lowering, description->class_names, err);
    if (rc) {
        return rc;
    }
    for (size_t i = 0; i < model->unit_count && !lowering->out_of_memory; i++) {
        lower_unit(lowering, description->unit[i], i);
    }
    if (lowering->out_of_memory) {
        return err_set(err, ERR_MEMORY, "no memory for the ops of model '%s'", model->name);
    }
    if (!lowering->broken) {
        check_output(lowering, fit);
        check_frozen(lowering);
    }
    return 0;
}

int description_parse_assuming(const json_t *description, const struct model_fit *fit,
                               struct assumption *assumption, struct model **out,
                               struct record_faults *faults, struct err *err)
{
    struct record_faults own = {0};
    struct description fields = {.input.dtype = -1};
    struct model *model AUTO(model_free) = calloc(1, sizeof(*model));
    struct lowering lowering = {.model = model,
                                .classes = fit ? fit->classes : 0,
                                .faults = faults ? faults : &own,
                                .assumption = assumption};
    if (!model) {
        return err_set(err, ERR_MEMORY, "no memory for a model");
    }
    size_t before = lowering.faults->count;
    int rc = record_read(&description_record, description, "", &fields, lowering.faults, err);
    if (rc == 0) {
        rc = lower_description(&lowering, &fields, fit, err);
    }
    record_done(&description_record, &fields);
    if (rc) {
        return rc;
    }
    if (lowering.broken) {
        const struct record_fault *first = &lowering.faults->fault[before];
        bool kept = before < lowering.faults->count;
        return err_set(err, ERR_INVALID, "%s: %s", kept ? first->pointer : "model",
                       kept ? first->message : "has faults");
    }
    *out = model;
    model = NULL;
    return 0;
}

int description_parse(const json_t *description, const struct model_fit *fit, struct model **out,
                      struct record_faults *faults, struct err *err)
{
    struct assumption none = {0};
    return description_parse_assuming(description, fit, &none, out, faults, err);
}
