#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "libtrain/description/description_parts.h"

/* The usual samples of each kind, tried in order. A stated shape replaces that of the first and
 * ends the search. */
static const struct model_fit images[] = {{{28, 28, 1}, DTYPE_U8, 10, 1},
                                          {{32, 32, 3}, DTYPE_U8, 10, 1},
                                          {{224, 224, 3}, DTYPE_U8, 1000, 1}};
static const struct model_fit text = {{64, 1, 1}, DTYPE_U8, 256, 64};
static const struct model_fit vector = {{1, 1, 64}, DTYPE_F32, 10, 1};

/* The usual samples for a description, by the type of its first op. */
static const struct model_fit *usual_fits(const json_t *description, size_t *count)
{
    const json_t *unit = json_array_get(json_object_get(description, "units"), 0);
    const json_t *op = json_array_get(json_object_get(unit, "ops"), 0);
    const char *type = json_string_value(json_object_get(op, "type"));
    *count = 1;
    if (type && strcmp(type, op_type_names[OP_EMBEDDING]) == 0) {
        return &text;
    }
    if (type && strcmp(type, op_type_names[OP_LINEAR]) == 0) {
        return &vector;
    }
    *count = sizeof(images) / sizeof(images[0]);
    return images;
}

/* Replace the guess by what the description states of its input. The reader rejects an invalid
 * shape or dtype. Return whether the description states a shape. */
static bool take_stated(const json_t *input, struct model_fit *fit)
{
    const json_t *shape = json_object_get(input, "shape");
    const char *dtype = json_string_value(json_object_get(input, "dtype"));
    size_t channels = json_array_size(json_object_get(input, "mean"));
    uint32_t *const side[] = {&fit->input.h, &fit->input.w, &fit->input.c};
    if (channels > 0) {
        fit->input.c = (uint32_t)channels;
    }
    for (size_t i = 0; i < 3 && json_array_size(shape) == 3; i++) {
        json_int_t stated = json_integer_value(json_array_get(shape, i));
        *side[i] = stated > 0 && stated <= MODEL_ELEMENTS_MAX ? (uint32_t)stated : *side[i];
    }
    if (dtype) {
        fit->dtype = strcmp(dtype, "float32") == 0 ? DTYPE_F32 : DTYPE_U8;
    }
    if (fit->input.w == 1) {
        fit->positions = fit->input.h;
    }
    return shape != NULL;
}

/* Try the guess, then the fewest possible classes (so that a fixed number of outputs is accepted),
 * then one label for a whole sequence. The faults are those of the guess. */
static int try_fit(const json_t *description, const struct model_fit *fit,
                   struct assumption *assumption, struct model **out, struct record_faults *faults,
                   struct err *err)
{
    const struct model_fit variants[] = {
        {fit->input, fit->dtype, 1, fit->positions},
        {fit->input, fit->dtype, fit->classes, 1},
        {fit->input, fit->dtype, 1, 1},
    };
    int rc = description_parse_assuming(description, fit, assumption, out, faults, err);
    size_t count = fit->positions > 1 ? 3 : 1;
    for (size_t i = 0; rc == ERR_INVALID && i < count; i++) {
        rc = description_parse(description, &variants[i], out, NULL, NULL) == 0 ? 0 : rc;
    }
    return rc;
}

int description_parse_usual(const json_t *description, struct model **out, bool *assumed,
                            struct record_faults *faults, struct err *err)
{
    const json_t *input = json_object_get(description, "input");
    size_t count;
    const struct model_fit *usual = usual_fits(description, &count);
    size_t furthest = 0;
    bool stated = false;
    *assumed = false;
    int rc = description_parse(description, NULL, out, NULL, err);
    for (size_t i = 0; rc == ERR_INVALID && i < count && !stated; i++) {
        struct model_fit fit = usual[i];
        struct assumption assumption = {0};
        struct record_faults found = {0};
        struct err why = {0};
        *assumed = true;
        stated = take_stated(input, &fit);
        if (!stated) {
            (void)snprintf(assumption.note, sizeof(assumption.note),
                           "; assumed %" PRIu32 " x %" PRIu32 " x %" PRIu32
                           " of %s: state input.shape and input.dtype",
                           fit.input.h, fit.input.w, fit.input.c,
                           fit.dtype == DTYPE_F32 ? "float32" : "uint8");
        }
        rc = try_fit(description, &fit, &assumption, out, &found, &why);
        if (rc && (i == 0 || assumption.op_count > furthest)) {
            furthest = assumption.op_count;
            *faults = found;
            *err = why;
        }
    }
    return rc;
}
