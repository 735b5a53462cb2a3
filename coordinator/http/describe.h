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

/* A named model with its input. */
struct described {
    json_t *description;
    struct model *model;
    bool assumed; /* without a data set: the usual input */
};

/* Resolve a named model for the data set of that name, or, if NULL, with its usual input. field:
 * the pointer for faults of the description; NULL: their places in it. false: a problem was
 * answered. */
bool describe_model(struct coordinator *coordinator, struct http_exchange *exchange,
                    const char *name, const char *dataset_name, const char *field,
                    struct described *out);
void described_done(struct described *described);

/* Input shape, dtype and classes that a model needs for this data set. */
struct model_fit describe_fit(const struct dataset *dataset);
/* The names of its classes; none where they are not known. ERR_NOT_FOUND, ERR_FORMAT: the row is
 * lost or damaged. */
NODISCARD int describe_class_names(struct coordinator *coordinator, const struct dataset *dataset,
                                   struct name_list *out, struct err *err);

#endif
