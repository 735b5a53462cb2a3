/* kernel_names.h: the kernels of convolutions and the three passes that each choose one, as data. A
 * model keeps the choice as part of its description; libtrain/kernels makes it. Pure; any
 * thread. */
#ifndef LIBTRAIN_MODEL_KERNEL_NAMES_H
#define LIBTRAIN_MODEL_KERNEL_NAMES_H

#include <stdint.h>

enum conv2d_pass { CONV2D_FORWARD, CONV2D_BACKWARD_DATA, CONV2D_BACKWARD_WEIGHTS };
#define CONV2D_PASSES 3
extern const char
    *const conv2d_pass_names[]; /* "forward", "backward_data", "backward_weights"; ends with NULL */

enum conv2d_kernel {
    CONV2D_BY_SHAPE,  /* not chosen: conv2d_kernels_resolve chooses */
    CONV2D_COLUMNS,   /* im2col and a matrix product, any shape but depthwise */
    CONV2D_POINTWISE, /* 1 x 1: one product */
    CONV2D_DEPTHWISE,
    CONV2D_DIRECT,          /* few channels; not backward to the input */
    CONV2D_WINOGRAD4,       /* F(4 x 4, 3 x 3) */
    CONV2D_ONEDNN_DIRECT,   /* activations in the library's layout */
    CONV2D_ONEDNN_NHWC,     /* activations stay NHWC */
    CONV2D_ONEDNN_WINOGRAD, /* only on CPUs with AVX-512 */
};
#define CONV2D_KERNELS 9
extern const char *const conv2d_kernel_names[]; /* "by_shape", "columns", ...; ends with NULL */

/* enum conv2d_kernel by pass. All zero: CONV2D_BY_SHAPE. */
struct conv2d_kernels {
    uint8_t pass[CONV2D_PASSES];
};

#endif
