/* model_file.h: the file of a trained model (trained.h) opened on this machine: what it says of
 * itself, or what a description beside it says, and its tensors brought into a stage. For
 * predict.c; one thread. */
#ifndef AGENT_OFFLINE_MODEL_FILE_H
#define AGENT_OFFLINE_MODEL_FILE_H

#include <stdbool.h>

#include "base/err.h"
#include "libtrain/formats/dataset.h"
#include "libtrain/model/trained.h"
#include "libtrain/train.h"

struct model_file {
    int fd;
    struct trained_file *trained;
    struct model *described;   /* by model_file_describe; owned */
    const struct model *model; /* NULL: the file does not say which, and nobody else has yet */
};

/* *out is what model_file_close takes even where this fails. described: model_file_describe will
 * follow, so ERR_INVALID for a file that holds its description; else ERR_INVALID for one that does
 * not. Errors name the path. */
NODISCARD int model_file_open(const char *path, bool described, struct model_file *out,
                              struct err *err);
/* Read the description that `name` says, of the zoo or a file; what it leaves open follows from the
 * data and from the last tensor, which has one row a class. */
NODISCARD int model_file_describe(struct model_file *file, const char *name,
                                  const struct dataset_info *info, struct err *err);
/* The tensors into a stage of the whole model, for which trained_check has passed. */
NODISCARD int model_file_load(const struct model_file *file, struct train_stage *stage,
                              struct err *err);
void model_file_close(struct model_file *file);

#endif
