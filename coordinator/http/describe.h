/* describe.h: finds models by name (the zoo, then posted ones), and states the requirements of a
 * data set on a model. The loop's thread only. */
#ifndef COORDINATOR_HTTP_DESCRIBE_H
#define COORDINATOR_HTTP_DESCRIBE_H

#include "coordinator/coordinator.h"
#include "libtrain/description/description.h"
#include "libtrain/model/model.h"

/* Read the description of a named model; the caller owns it. ERR_NOT_FOUND: err lists the known
 * names. */
NODISCARD int describe_named(struct coordinator *coordinator, const char *name, json_t **out,
                             struct err *err);

/* A named model with its input. */
struct described {
    json_t *description;
    struct model *model;
    bool assumed; /* the input is the usual one, for lack of a data set */
};

/* Resolve a named model for a named data set or, if dataset_name is NULL, with the model's usual
 * input. field: the pointer for all faults of the description; NULL: their places in the
 * description. false: a problem was sent. */
bool describe_model(struct coordinator *coordinator, struct http_exchange *exchange,
                    const char *name, const char *dataset_name, const char *field,
                    struct described *out);
void described_done(struct described *described);

/* Return the input shape, dtype and classes that a model needs for this data set. */
struct model_fit describe_fit(const struct dataset *dataset);
/* Read the class names of a data set; none if they are unknown. ERR_NOT_FOUND, ERR_FORMAT: the row
 * is lost or damaged. */
NODISCARD int describe_class_names(struct coordinator *coordinator, const struct dataset *dataset,
                                   struct name_list *out, struct err *err);

#endif
