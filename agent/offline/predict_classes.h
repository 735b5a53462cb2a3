/* predict_classes.h: maps the classes of the data to the outputs of a model: by name if both have
 * names, else by the number in the model's training data set or in its view. For predict.c; one
 * thread. */
#ifndef AGENT_OFFLINE_PREDICT_CLASSES_H
#define AGENT_OFFLINE_PREDICT_CLASSES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/offline/model_file.h"
#include "base/err.h"
#include "libtrain/formats/dataset.h"

struct predict_classes {
    int32_t *output_of;     /* [info->classes] output of each data class; NULL: the same number */
    struct name_list names; /* of the outputs; empty: not known */
};

/* Match the classes of data with these class names (empty: none). ERR_INVALID for a class that the
 * model does not know; ERR_MEMORY. Call predict_classes_done(out), also on failure. */
NODISCARD int predict_classes_match(const struct model_file *file, const struct dataset_info *info,
                                    const struct name_list *names, struct predict_classes *out,
                                    struct err *err);
void predict_classes_done(struct predict_classes *classes);
/* Replace the data's class numbers by those of the outputs. */
void predict_classes_translate(const struct predict_classes *classes, int32_t *labels,
                               size_t count);

#endif
