/* unit_graph.h: properties of a unit's backward pass that follow from its graph alone, in every
 * stage: the fused ops, and the recomputed tensors if only those at unit boundaries are kept. The
 * memory plan and the costs both follow it, so they agree. Pure; any thread. */
#ifndef LIBTRAIN_MODEL_UNIT_GRAPH_H
#define LIBTRAIN_MODEL_UNIT_GRAPH_H

#include <stdbool.h>
#include <stddef.h>

#include "libtrain/model/model.h"

/* Return whether op k computes op k + 1 in its own passes: a batch_norm fuses a relu or relu6 that
 * is its only reader. */
bool unit_fuses(const struct unit *unit, size_t k);

/* The kept and recomputed tensors of a unit with RECOMPUTE_UNIT. */
struct unit_again {
    bool input;                  /* its input is kept: some backward or recomputed op reads it */
    bool output;                 /* its output is kept: the last op's backward reads it */
    bool op[MODEL_UNIT_OPS_MAX]; /* is recomputed */
};
/* Find the kept and recomputed tensors. input_gradient: whether the gradient of the unit's input is
 * needed. */
void unit_plan_again(const struct unit *unit, bool input_gradient, struct unit_again *out);

#endif
