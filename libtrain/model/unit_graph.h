/* unit_graph.h: what the graph of a unit says of its backward pass, whatever stage the unit is in:
 * which ops are done together, and what has to be there again where nothing but borders is kept.
 * The memory plan and the costs follow it. Private to libtrain/model. Pure; any thread. */
#ifndef LIBTRAIN_MODEL_UNIT_GRAPH_H
#define LIBTRAIN_MODEL_UNIT_GRAPH_H

#include <stdbool.h>
#include <stddef.h>

#include "libtrain/model/model.h"

/* Whether op k does op k + 1 in its own passes: a batch_norm the relu or relu6 behind it, if that
 * is its only reader.
 */
bool unit_fuses(const struct unit *unit, size_t k);

/* With RECOMPUTE_UNIT. */
struct unit_again {
    bool input;  /* its input is kept: a backward or an op that runs again reads it */
    bool output; /* its output is kept: the last op's backward reads it */
    bool op[MODEL_UNIT_OPS_MAX]; /* runs again */
};
/* input_gradient: the gradient of the unit's input is wanted. */
void unit_plan_again(const struct unit *unit, bool input_gradient, struct unit_again *out);

#endif
