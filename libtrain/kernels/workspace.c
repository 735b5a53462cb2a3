#include "libtrain/kernels/workspace.h"

#include "base/size.h"
#include "libtrain/kernels/conv2d_kernel.h"
#include "libtrain/kernels/direct_plan.h"
#include "libtrain/kernels/onednn_plan.h"
#include "libtrain/kernels/winograd_plan.h"

#define SLAB_FLOATS 16384u
#define COLUMN_FLOATS 65536u /* im2col floats of a slab: 256 KiB */
#define PIXELS_MIN 64u       /* with fewer, packing the weights costs more than the product */
#define PIXELS_MAX 1024u     /* leaves enough slabs for the threads */
#define POINTWISE_PIXELS_MAX 65536u /* keeps the products' dimensions within an int */
#define POINTWISE_MULTIPLY_ADDS (1u << 20)
#define WEIGHT_PARTIAL_FLOATS_MAX 65536u
#define SCORE_FLOATS 16384u /* scores of a block of queries: 64 KiB */
#define BLOCK_ROWS_MIN 16u
#define BLOCK_ROWS_MAX 64u

size_t slab_count(size_t items, size_t elements, size_t max)
{
    size_t count = size_clamp(items * elements / SLAB_FLOATS, 1, max);
    return count < items ? count : size_clamp(items, 1, max);
}

bool conv2d_is_depthwise(const struct conv2d_shape *shape)
{
    return shape->G > 1 && shape->G == shape->C && shape->O == shape->C;
}

bool conv2d_is_pointwise(const struct conv2d_shape *shape)
{
    return shape->KH * shape->KW == 1 && shape->SH * shape->SW == 1 && shape->PH + shape->PW == 0 &&
           shape->G == 1;
}

size_t conv2d_row_floats(const struct conv2d_shape *shape)
{
    return shape->KH * shape->KW * (shape->C / shape->G);
}

size_t conv2d_step_pixels(const struct conv2d_shape *shape)
{
    return size_clamp(COLUMN_FLOATS / conv2d_row_floats(shape), PIXELS_MIN, PIXELS_MAX);
}

size_t conv2d_pointwise_slabs(const struct conv2d_shape *shape)
{
    size_t pixels = shape->N * shape->OH * shape->OW;
    size_t count = size_clamp(pixels * (shape->C * shape->O / PIXELS_MIN + 1) /
                                  (POINTWISE_MULTIPLY_ADDS / PIXELS_MIN),
                              1, SLABS_MAX);
    size_t least = size_divide_up(pixels, POINTWISE_PIXELS_MAX);
    return size_clamp(count > least ? count : least, 1, pixels);
}

size_t conv2d_pixel_slabs(const struct conv2d_shape *shape)
{
    return size_divide_up(shape->N * shape->OH * shape->OW, conv2d_step_pixels(shape));
}

size_t conv2d_sample_slabs(const struct conv2d_shape *shape)
{
    size_t samples = size_divide_up(PIXELS_MIN, shape->OH * shape->OW);
    return size_divide_up(shape->N, samples);
}

struct conv2d_weight_slabs conv2d_weight_slabs(const struct conv2d_shape *shape)
{
    if (shape->G > 1) { /* a slab per group */
        return (struct conv2d_weight_slabs){.partials = 1, .ranges = 1};
    }
    size_t row = conv2d_row_floats(shape);
    size_t pixels = shape->N * shape->OH * shape->OW;
    if (shape->O * row <= WEIGHT_PARTIAL_FLOATS_MAX) {
        return (struct conv2d_weight_slabs){
            .partials = slab_count(pixels, row, SLAB_WEIGHT_PARTIALS_MAX), .ranges = 1};
    }
    size_t columns = shape->KH * shape->KW > 1 ? shape->KH * shape->KW : shape->C;
    return (struct conv2d_weight_slabs){.partials = 1,
                                        .ranges = size_clamp(columns, 1, SLAB_WEIGHT_PARTIALS_MAX)};
}

