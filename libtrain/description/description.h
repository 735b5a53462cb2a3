/* description.h: model descriptions (JSON, see docs/models.md and libtrain/zoo): read into a model
 * and written from one. Used by libtrain, the coordinator and the tools. Pure; any thread may read
 * the model afterwards. */
#ifndef LIBTRAIN_DESCRIPTION_DESCRIPTION_H
#define LIBTRAIN_DESCRIPTION_DESCRIPTION_H

#include <stdbool.h>

#include "base/json.h"
#include "libtrain/model/model.h"
#include "libtrain/model/slim.h"

/* The samples and labels of a data set, which a model must fit. */
struct model_fit {
    struct shape input;
    enum dtype dtype;
    uint32_t classes;
    uint32_t positions; /* labels of a sample; 0 means 1 */
};

/* Read a description. `fit` fills in what the description leaves open: "input", its shape or dtype,
 * and the "classes" of a linear (NULL: all of it must be stated).
 *
 * Faults are: a stated input that differs from fit, another number of positions than labels, fewer
 * outputs than classes, and a shape that an op does not support. More outputs are allowed, since
 * the classes of a data set are counted from its labels. Each fault has its JSON pointer and the
 * unit's name.
 *
 * ERR_INVALID with faults, for exceeded limits too; ERR_MEMORY. `faults` may be NULL. The caller
 * frees *out with model_free. */
NODISCARD int description_parse(const json_t *description, const struct model_fit *fit,
                                struct model **out, struct record_faults *faults, struct err *err);
/* Read a description without a data set: assume the usual samples for its kind if it leaves the
 * input open. That is text if it begins with an embedding, a vector if with a linear, else images.
 * A stated input and a stated number of outputs are kept; "classes" is guessed only if the
 * description says "classes". *assumed: whether anything was assumed.
 *
 * Faults come from the attempt that got furthest, and say what it assumed. Neither `faults` nor
 * `err` is NULL. */
NODISCARD int description_parse_usual(const json_t *description, struct model **out, bool *assumed,
                                      struct record_faults *faults, struct err *err);
/* Write the description with everything stated (input, classes, defaults). The same model gives the
 * same bytes; description_parse reads it without fit. A new JSON object, owned by the caller; NULL
 * when out of memory. */
json_t *description_write(const struct model *model);
/* Append the text of the description of a group's model (slim.h), compact JSON; convolutions after
 * the stem that winograd4 supports, but does not take by shape, name it. ERR_INVALID as
 * slim_check, ERR_MEMORY; ERR_LIMIT if the buffer is too small. */
NODISCARD int description_write_slice(const struct slim_split *split, size_t group, struct buf *out,
                                      struct err *err);

#endif
