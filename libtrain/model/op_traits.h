/* op_traits.h: the tensors that ops of each type read and may overwrite, their initial values and
 * their products. One table for the memory plan (arena.c), the costs (cost.c), causality (model.c),
 * shapes (infer.c), initial parameters (unit_state.c) and the features of units (unit_work.c). Any
 * thread. */
#ifndef LIBTRAIN_MODEL_OP_TRAITS_H
#define LIBTRAIN_MODEL_OP_TRAITS_H

#include <stdbool.h>

#include "libtrain/model/model.h"

/* The initial values of an op's first parameter. All its other parameters start at 0. */
enum op_initial {
    INITIAL_ZERO,
    INITIAL_ONE,
    INITIAL_HE,    /* uniform in +-sqrt(6 / inputs of an output). Source: He et al., "Delving deep
                      into rectifiers", 2015 */
    INITIAL_TABLE, /* uniform in +-sqrt(3): variance 1 */
};

/* The matrix product that computes an op. */
enum op_product { PRODUCT_NONE, PRODUCT_CONVOLUTION, PRODUCT_DENSE, PRODUCT_ATTENTION };

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
    bool new_channels; /* output channel k is not made of input channel k alone: an order of the
                          input's elements does not hold for the output */
    enum op_initial initial;
    enum op_product product;
};

/* Return the traits of a type; static. */
const struct op_traits *op_traits(enum op_type type);

#endif
