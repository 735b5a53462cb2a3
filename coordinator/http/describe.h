/* describe.h: models by name (the zoo, then posted ones) and the requirements of a data set on a
 * model. The loop's thread only. */
#ifndef COORDINATOR_HTTP_DESCRIBE_H
#define COORDINATOR_HTTP_DESCRIBE_H

#include "coordinator/coordinator.h"
#include "libtrain/description/description.h"
#include "libtrain/model/model.h"

/* The description of a named model; owned by the caller. ERR_NOT_FOUND: err lists the known
 * names. */
NODISCARD int describe_named(struct coordinator *coordinator, const char *name, json_t **out,
                             struct err *err);

/* Input shape, dtype and classes that a model needs for this data set. */
struct model_fit describe_fit(const struct dataset *dataset);
/* The names of its classes; none where they are not known. ERR_NOT_FOUND, ERR_FORMAT: the row is
 * lost or damaged. */
NODISCARD int describe_class_names(struct coordinator *coordinator, const struct dataset *dataset,
                                   struct name_list *out, struct err *err);

#endif