static uint64_t largest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static struct workspace_bytes aligned(uint64_t shared, uint64_t worker)
{
    return (struct workspace_bytes){.shared = workspace_align(shared),
                                    .worker = workspace_align(worker)};
}

static uint64_t partial_bytes(const struct conv2d_shape *shape)
{
    uint64_t row = conv2d_row_floats(shape);
    struct conv2d_weight_slabs slabs = conv2d_weight_slabs(shape);
    return slabs.partials > 1 ? slabs.partials * shape->O * row * sizeof(float) : 0;
}

static struct workspace_bytes kernel_workspace(enum conv2d_kernel kernel,
                                               const struct conv2d_shape *shape)
{
    uint64_t row = conv2d_row_floats(shape);
    switch (kernel) {
    case CONV2D_DEPTHWISE:
        return (struct workspace_bytes){.shared =
                                            SLAB_PARTIALS_MAX * row * shape->C * sizeof(double)};
    case CONV2D_WINOGRAD4: return winograd_workspace(shape);
    case CONV2D_DIRECT: return direct_workspace(shape);
    case CONV2D_POINTWISE: {
        uint64_t forward =
            (uint64_t)size_align(shape->O, WORKSPACE_PANEL) * shape->C * sizeof(float);
        uint64_t backward =
            (uint64_t)size_align(shape->C, WORKSPACE_PANEL) * shape->O * sizeof(float);
        return (struct workspace_bytes){
            .shared = largest(partial_bytes(shape), largest(forward, backward))};
    }
    case CONV2D_COLUMNS:
        return (struct workspace_bytes){.shared = partial_bytes(shape),
                                        .worker = conv2d_step_pixels(shape) * row * sizeof(float)};
    case CONV2D_ONEDNN_DIRECT:
    case CONV2D_ONEDNN_NHWC:
    case CONV2D_ONEDNN_WINOGRAD: return onednn_workspace(kernel, shape);
    case CONV2D_BY_SHAPE: break;
    }
    return (struct workspace_bytes){0};
}

struct workspace_bytes conv2d_workspace(const struct conv2d_shape *shape,
                                        struct conv2d_kernels kernels)
{
    struct workspace_bytes most = {.shared = SLAB_PARTIALS_MAX * (uint64_t)shape->O *
                                             sizeof(double)}; /* partial sums of the bias */
    kernels = conv2d_kernels_resolve(kernels, shape, CONV2D_BACKEND_OWN);
    for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
        struct workspace_bytes bytes =
            kernel_workspace((enum conv2d_kernel)kernels.pass[pass], shape);
        most.shared = largest(most.shared, bytes.shared);
        most.worker = largest(most.worker, bytes.worker);
    }
    return aligned(most.shared, most.worker);
}

struct workspace_bytes batch_norm_workspace(size_t M, size_t C)
{
    uint64_t partials = (uint64_t)slab_count(M, C, SLAB_PARTIALS_MAX) * 2 * C * sizeof(double);
    return aligned(partials + 3 * (uint64_t)C * sizeof(float), 0);
}

struct workspace_bytes layer_norm_workspace(size_t M, size_t C)
{
    return aligned((uint64_t)slab_count(M, C, SLAB_PARTIALS_MAX) * 2 * C * sizeof(double), 0);
}

size_t attention_block_rows(const struct attention_shape *shape)
{
    size_t rows = size_clamp(SCORE_FLOATS / shape->T, BLOCK_ROWS_MIN, BLOCK_ROWS_MAX);
    return rows < shape->T ? rows : shape->T;
}

/* A worker keeps the scores of a block and their gradients. */
struct workspace_bytes attention_workspace(const struct attention_shape *shape)
{
    return aligned(0, 2 * (uint64_t)attention_block_rows(shape) * shape->T * sizeof(float));
}

struct workspace_bytes softmax_cross_entropy_workspace(size_t N)
{
    return aligned((uint64_t)N * sizeof(double), 0);
}
