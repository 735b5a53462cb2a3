#include "libtrain/description/op_fields.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/parse.h"
#include "libtrain/kernels/kernel_choice.h"

#define CLASSES_WORD "classes"

struct op_fields {
    int type;
    int64_t filters, groups;
    json_t *kernel, *stride, *padding; /* an integer or [height, width] */
    json_t *units;                     /* an integer or "classes" */
    int64_t rows, heads, first, channels;
    bool bias, causal, ceil_mode;
    double epsilon, momentum, rate;
    bool has_kernels;
    struct kernel_choice kernels;
};

#define FIELD_TYPE MEMBER_ENUM(struct op_fields, type, "type", FIELD_REQUIRED, op_type_names)
#define FIELD_KERNEL MEMBER_JSON(struct op_fields, kernel, "kernel", FIELD_REQUIRED)
#define FIELD_STRIDE MEMBER_JSON(struct op_fields, stride, "stride", 0)
#define FIELD_PADDING MEMBER_JSON(struct op_fields, padding, "padding", 0)

static const struct field conv2d_fields[] = {
    FIELD_TYPE,
    MEMBER_INT(struct op_fields, filters, "filters", FIELD_REQUIRED, 1, MODEL_CHANNELS_MAX),
    FIELD_KERNEL,
    FIELD_STRIDE,
    FIELD_PADDING,
    MEMBER_INT(struct op_fields, groups, "groups", 0, 1, MODEL_CHANNELS_MAX),
    MEMBER_BOOL(struct op_fields, bias, "bias", 0),
    MEMBER_OPTIONAL(struct op_fields, kernels, has_kernels, "kernels", FIELD_SKIP_EMPTY,
                    &kernel_choice_record),
};
static const struct field linear_fields[] = {
    FIELD_TYPE,
    MEMBER_JSON(struct op_fields, units, "units", FIELD_REQUIRED),
    MEMBER_BOOL(struct op_fields, bias, "bias", 0),
};
static const struct field batch_norm_fields[] = {
    FIELD_TYPE,
    MEMBER_DOUBLE(struct op_fields, epsilon, "epsilon", 0, 1e-12, 1),
    MEMBER_DOUBLE(struct op_fields, momentum, "momentum", 0, 0, 1),
};
static const struct field pool_fields[] = {
    FIELD_TYPE,
    FIELD_KERNEL,
    FIELD_STRIDE,
    FIELD_PADDING,
    MEMBER_BOOL(struct op_fields, ceil_mode, "ceil_mode", FIELD_SKIP_EMPTY),
};
static const struct field dropout_fields[] = {
    FIELD_TYPE,
    MEMBER_DOUBLE(struct op_fields, rate, "rate", 0, 0, 0.999),
};
static const struct field layer_norm_fields[] = {
    FIELD_TYPE,
    MEMBER_DOUBLE(struct op_fields, epsilon, "epsilon", 0, 1e-12, 1),
};
static const struct field embedding_fields[] = {
    FIELD_TYPE,
    MEMBER_INT(struct op_fields, rows, "rows", FIELD_REQUIRED, 1, MODEL_ROWS_MAX),
    MEMBER_JSON(struct op_fields, units, "units", FIELD_REQUIRED),
};
static const struct field attention_fields[] = {
    FIELD_TYPE,
    MEMBER_INT(struct op_fields, heads, "heads", FIELD_REQUIRED, 1, MODEL_CHANNELS_MAX),
    MEMBER_BOOL(struct op_fields, causal, "causal", 0),
};
static const struct field select_fields[] = {
    FIELD_TYPE,
    MEMBER_INT(struct op_fields, first, "first", FIELD_REQUIRED, 0, MODEL_CHANNELS_MAX - 1),
    MEMBER_INT(struct op_fields, channels, "channels", FIELD_REQUIRED, 1, MODEL_CHANNELS_MAX),
};
static const struct field plain_fields[] = {FIELD_TYPE};

