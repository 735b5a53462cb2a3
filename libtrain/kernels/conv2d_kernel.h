/* conv2d_kernel.h: which kernel each of the three passes of a convolution takes. The choice changes
 * the bits of the results. It is a function of the shape and the backend, unless a job states
 * another (kernel_table.h). It is fixed for the life of the job. Shared by the description, the
 * memory plan and libtrain/ops. Pure; any thread. */
#ifndef LIBTRAIN_KERNELS_CONV2D_KERNEL_H
#define LIBTRAIN_KERNELS_CONV2D_KERNEL_H

#include <stdbool.h>

#include "libtrain/model/kernel_names.h"

struct conv2d_shape;

/* The kernels of a build in addition to our own. */
enum conv2d_backend { CONV2D_BACKEND_OWN, CONV2D_BACKEND_ONEDNN, CONV2D_BACKENDS };
/* Return the backend that a device's numeric class names. */
enum conv2d_backend conv2d_backend_of(const char *numeric_class);

bool conv2d_kernel_is_onednn(enum conv2d_kernel kernel);
/* Whether the kernel supports this pass of a convolution of this shape (the number of samples does
 * not matter). CONV2D_BY_SHAPE always does. */
bool conv2d_kernel_can(enum conv2d_kernel kernel, const struct conv2d_shape *shape,
                       enum conv2d_pass pass);
/* Return `asked` with each CONV2D_BY_SHAPE replaced by the backend's choice for this shape. The
 * number of samples does not matter. */
struct conv2d_kernels conv2d_kernels_resolve(struct conv2d_kernels asked,
                                             const struct conv2d_shape *shape,
                                             enum conv2d_backend backend);

#endif
