/* conv2d_kernel.h: the kernels of a convolution and which one each of its three passes takes. The
 * choice enters the numbers: it is a function of the shape and the backend unless a job says
 * otherwise (kernel_table.h), and stays for the life of the job. Shared by descriptions, the memory
 * plan and libtrain/ops. Pure; any thread. */
#ifndef LIBTRAIN_KERNELS_CONV2D_KERNEL_H
#define LIBTRAIN_KERNELS_CONV2D_KERNEL_H

#include <stdbool.h>

#include "libtrain/model/kernel_names.h"

struct conv2d_shape;

/* What a build brings along beside our own kernels. */
enum conv2d_backend { CONV2D_BACKEND_OWN, CONV2D_BACKEND_ONEDNN };
/* The backend that a device's numeric class names. */
enum conv2d_backend conv2d_backend_of(const char *numeric_class);

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
