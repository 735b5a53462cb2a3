/* model_file.h: the file of a trained model (trained.h) on this machine. predict.c opens one, takes
 * the description from it or from another source, and loads its tensors into a stage; train.c
 * writes one. One thread. */
#ifndef AGENT_OFFLINE_MODEL_FILE_H
#define AGENT_OFFLINE_MODEL_FILE_H

#include <stdbool.h>

#include "base/err.h"
#include "libtrain/formats/dataset.h"
#include "libtrain/state/trained.h"
#include "libtrain/train.h"
#include "net/hash.h"

struct model_file {
    int fd;
    struct trained_file *trained;
    struct model *described;   /* set by model_file_describe; owned */
    const struct model *model; /* NULL: not known yet */
};

/* Open a model file. Call model_file_close(out), also on failure. described: model_file_describe
 * will follow, so a file that contains its description is ERR_INVALID; else a file without one is
 * ERR_INVALID. Errors name the path. */
NODISCARD int model_file_open(const char *path, bool described, struct model_file *out,
                              struct err *err);
/* Read the description `name`, from the zoo or from a file. Values that it leaves open follow from
 * the data and from the last tensor, which has one row per class. */
NODISCARD int model_file_describe(struct model_file *file, const char *name,
                                  const struct dataset_info *info, struct err *err);
/* Load the tensors into a stage of the whole model, for which trained_check has passed. */
NODISCARD int model_file_load(const struct model_file *file, struct train_stage *stage,
                              struct err *err);
void model_file_close(struct model_file *file);

/* Check before the training that --output can be written. ERR_INVALID: the path exists and is not a
 * regular file (the rename at the end would replace even a device); or the error of its
 * directory. */
NODISCARD int model_file_check_output(const char *path, struct err *err);
/* As train_unit_export, of `unit` of the model in `of`. */
typedef int (*model_export_fn)(void *of, size_t unit, train_write_fn write, void *arg,
                               struct err *err);
struct model_source {
    model_export_fn export_unit;
    void *of;
};
/* Write the model with the source's state, one tensor at a time, because a copy of the whole model
 * would be the largest allocation of a training. sha256: of the file. */
NODISCARD int model_file_write(const char *path, const struct model *model,
                               const struct model_source *source,
                               const struct evaluation *evaluation, char sha256[HASH_TEXT_SIZE],
                               struct err *err);

#endif
