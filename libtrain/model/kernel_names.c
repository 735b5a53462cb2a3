#include "libtrain/model/kernel_names.h"

#include <stddef.h>

const char *const conv2d_pass_names[] = {
    [CONV2D_FORWARD] = "forward",
    [CONV2D_BACKWARD_DATA] = "backward_data",
    [CONV2D_BACKWARD_WEIGHTS] = "backward_weights",
    NULL,
};

const char *const conv2d_kernel_names[] = {
    [CONV2D_BY_SHAPE] = "by_shape",
    [CONV2D_COLUMNS] = "columns",
    [CONV2D_POINTWISE] = "pointwise",
    [CONV2D_DEPTHWISE] = "depthwise",
    [CONV2D_DIRECT] = "direct",
    [CONV2D_WINOGRAD4] = "winograd4",
    [CONV2D_ONEDNN_DIRECT] = "onednn_direct",
    [CONV2D_ONEDNN_NHWC] = "onednn_nhwc",
    [CONV2D_ONEDNN_WINOGRAD] = "onednn_winograd",
    NULL,
};
