/* op_traits.h: what an op needs and may do, by type: the memory plan (arena.c) and the costs
 * (cost.c) follow one table. Private to libtrain/model. Pure; any thread. */
#ifndef LIBTRAIN_MODEL_OP_TRAITS_H
#define LIBTRAIN_MODEL_OP_TRAITS_H

#include <stdbool.h>

#include "libtrain/model/model.h"

struct op_traits {
    bool backward_input;  /* backward reads the input */
    bool backward_output; /* backward reads the output */
    bool saved_again; /* what forward saves for backward is large: rather made again than kept by
                         who recomputes */
    bool in_place;    /* forward may overwrite input[0], where nobody needs it any more */
    bool gradient_in_place; /* backward may overwrite the output's gradient */
    bool mixes; /* an output's position may follow from other positions of the input; attention:
                 * from those that it sees
                 */
    bool pass;  /* the output is the input; a sum's gradient is that of each input */
    bool pass_gradient;
};

/* Static. */
const struct op_traits *op_traits(enum op_type type);

#endif