/* ADD and CONCAT have no fields: residual and branches imply them. */
static const struct record records[] = {
    [OP_CONV2D] = RECORD(struct op_fields, "conv2d", conv2d_fields),
    [OP_LINEAR] = RECORD(struct op_fields, "linear", linear_fields),
    [OP_BATCH_NORM] = RECORD(struct op_fields, "batch_norm", batch_norm_fields),
    [OP_RELU] = RECORD(struct op_fields, "relu", plain_fields),
    [OP_RELU6] = RECORD(struct op_fields, "relu6", plain_fields),
    [OP_MAX_POOL] = RECORD(struct op_fields, "max_pool", pool_fields),
    [OP_AVG_POOL] = RECORD(struct op_fields, "avg_pool", pool_fields),
    [OP_GLOBAL_AVG_POOL] = RECORD(struct op_fields, "global_avg_pool", plain_fields),
    [OP_FLATTEN] = RECORD(struct op_fields, "flatten", plain_fields),
    [OP_DROPOUT] = RECORD(struct op_fields, "dropout", dropout_fields),
    [OP_LAYER_NORM] = RECORD(struct op_fields, "layer_norm", layer_norm_fields),
    [OP_GELU] = RECORD(struct op_fields, "gelu", plain_fields),
    [OP_SILU] = RECORD(struct op_fields, "silu", plain_fields),
    [OP_EMBEDDING] = RECORD(struct op_fields, "embedding", embedding_fields),
    [OP_POSITIONS] = RECORD(struct op_fields, "positions", plain_fields),
    [OP_ATTENTION] = RECORD(struct op_fields, "attention", attention_fields),
    [OP_SELECT] = RECORD(struct op_fields, "select", select_fields),
};
#define WRITABLE_TYPES (sizeof(records) / sizeof(records[0]))
_Static_assert(WRITABLE_TYPES == OP_ADD, "a new op precedes OP_ADD and has its fields here");

/* Return the defaults of a type. read_window sets those of a window. */
static struct op_fields defaults(enum op_type type)
{
    return (struct op_fields){
        .type = (int)type,
        .groups = 1,
        .bias = true,
        .causal = true,
        .epsilon = 1e-5,
        .momentum = 0.1,
        .rate = 0.5,
    };
}

/* Find the type, which selects the table to read with. Return false after adding a fault. */
static bool find_type(const json_t *value, const char *pointer, enum op_type *out,
                      struct record_faults *faults)
{
    const json_t *type = json_object_get(value, "type");
    char member[RECORD_POINTER_MAX];
    (void)snprintf(member, sizeof(member), "%s/type", pointer);
    if (!json_is_object(value)) {
        record_fault(faults, pointer, "expected an op, an object such as {\"type\": \"relu\"}");
        return false;
    }
    if (!json_is_string(type)) {
        record_fault(faults, member, type ? "expected a string" : "is required");
        return false;
    }
    const char *name = json_string_value(type);
    for (size_t i = 0; i < WRITABLE_TYPES; i++) {
        if (strcmp(name, op_type_names[i]) == 0) {
            *out = (enum op_type)i;
            return true;
        }
    }
    const char *nearest = parse_nearest(name, op_type_names, WRITABLE_TYPES);
    if (nearest) {
        record_fault(faults, member, "unknown op '%.40s'; did you mean '%s'?", name, nearest);
    } else {
        char known[RECORD_MESSAGE_MAX] = "";
        for (size_t i = 0, used = 0; i < WRITABLE_TYPES && used < sizeof(known); i++) {
            used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i > 0 ? ", " : "",
                                     op_type_names[i]);
        }
        record_fault(faults, member, "unknown op '%.20s'; there are %s", name, known);
    }
    return false;
}

static bool read_units(const json_t *value, const char *pointer, uint32_t classes, uint32_t *out,
                       struct record_faults *faults)
{
    char member[RECORD_POINTER_MAX];
    (void)snprintf(member, sizeof(member), "%s/units", pointer);
    if (json_is_string(value) && strcmp(json_string_value(value), CLASSES_WORD) == 0) {
        if (classes == 0) {
            record_fault(faults, member,
                         "\"" CLASSES_WORD "\" needs a data set that says how many");
        }
        *out = classes;
        return classes > 0;
    }
    json_int_t units = json_integer_value(value);
    if (!json_is_integer(value) || units < 1 || units > MODEL_CHANNELS_MAX) {
        record_fault(faults, member, "expected an integer from 1 to %d, or \"" CLASSES_WORD "\"",
                     MODEL_CHANNELS_MAX);
        return false;
    }
    *out = (uint32_t)units;
    return true;
}

static bool has_units(enum op_type type)
{
    return type == OP_LINEAR || type == OP_EMBEDDING;
}

static bool is_window(enum op_type type)
{
    return type == OP_CONV2D || type == OP_MAX_POOL || type == OP_AVG_POOL;
}

static bool read_size(const json_t *value, int least, uint32_t *out)
{
    json_int_t size = json_integer_value(value);
    if (!json_is_integer(value) || size < least || size > MODEL_WINDOW_MAX) {
        return false;
    }
    *out = (uint32_t)size;
    return true;
}

