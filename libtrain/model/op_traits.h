/* op_traits.h: what ops of each type read and may overwrite. One table for the memory plan
 * (arena.c), the costs (cost.c) and causality (model.c). Any thread. */
#ifndef LIBTRAIN_MODEL_OP_TRAITS_H
#define LIBTRAIN_MODEL_OP_TRAITS_H

#include <stdbool.h>

#include "libtrain/model/model.h"

struct op_traits {
    bool backward_input;  /* backward reads the input */
    bool backward_output; /* backward reads the output */
    bool saved_again; /* the data that forward saves for backward is large: with RECOMPUTE_UNIT it
                         is recomputed */
    bool in_place;    /* forward may overwrite input[0] after its last reader */
    bool gradient_in_place; /* backward may overwrite the output's gradient */
    bool mixes; /* an output position may depend on other input positions; attention: on those it
                   attends to */
    bool pass;  /* the output is the input; the gradient of a sum is that of each input */
    bool pass_gradient;
};

/* Static. */
const struct op_traits *op_traits(enum op_type type);

#endif
