/* layers.h: the layers of a model, the smallest parts of a transfer of parameters or gradients: an
 * op with trained parameters and the norms after it in its unit. A norm has few parameters: a
 * transfer of its own would cost more than it hides. Pure; any thread. */
#ifndef LIBTRAIN_MODEL_LAYERS_H
#define LIBTRAIN_MODEL_LAYERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libtrain/model/model.h"

struct model_layer {
    size_t unit, op; /* of its first op */
    uint64_t floats; /* trained parameters; arenas align each tensor (libtrain/memory/arena.h) */
};

/* Return whether op k of the unit begins a layer. */
bool layers_begins(const struct unit *unit, size_t k);
/* List the layers of the units [first, end), in order.
 *
 *     out  [most]
 *
 * Returns their number, which may be larger than `most`. */
size_t layers_list(const struct model *model, size_t first, size_t end, struct model_layer *out,
                   size_t most);

#endif