/* Read an integer or [height, width]. If the member is absent, *out keeps its value. */
static bool read_extent(const json_t *value, const char *pointer, const char *name, int least,
                        struct extent *out, struct record_faults *faults)
{
    char member[RECORD_POINTER_MAX];
    struct extent extent = *out;
    bool pair = json_is_array(value) && json_array_size(value) == 2;
    bool good = !value || (read_size(pair ? json_array_get(value, 0) : value, least, &extent.h) &&
                           read_size(pair ? json_array_get(value, 1) : value, least, &extent.w));
    if (good) {
        *out = extent;
    } else {
        (void)snprintf(member, sizeof(member), "%s/%s", pointer, name);
        record_fault(faults, member,
                     "expected an integer from %d to %d, or two of them: [height, width]", least,
                     MODEL_WINDOW_MAX);
    }
    return good;
}

/* A pool's stride defaults to its kernel. */
static bool read_window(const struct op_fields *fields, const char *pointer, struct op *op,
                        struct record_faults *faults)
{
    bool good = read_extent(fields->kernel, pointer, "kernel", 1, &op->kernel, faults);
    op->stride = op->type == OP_CONV2D ? (struct extent){1, 1} : op->kernel;
    good = read_extent(fields->stride, pointer, "stride", 1, &op->stride, faults) && good;
    return read_extent(fields->padding, pointer, "padding", 0, &op->padding, faults) && good;
}

bool op_fields_read(const json_t *value, const char *pointer, uint32_t classes, struct op *op,
                    struct record_faults *faults)
{
    enum op_type type;
    if (!find_type(value, pointer, &type, faults)) {
        return false;
    }
    struct op_fields fields = defaults(type);
    uint32_t channels = 0;
    bool good = record_read(&records[type], value, pointer, &fields, faults, NULL) == 0;
    if (good && has_units(type)) {
        good = read_units(fields.units, pointer, classes, &channels, faults);
    }
    struct op read = {.type = type};
    if (good && is_window(type)) {
        good = read_window(&fields, pointer, &read, faults);
    }
    record_done(&records[type], &fields);
    if (!good) {
        return false;
    }
    channels = type == OP_CONV2D   ? (uint32_t)fields.filters
               : type == OP_SELECT ? (uint32_t)fields.channels
                                   : channels;
    *op = (struct op){
        .type = type,
        .out.c = channels,
        .kernel = read.kernel,
        .stride = read.stride,
        .padding = read.padding,
        .ceil_mode = fields.ceil_mode,
        .groups = type == OP_CONV2D ? (uint32_t)fields.groups : 0,
        .kernels = kernel_choice_kernels(&fields.kernels),
        .bias = (type == OP_CONV2D || type == OP_LINEAR) && fields.bias,
        .epsilon = type == OP_BATCH_NORM || type == OP_LAYER_NORM ? fields.epsilon : 0,
        .momentum = type == OP_BATCH_NORM ? fields.momentum : 0,
        .rate = type == OP_DROPOUT ? fields.rate : 0,
        .rows = (uint32_t)fields.rows,
        .heads = (uint32_t)fields.heads,
        .causal = type == OP_ATTENTION && fields.causal,
        .first = (uint32_t)fields.first,
    };
    return true;
}

/* NULL when out of memory. */
static json_t *write_extent(struct extent extent)
{
    if (extent.h == extent.w) {
        return json_integer(extent.h);
    }
    json_t *pair = json_array();
    if (json_array_append_new(pair, json_integer(extent.h)) ||
        json_array_append_new(pair, json_integer(extent.w))) {
        json_decref(pair);
        return NULL;
    }
    return pair;
}

static bool kernels_chosen(const struct conv2d_kernels *kernels)
{
    static const struct conv2d_kernels none;
    return memcmp(kernels, &none, sizeof(none)) != 0;
}

json_t *op_fields_write(const struct op *op)
{
    ASSERT(op->type < WRITABLE_TYPES);
    struct op_fields fields = {
        .type = (int)op->type,
        .filters = op->out.c,
        .kernel = is_window(op->type) ? write_extent(op->kernel) : NULL,
        .stride = is_window(op->type) ? write_extent(op->stride) : NULL,
        .padding = is_window(op->type) ? write_extent(op->padding) : NULL,
        .groups = op->groups,
        .has_kernels = kernels_chosen(&op->kernels),
        .kernels = kernel_choice_of(op->kernels),
        .units = has_units(op->type) ? json_integer(op->out.c) : NULL,
        .rows = op->rows,
        .heads = op->heads,
        .first = op->first,
        .channels = op->out.c,
        .bias = op->bias,
        .causal = op->causal,
        .ceil_mode = op->ceil_mode,
        .epsilon = op->epsilon,
        .momentum = op->momentum,
        .rate = op->rate,
    };
    bool complete = (!has_units(op->type) || fields.units) &&
                    (!is_window(op->type) || (fields.kernel && fields.stride && fields.padding));
    json_t *value = complete ? record_write(&records[op->type], &fields) : NULL;
    record_done(&records[op->type], &fields);
    return value;
}
