#include "libtrain/kernels/direct_plan.h"

#include "base/size.h"

#define CHANNELS_MAX 8u
#define WINDOW_FLOATS_MAX 64u
#define WEIGHT_FLOATS_MAX 65536u /* a partial sum of this size fits in a second-level cache */
#define STRIP_FLOATS 16384u      /* input rows of a strip: 64 KiB */
#define VECTOR 8u                /* a multiple of the floats that a product writes at once */

bool conv2d_is_direct(const struct conv2d_shape *shape)
{
    return shape->G == 1 && shape->KH * shape->KW > 1 && shape->C <= CHANNELS_MAX &&
           shape->KW * shape->C <= WINDOW_FLOATS_MAX &&
           shape->O * conv2d_row_floats(shape) <= WEIGHT_FLOATS_MAX;
}

/* The number of input rows that `rows` output rows read. */
static size_t input_rows(const struct conv2d_shape *shape, size_t rows)
{
    return (rows - 1) * shape->SH + shape->KH;
}

struct direct_plan direct_plan_of(const struct conv2d_shape *shape)
{
    struct direct_plan plan = {
        .row = ((shape->OW - 1) * shape->SW + shape->KW) * shape->C,
        .window = shape->KW * shape->C,
        .filters = size_align(shape->O, VECTOR),
        .columns = size_align(shape->KW * shape->C, VECTOR),
    };
    size_t fitting = STRIP_FLOATS / plan.row;
    size_t rows = fitting > shape->KH ? (fitting - shape->KH) / shape->SH + 1 : 1;
    plan.strip_rows = rows < shape->OH ? rows : shape->OH;
    plan.strips = size_divide_up(shape->OH, plan.strip_rows);
    plan.strip_floats = input_rows(shape, plan.strip_rows) * plan.row + VECTOR;
    plan.weights_slabs = conv2d_weight_slabs(shape).partials;
    size_t strips = shape->N * plan.strips;
    plan.weights_slabs = plan.weights_slabs < strips ? plan.weights_slabs : strips;
    return plan;
}

struct workspace_bytes direct_workspace(const struct conv2d_shape *shape)
{
    struct direct_plan plan = direct_plan_of(shape);
    uint64_t row = conv2d_row_floats(shape);
    uint64_t panels = row * size_align(shape->O, WORKSPACE_PANEL);
    uint64_t partials = row * shape->O * plan.weights_slabs;
    uint64_t pixels = (uint64_t)shape->OW * plan.filters;
    uint64_t gradient = (uint64_t)shape->KH * shape->O * plan.columns;
    return (struct workspace_bytes){
        .shared = (panels > partials ? panels : partials) * sizeof(float),
        .worker = (plan.strip_floats + (pixels > gradient ? pixels : gradient)) * sizeof(float),
    };
}
