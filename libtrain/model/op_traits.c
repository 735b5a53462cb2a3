#include "libtrain/model/op_traits.h"

const struct op_traits *op_traits(enum op_type type)
{
    static const struct op_traits table[] = {
        [OP_CONV2D] = {.backward_input = true,
                       .mixes = true,
                       .new_channels = true,
                       .initial = INITIAL_HE,
                       .product = PRODUCT_CONVOLUTION},
        [OP_LINEAR] = {.backward_input = true,
                       .new_channels = true,
                       .initial = INITIAL_HE,
                       .product = PRODUCT_DENSE},
        [OP_BATCH_NORM] = {.backward_input = true,
                           .in_place = true,
                           .gradient_in_place = true,
                           .initial = INITIAL_ONE},
        [OP_RELU] = {.backward_output = true, .in_place = true, .gradient_in_place = true},
        [OP_RELU6] = {.backward_output = true, .in_place = true, .gradient_in_place = true},
        [OP_MAX_POOL] = {.saved_again = true, .mixes = true},
        [OP_AVG_POOL] = {.mixes = true},
        [OP_GLOBAL_AVG_POOL] = {.mixes = true},
        [OP_FLATTEN] = {.mixes = true, .pass = true, .pass_gradient = true},
        [OP_DROPOUT] = {.in_place = true, .gradient_in_place = true},
        [OP_LAYER_NORM] = {.backward_input = true,
                           .in_place = true,
                           .gradient_in_place = true,
                           .initial = INITIAL_ONE},
        [OP_GELU] = {.backward_input = true, .in_place = true, .gradient_in_place = true},
        [OP_SILU] = {.backward_input = true, .in_place = true, .gradient_in_place = true},
        [OP_EMBEDDING] = {.backward_input = true, .new_channels = true, .initial = INITIAL_TABLE},
        [OP_POSITIONS] = {.in_place = true, .pass_gradient = true, .initial = INITIAL_TABLE},
        [OP_ATTENTION] = {.backward_input = true,
                          .mixes = true,
                          .new_channels = true,
                          .product = PRODUCT_ATTENTION},
        [OP_SELECT] = {.new_channels = true},
        [OP_ADD] = {.in_place = true, .pass_gradient = true},
        [OP_CONCAT] = {.new_channels = true},
    };
    return &table[type];
}
