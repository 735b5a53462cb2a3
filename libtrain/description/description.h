/* description.h: model descriptions (JSON, see docs/models.md and libtrain/zoo): reading one into a
 * model and writing a model as one. Used by libtrain, the coordinator and the tools. Pure; a model
 * may be read by any thread afterwards. */
#ifndef LIBTRAIN_DESCRIPTION_DESCRIPTION_H
#define LIBTRAIN_DESCRIPTION_DESCRIPTION_H

#include <stdbool.h>

#include "base/json.h"
#include "libtrain/model/model.h"

/* What a data set asks of a model. */
struct model_fit {
    struct shape input;
    enum dtype dtype;
    uint32_t classes;
    uint32_t positions; /* labels of a sample; 0 is taken for 1 */
};

/* Read a description. Where it leaves "input" or its shape or dtype out, or a linear says "units":
 * "classes", `fit` fills them in (NULL: then all must be stated). A stated input that differs from
 * fit is a fault, as are another number of positions than labels, fewer outputs than classes (more
 * are fine: the classes of a data set are counted from the labels that occur) and a shape an op
 * cannot take; each fault has its JSON pointer and the unit's name. ERR_INVALID with faults, broken
 * limits included; ERR_MEMORY. `faults` may be NULL. Ownership: *out by model_free. */
NODISCARD int description_parse(const json_t *description, const struct model_fit *fit,
                                struct model **out, struct record_faults *faults, struct err *err);
/* description_parse where no data set says what is open: the usual samples of the description's
 * kind are assumed, bytes of text where it begins with an embedding, a vector where with a linear,
 * else images; what it states of its input stands. So does the number of outputs: `classes` are
 * guessed only where it says "classes". *assumed: whether anything was. Faults are those of the
 * attempt that went furthest and say what it assumed; neither `faults` nor `err` is NULL.
 */
NODISCARD int description_parse_usual(const json_t *description, struct model **out, bool *assumed,
                                      struct record_faults *faults, struct err *err);
/* The description with nothing left open (input, classes and defaults written out): same model,
 * same bytes; description_parse reads it back without fit. A new JSON object, owned by the caller;
 * NULL when out of memory. */
json_t *description_write(const struct model *model);

#endif
