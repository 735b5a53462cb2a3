#include "libtrain/kernels/onednn_plan.h"

#include "base/size.h"
#include "libtrain/kernels/conv2d_kernel.h"

#define CHANNELS 16u         /* most channels in a block of the library's layouts */
#define TASKS 8u             /* target number of tasks per pass */
#define WINOGRAD_TASKS 2u    /* few, because each task transforms all weights */
#define SMALL_WEIGHTS 65536u /* floats; up to this, one partial sum per usable thread */
#define PARTIALS_SMALL 4u
#define PARTIALS_LARGE 2u
#define SCRATCH_BYTES 65536u
#define TILE 4u /* of the library's Winograd kernel */
#define POINTS 36u

/* The largest divisor of N that is at most `most`. */
static size_t divisor(size_t N, size_t most)
{
    size_t d = size_clamp(most, 1, N);
    while (N % d != 0) {
        d--;
    }
    return d;
}

struct onednn_plan onednn_plan_of(enum conv2d_kernel kernel, const struct conv2d_shape *shape)
{
    size_t tasks = kernel == CONV2D_ONEDNN_WINOGRAD ? WINOGRAD_TASKS : TASKS;
    bool small = (uint64_t)shape->O * conv2d_row_floats(shape) <= SMALL_WEIGHTS;
    return (struct onednn_plan){.block = divisor(shape->N, shape->N / tasks),
                                .partials =
                                    divisor(shape->N, small ? PARTIALS_SMALL : PARTIALS_LARGE)};
}

static uint64_t weight_bytes(const struct conv2d_shape *shape)
{
    uint64_t pairs = conv2d_is_depthwise(shape)
                         ? size_align(shape->G, CHANNELS)
                         : (uint64_t)shape->G * size_align(shape->C / shape->G, CHANNELS) *
                               size_align(shape->O / shape->G, CHANNELS);
    return pairs * shape->KH * shape->KW * sizeof(float);
}

struct workspace_bytes onednn_workspace(enum conv2d_kernel kernel, const struct conv2d_shape *shape)
{
    struct onednn_plan plan = onednn_plan_of(kernel, shape);
    uint64_t samples =
        shape->N / plan.partials > plan.block ? shape->N / plan.partials : plan.block;
    uint64_t in = size_align(shape->C, CHANNELS);
    uint64_t out = size_align(shape->O, CHANNELS);
    uint64_t tensors =
        samples * (shape->H * shape->W * in + shape->OH * shape->OW * out) * sizeof(float);
    uint64_t scratch = SCRATCH_BYTES;
    if (kernel == CONV2D_ONEDNN_WINOGRAD) {
        uint64_t tiles =
            samples * size_divide_up(shape->OH, TILE) * size_divide_up(shape->OW, TILE);
        scratch += POINTS * (tiles * (in + out) + 2 * in * out) * sizeof(float);
    }
    return (struct workspace_bytes){.shared = plan.partials * workspace_align(weight_bytes(shape)),
                                    .worker = tensors + scratch};
}

uint64_t onednn_packed_bytes(struct conv2d_kernels kernels, const struct conv2d_shape *shape)
{
    uint64_t layouts =
        conv2d_kernel_is_onednn((enum conv2d_kernel)kernels.pass[CONV2D_FORWARD]) +
        conv2d_kernel_is_onednn((enum conv2d_kernel)kernels.pass[CONV2D_BACKWARD_DATA]);
    return layouts * workspace_align(weight_bytes(shape));
}
