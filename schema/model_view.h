/* model_view.h: a model in the answer of GET /v1/models/{name}: its units with parameters, bytes
 * and FLOPs, counted from the description alone. Pure. */
#ifndef SCHEMA_MODEL_VIEW_H
#define SCHEMA_MODEL_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "libtrain/model/model.h"
#include "schema/dataset.h"
#include "schema/limits.h"

struct model_view_unit {
    char name[NAME_SIZE];
    int64_t height, width, channels; /* of its output */
    int64_t parameters;
    int64_t parameter_bytes;  /* with batch-norm's statistics */
    int64_t activation_bytes; /* per sample, kept from forward to backward */
    int64_t output_bytes;     /* per sample: the tensor at the boundary after the unit */
    double forward_flops;     /* per sample */
    double backward_flops;
};

struct model_view {
    struct model_row row;
    bool assumed; /* input and classes are defaults, by zoo_fit or description_parse_usual */
    int64_t height, width, channels; /* of the input */
    char dtype[8];                   /* "U8", "F32" */
    int64_t classes;
    int64_t parameters;
    double forward_flops, backward_flops; /* per sample, of the whole model */
    double sgd_learning_rate;             /* learning_rate_default with sgd */
    struct model_view_unit unit[UNITS_MAX];
    size_t unit_count;
    json_t *description; /* borrowed: as posted; NULL: not shown */
};

extern const struct record model_view_record;

/* Fill the view of a model. row: its name, hash, revision; assumed: as of struct model_view. `out`
 * is about 40 KB. ERR_MEMORY. */
NODISCARD int model_view_make(const struct model *model, const struct model_row *row, bool assumed,
                              struct model_view *out, struct err *err);

#endif
