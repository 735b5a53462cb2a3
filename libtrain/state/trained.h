/* trained.h: the file of a trained model. It is a safetensors file with each unit's parameters and
 * buffers under PyTorch's names (state.h). Its metadata has, under "paceline", one JSON document
 * with everything needed to use the model:
 *
 *     {"model": the description, everything stated, "evaluation": {"micro_batch": 32}}
 *
 * A model of a view's classes states them in "evaluation": "classes": [3, 7] are the numbers, in
 * the data set, of its outputs but the last, which is for every other class.
 *
 * The description also keeps what the training's data set states of its samples: "class_names" and
 * "input"."reading". Written by the coordinator, `paceline-agent train` and tools/from_torch.py;
 * read by `paceline-agent predict` and tools/. An unknown member is an error, because it may change
 * the model's meaning. Pure. */
#ifndef LIBTRAIN_STATE_TRAINED_H
#define LIBTRAIN_STATE_TRAINED_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "libtrain/formats/safetensors.h"
#include "libtrain/model/model.h"
#include "libtrain/model/view.h"

/* How a job evaluates its model. The same micro-batches on the same samples give the same bits. */
struct evaluation {
    int64_t micro_batch; /* samples of one call, 1 to ARENA_MICRO_BATCH_MAX */
    struct view view;    /* only its classes; none: the model's outputs are all classes */
};
#define EVALUATION_MICRO_BATCH 32 /* default if a file does not state it */

/* Append the header (8-byte length and JSON) of the file; the units' exported parts follow it.
 * ERR_LIMIT for a description that does not fit. */
NODISCARD int trained_header(const struct model *model, const struct evaluation *evaluation,
                             struct buf *out, struct err *err);

struct trained_file {
    struct safetensors_header header; /* owns its tensors */
    struct model *model;              /* NULL: the file does not describe its model */
    struct evaluation evaluation;
};

/* Read a header of `size` = data_offset bytes. A file of tensors without the document is accepted.
 * ERR_FORMAT, ERR_INVALID or ERR_LIMIT for any other file. */
NODISCARD int trained_read(const void *bytes, size_t size, struct trained_file **out,
                           struct err *err);
void trained_free(struct trained_file **file);

/* Read the document alone. *model is new and owned by the caller. Errors as trained_read. */
NODISCARD int trained_read_note(const char *text, struct model **model,
                                struct evaluation *evaluation, struct err *err);

/* Check that the file has exactly the tensors of the model, with their shapes. ERR_INVALID names
 * the first difference and says how many more there are. */
NODISCARD int trained_check(const struct trained_file *file, const struct model *model,
                            struct err *err);

#endif
