/* conv2d_kernel.h: the kernels of a convolution and which one each of its three passes takes. The
 * choice enters the numbers: it is a function of the shape and the backend unless a job says
 * otherwise (kernel_table.h), and stays for the life of the job. Shared by descriptions, the memory
 * plan and libtrain/ops. Pure; any thread. */
#ifndef LIBTRAIN_MODEL_CONV2D_KERNEL_H
#define LIBTRAIN_MODEL_CONV2D_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

struct conv2d_shape;

enum conv2d_pass { CONV2D_FORWARD, CONV2D_BACKWARD_DATA, CONV2D_BACKWARD_WEIGHTS };
#define CONV2D_PASSES 3
extern const char
    *const conv2d_pass_names[]; /* "forward", "backward_data", "backward_weights"; ends with NULL */

enum conv2d_kernel {
    CONV2D_BY_SHAPE,  /* no choice: conv2d_kernels_resolve makes it */
    CONV2D_COLUMNS,   /* im2col and a matrix product, any shape but depthwise */
    CONV2D_POINTWISE, /* 1 x 1: one product */
    CONV2D_DEPTHWISE,
    CONV2D_DIRECT,          /* few channels; not backward to the input */
    CONV2D_WINOGRAD4,       /* F(4 x 4, 3 x 3) */
    CONV2D_ONEDNN_DIRECT,   /* the library's layout for activations */
    CONV2D_ONEDNN_NHWC,     /* activations as they are */
    CONV2D_ONEDNN_WINOGRAD, /* where the library has it: AVX-512 */
};
#define CONV2D_KERNELS 9
extern const char *const conv2d_kernel_names[]; /* "by_shape", "columns", ...; ends with NULL */

/* What a build brings along beside our own kernels. */
enum conv2d_backend { CONV2D_BACKEND_OWN, CONV2D_BACKEND_ONEDNN };
/* The backend that a device's numeric class names. */
enum conv2d_backend conv2d_backend_of(const char *numeric_class);

/* enum conv2d_kernel by pass. All zero: by shape. */
struct conv2d_kernels {
    uint8_t pass[CONV2D_PASSES];
};

bool conv2d_kernel_is_onednn(enum conv2d_kernel kernel);
/* Whether the kernel can do this pass of a convolution of this shape (of any number of samples).
 * CONV2D_BY_SHAPE always can. */
bool conv2d_kernel_can(enum conv2d_kernel kernel, const struct conv2d_shape *shape,
                       enum conv2d_pass pass);
/* `asked` with each CONV2D_BY_SHAPE replaced by what the backend does with this shape; the samples
 * do not count. */
struct conv2d_kernels conv2d_kernels_resolve(struct conv2d_kernels asked,
                                             const struct conv2d_shape *shape,
                                             enum conv2d_backend backend);

#endif
