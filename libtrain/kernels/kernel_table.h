/* kernel_table.h: the kernels of all convolutions of a model as one JSON object, the job field
 * `kernels`:
 *
 *     {"block1.body.3": {"forward": "winograd4", "backward_data": "columns",
 *                        "backward_weights": "winograd4"}, ...}
 *
 * The choice becomes part of the model's description (the field `kernels` of its ops), so every
 * device that gets the model computes with the same kernels. Used by the coordinator's edge and
 * `paceline-agent train`. Pure; any thread. */
#ifndef LIBTRAIN_KERNELS_KERNEL_TABLE_H
#define LIBTRAIN_KERNELS_KERNEL_TABLE_H

#include "base/json.h"
#include "libtrain/kernels/conv2d_kernel.h"
#include "libtrain/model/model.h"

/* Store the choices of a table in the model. Passes and ops that it leaves out keep theirs; NULL
 * and JSON's null choose nothing.
 *
 * ERR_INVALID, with a fault below /kernels, for each unknown op, pass or kernel, for each kernel
 * that does not support its op's shape, and for more members than the model has convolutions. The
 * model may be changed even then. `faults` may be NULL. */
NODISCARD int kernel_table_apply(struct model *model, json_t *table, struct record_faults *faults,
                                 struct err *err);

/* Return the whole table, with the backend's choices by shape written out; kernel_table_apply reads
 * it. A new object, owned by the caller; NULL when out of memory. */
json_t *kernel_table_describe(const struct model *model, enum conv2d_backend backend);

/* Whether some pass of a convolution names a kernel of oneDNN. */
bool kernel_table_needs_onednn(const struct model *model);
/* Whether some pass names winograd4 for channels that are no multiple of 16. */
bool kernel_table_fills_channels(const struct model *model);

#endif
