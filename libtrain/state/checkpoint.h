/* checkpoint.h: reads a safetensors file as the start of training, one of our exports or one of
 * PyTorch. It finds the tensors of a unit and makes its state of version 0 from them. A callback
 * provides the bytes, so that a local file, a blob in the center and a blob fetched range by range
 * are read alike. Used by the coordinator (does the job's model fit?), the agent's runtime and
 * `paceline-agent train`; one thread.
 *
 * A unit takes all of its parameters and buffers by name: each must be present, F32 and of the same
 * shape. A tensor with the unit's prefix that the unit does not have is an error, because then the
 * file's unit computes something else. Ignored are `num_batches_tracked`, which PyTorch counts and
 * nothing here needs, and tensors of units that the model does not have. The optimizer's state
 * starts at zero.
 *
 * If the file describes its model (trained.h), input and classes are compared too: weights have a
 * meaning only with the same input and the same classes. */
#ifndef LIBTRAIN_STATE_CHECKPOINT_H
#define LIBTRAIN_STATE_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "libtrain/model/view.h"
#include "libtrain/state/state.h"

#define CHECKPOINT_TENSORS_MAX 16384u /* in a file, the model's or not */

/* Read exactly `size` bytes of the file from `offset`. */
typedef int (*checkpoint_read_fn)(void *arg, uint64_t offset, void *out, size_t size,
                                  struct err *err);

struct checkpoint_file;

/* Read the header. ERR_FORMAT or ERR_LIMIT for an invalid header, an empty tensor or too many
 * tensors; ERR_MEMORY; errors of `read`. */
NODISCARD int checkpoint_file_open(checkpoint_read_fn read, void *arg, struct checkpoint_file **out,
                                   struct err *err);
void checkpoint_file_close(struct checkpoint_file **file);
/* Return the length of the file according to its header. */
uint64_t checkpoint_file_bytes(const struct checkpoint_file *file);
size_t checkpoint_file_tensors(const struct checkpoint_file *file);
/* Read the file's description of its model (trained.h); *out is NULL if it has none, else the
 * caller frees it. ERR_INVALID for a description that cannot be read; ERR_MEMORY. */
NODISCARD int checkpoint_file_model(const struct checkpoint_file *file, struct model **out,
                                    struct err *err);

/* Check that the unit can be read from the file. ERR_INVALID names the tensor that differs;
 * ERR_MEMORY. */
NODISCARD int checkpoint_check_unit(const struct checkpoint_file *file, const struct model *model,
                                    size_t unit, struct err *err);
/* Check that the model's input and classes equal those of the file's training, as far as both state
 * them. taken[unit_count]: the units that are read from the file. If the first one is, mean, std
 * and reading must be equal, and the scale for the same dtype. If the last one with parameters is,
 * every named class must keep its number. ERR_INVALID says what differs and what to do;
 * ERR_MEMORY. */
NODISCARD int checkpoint_check_samples(const struct checkpoint_file *file,
                                       const struct model *model, const bool *taken,
                                       struct err *err);
/* Check that the file's outputs stand for the same classes as those of a job with this view (NULL:
 * all classes) if the last unit with parameters is taken. ERR_INVALID, ERR_MEMORY. */
NODISCARD int checkpoint_check_view(const struct checkpoint_file *file, const struct model *model,
                                    const bool *taken, const struct view *view, struct err *err);
/* Check the unit and write its snapshot blob (state.h) of version 0: layout->blob_bytes, of any
 * alignment. The layout is that of this unit. Errors as checkpoint_check_unit. */
NODISCARD int checkpoint_read_unit(struct checkpoint_file *file, const struct model *model,
                                   size_t unit, const struct state_layout *layout, void *blob,
                                   struct err *err);

#endif
