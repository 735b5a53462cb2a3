/* trained.h: the file of a trained model: safetensors with each unit's parameters and buffers under
 * PyTorch's names (state.h) and, in its metadata under "paceline", one JSON document with all that
 * it takes to use the model:
 *
 *     {"model": its description with nothing left open, "evaluation": {"micro_batch": 32}}
 *
 * What the data set of the training says of its samples is in the description: "class_names" and
 * "input"."reading". Written by the coordinator, `paceline-agent train` and tools/from_torch.py;
 * read by `paceline-agent predict` and tools/. A member that a reader does not know is an error: it
 * may change what the model says. Pure. */
#ifndef LIBTRAIN_STATE_TRAINED_H
#define LIBTRAIN_STATE_TRAINED_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "libtrain/formats/safetensors.h"
#include "libtrain/model/model.h"

/* How a job evaluates its model. Whoever does the same to the same samples comes to the job's bits.
 */
struct evaluation {
    int64_t micro_batch; /* samples of one call, 1 to ARENA_MICRO_BATCH_MAX */
};
#define EVALUATION_MICRO_BATCH 32 /* where a file does not say */

/* Append the header (8-byte length and JSON) of the file; the units' exported parts follow.
 * ERR_LIMIT for a description that does not fit it. */
NODISCARD int trained_header(const struct model *model, const struct evaluation *evaluation,
                             struct buf *out, struct err *err);

struct trained_file {
    struct safetensors_header header; /* owns its tensors */
    struct model *model;              /* NULL: the file does not say which */
    struct evaluation evaluation;
};

/* Read a header of `size` = data_offset bytes. A file of tensors without the document is taken.
 * ERR_FORMAT, ERR_INVALID or ERR_LIMIT for what is no such file. */
NODISCARD int trained_read(const void *bytes, size_t size, struct trained_file **out,
                           struct err *err);
void trained_free(struct trained_file **file);

/* The document alone: a new model, owned by the caller. Errors as above. */
NODISCARD int trained_read_note(const char *text, struct model **model,
                                struct evaluation *evaluation, struct err *err);

/* That the file has each tensor of the model with its shape, and no other: ERR_INVALID names the
 * first that differs and how many more do. */
NODISCARD int trained_check(const struct trained_file *file, const struct model *model,
                            struct err *err);

#endif
