#include "libtrain/kernels/conv2d_kernel.h"

#include <string.h>

#include "libtrain/kernels/direct_plan.h"
#include "libtrain/kernels/winograd_plan.h"
#include "libtrain/kernels/workspace.h"

#define ONEDNN_CHANNELS_MIN 16u

enum conv2d_backend conv2d_backend_of(const char *numeric_class)
{
    return strstr(numeric_class, "/onednn-") ? CONV2D_BACKEND_ONEDNN : CONV2D_BACKEND_OWN;
}

bool conv2d_kernel_is_onednn(enum conv2d_kernel kernel)
{
    return kernel == CONV2D_ONEDNN_DIRECT || kernel == CONV2D_ONEDNN_NHWC ||
           kernel == CONV2D_ONEDNN_WINOGRAD;
}

bool conv2d_kernel_can(enum conv2d_kernel kernel, const struct conv2d_shape *shape,
                       enum conv2d_pass pass)
{
    switch (kernel) {
    case CONV2D_COLUMNS:
        return !conv2d_is_depthwise(shape); /* depthwise weights have another layout */
    case CONV2D_POINTWISE: return conv2d_is_pointwise(shape);
    case CONV2D_DEPTHWISE: return conv2d_is_depthwise(shape);
    case CONV2D_DIRECT: return pass != CONV2D_BACKWARD_DATA && conv2d_is_direct(shape);
    case CONV2D_WINOGRAD4: return conv2d_can_winograd(shape);
    case CONV2D_ONEDNN_WINOGRAD:
        return shape->KH == 3 && shape->KW == 3 && shape->SH == 1 && shape->SW == 1 &&
               shape->G == 1 && shape->PH <= 1 && shape->PW <= 1;
    case CONV2D_BY_SHAPE:
    case CONV2D_ONEDNN_DIRECT:
    case CONV2D_ONEDNN_NHWC: return true;
    }
    return false;
}

/* Return the first of our own kernels that supports the pass and is a default for the shape. */
static enum conv2d_kernel own_kernel(const struct conv2d_shape *shape, enum conv2d_pass pass)
{
    static const enum conv2d_kernel order[] = {CONV2D_DEPTHWISE, CONV2D_POINTWISE, CONV2D_WINOGRAD4,
                                               CONV2D_DIRECT};
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        bool usual = order[i] != CONV2D_WINOGRAD4 || conv2d_is_winograd(shape);
        if (usual && conv2d_kernel_can(order[i], shape, pass)) {
            return order[i];
        }
    }
    return CONV2D_COLUMNS;
}

/* Choose a oneDNN kernel for shapes where it was measured to be faster than ours (ADR 0048). */
static enum conv2d_kernel onednn_kernel(const struct conv2d_shape *shape, enum conv2d_pass pass)
{
    enum conv2d_kernel own = own_kernel(shape, pass);
    bool steps = shape->SH > 1 || shape->SW > 1;
    bool faster = (own == CONV2D_COLUMNS && shape->C / shape->G >= ONEDNN_CHANNELS_MIN) ||
                  (own == CONV2D_DEPTHWISE && (pass != CONV2D_BACKWARD_DATA || steps));
    return faster ? CONV2D_ONEDNN_NHWC : own;
}

struct conv2d_kernels conv2d_kernels_resolve(struct conv2d_kernels asked,
                                             const struct conv2d_shape *shape,
                                             enum conv2d_backend backend)
{
    for (size_t i = 0; i < CONV2D_PASSES; i++) {
        enum conv2d_pass pass = (enum conv2d_pass)i;
        if (asked.pass[pass] == CONV2D_BY_SHAPE) {
            asked.pass[pass] =
                (uint8_t)(backend == CONV2D_BACKEND_ONEDNN ? onednn_kernel(shape, pass)
                                                           : own_kernel(shape, pass));
        }
    }
    return asked;
}
