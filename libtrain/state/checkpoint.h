/* checkpoint.h: a safetensors file that a training starts from, an export of ours or one that
 * PyTorch wrote: which of its tensors a unit takes, and the unit's state of version 0 made of them.
 * The bytes come through a function, so that a file on a disk, a blob in the center and one that is
 * fetched range by range are read alike. Used by the coordinator (does the job's model fit?), the
 * agent's runtime and `paceline-agent train`; one thread.
 *
 * A unit takes every parameter and buffer of its own by name, and nothing else: the tensor must be
 * there, be F32 and have the same shape. A tensor of the file that bears the unit's name but is
 * none of the unit's is an error, since the file's unit then computes something else;
 * `num_batches_tracked`, which PyTorch counts and nothing here needs, is passed over, as are
 * tensors of units that the model does not have. The optimizer starts anew. What the file says of
 * its model (trained.h) is compared where units are taken from it: weights mean something only with
 * the same input and the same classes. */
#ifndef LIBTRAIN_STATE_CHECKPOINT_H
#define LIBTRAIN_STATE_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "libtrain/state/state.h"

#define CHECKPOINT_TENSORS_MAX 16384u /* of a file; those that a model has none of included */

/* Read exactly `size` bytes of the file from `offset`. */
typedef int (*checkpoint_read_fn)(void *arg, uint64_t offset, void *out, size_t size,
                                  struct err *err);

struct checkpoint_file;

/* Read the header. ERR_FORMAT, ERR_LIMIT: it is none, has an empty tensor or too many tensors; what
 * `read` answers; ERR_MEMORY. */
NODISCARD int checkpoint_file_open(checkpoint_read_fn read, void *arg, struct checkpoint_file **out,
                                   struct err *err);
void checkpoint_file_close(struct checkpoint_file **file);
/* How long the file has to be by its header. */
uint64_t checkpoint_file_bytes(const struct checkpoint_file *file);
size_t checkpoint_file_tensors(const struct checkpoint_file *file);

/* Whether the unit can be taken from the file: ERR_INVALID names the tensor that differs;
 * ERR_MEMORY. */
NODISCARD int checkpoint_check_unit(const struct checkpoint_file *file, const struct model *model,
                                    size_t unit, struct err *err);
/* Whether the model's input and classes are those that the file's units were trained with, as far
 * as both say so; taken[unit_count]: which units are taken from it. With the first one mean, std
 * and reading must be equal, and the scale of the same dtype; with the last one that has parameters
 * every named class must keep its number. ERR_INVALID says what differs and what to do; ERR_MEMORY.
 */
NODISCARD int checkpoint_check_samples(const struct checkpoint_file *file,
                                       const struct model *model, const bool *taken,
                                       struct err *err);
/* As checkpoint_check_unit, and the snapshot blob (state.h) of the unit at version 0:
 * layout->blob_bytes, aligned or not. The layout is of this unit. */
NODISCARD int checkpoint_read_unit(struct checkpoint_file *file, const struct model *model,
                                   size_t unit, const struct state_layout *layout, void *blob,
                                   struct err *err);

#endif
