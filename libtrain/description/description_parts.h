/* description_parts.h: a model description and its units as records, shared by the reader (parse.c,
 * lower.c) and the writer (describe.c). Private to libtrain/description. */
#ifndef LIBTRAIN_DESCRIPTION_DESCRIPTION_PARTS_H
#define LIBTRAIN_DESCRIPTION_DESCRIPTION_PARTS_H

#include "base/json.h"
#include "base/record.h"
#include "libtrain/description/description.h"
#include "libtrain/description/infer.h"
#include "libtrain/model/model.h"

struct chain {
    json_t *op[MODEL_UNIT_OPS_MAX];
    size_t count;
};

struct residual_fields {
    struct chain body;
    struct chain shortcut; /* empty: identity */
};

/* Exactly one of ops, residual and branches; `then` may follow the last two. */
struct unit_fields {
    char name[MODEL_NAME_MAX];
    struct chain ops;
    bool has_residual;
    struct residual_fields residual;
    struct chain branch[MODEL_OP_INPUTS_MAX];
    size_t branch_count;
    struct chain then;
    bool frozen;
};

struct input_fields {
    int64_t dimension[3]; /* H, W, C */
    size_t rank;          /* 0: left open */
    int dtype;            /* index into input_dtypes; -1: left open */
    double scale;         /* 0: the dtype's default */
    struct normalise normalise;
    char reading[READING_TEXT_MAX];
};

struct loss_fields {
    int type;
    double label_smoothing;
};

struct description {
    char name[MODEL_NAME_MAX];
    bool has_input;
    struct input_fields input;
    json_t *unit[MODEL_UNITS_MAX];
    size_t unit_count;
    struct loss_fields loss;
    json_t *class_names; /* NULL: none */
};

extern const struct record unit_record;
extern const struct record description_record;
extern const enum dtype input_dtypes[]; /* by index of input_fields.dtype */

/* The assumption for an open input, and the place that reading reached with it. */
struct assumption {
    char note[96];   /* appended to each fault of shapes */
    size_t op_count; /* out: ops lowered before the first fault */
};

/* A description being lowered to a chain of units; one per description_parse. */
struct lowering {
    struct model *model;
    uint32_t classes; /* of the data set; 0: unknown */
    struct record_faults *faults;
    struct assumption *assumption; /* never NULL */
    struct tensor_form form;       /* at the boundary after the units lowered so far */
    uint64_t activations;          /* elements so far */
    uint64_t parameters;
    size_t tensors, ops;
    bool broken; /* a fault: shapes are unknown from here on; fields are still checked */
    bool out_of_memory;
};

/* description_parse with an assumption, which `fit` expresses. */
NODISCARD int description_parse_assuming(const json_t *description, const struct model_fit *fit,
                                         struct assumption *assumption, struct model **out,
                                         struct record_faults *faults, struct err *err);

/* Letters, digits, '_' and '-', at least one. Names of units precede a '.' in names of tensors, so
 * they have none. */
bool description_valid_unit_name(const char *name);

/* Read unit `index` of the description into the model's unit of that index. */
void lower_unit(struct lowering *lowering, const json_t *value, size_t index);

#endif
