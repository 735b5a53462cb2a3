#include "libtrain/kernels/winograd_plan.h"

#include "base/size.h"

#define KERNEL WINOGRAD_KERNEL
#define PADDING_MAX (KERNEL - 1)
#define BLOCK_FLOATS 196608u /* inputs and outputs of a block; fits in a second-level cache */
#define BLOCK_TILES_MIN 24u  /* with fewer tiles per block the weights are read too often */
#define BLOCK_TILES_MAX 48u
#define TASKS_MIN 8u /* with fewer blocks, output channels are split into parts, too */
#define GRADIENT_TILES 24u
#define GRADIENT_FILTERS 64u /* filters of a part */
#define GRADIENT_CHANNELS 128u
#define GRADIENT_PARTIALS_MAX 4u

bool conv2d_can_winograd(const struct conv2d_shape *shape)
{
    if (shape->KH != KERNEL || shape->KW != KERNEL || shape->SH != 1 || shape->SW != 1 ||
        shape->G != 1 || shape->PH != shape->PW || shape->PH > PADDING_MAX ||
        shape->C < WINOGRAD_CHANNELS || shape->O < WINOGRAD_CHANNELS) {
        return false;
    }
    size_t tiles =
        size_divide_up(shape->OH, WINOGRAD_TILE) * size_divide_up(shape->OW, WINOGRAD_TILE);
    return tiles * WINOGRAD_POINTS * 2 <= shape->OH * shape->OW * KERNEL * KERNEL;
}

bool conv2d_is_winograd(const struct conv2d_shape *shape)
{
    return shape->C % WINOGRAD_CHANNELS == 0 && shape->O % WINOGRAD_CHANNELS == 0 &&
           conv2d_can_winograd(shape);
}

struct winograd_plan winograd_plan_of(const struct conv2d_shape *shape, bool backward)
{
    struct winograd_plan plan = {
        .in = backward ? shape->O : shape->C,
        .out = backward ? shape->C : shape->O,
        .padding = backward ? PADDING_MAX - shape->PH : shape->PH,
        .tile_rows = size_divide_up(backward ? shape->H : shape->OH, WINOGRAD_TILE),
        .tile_columns = size_divide_up(backward ? shape->W : shape->OW, WINOGRAD_TILE),
    };
    plan.in_points = size_align(plan.in, WINOGRAD_CHANNELS);
    plan.out_points = size_align(plan.out, WINOGRAD_CHANNELS);
    plan.tiles = shape->N * plan.tile_rows * plan.tile_columns;
    plan.panels = size_divide_up(plan.out, WORKSPACE_PANEL);
    plan.block_tiles =
        size_clamp(BLOCK_FLOATS / (WINOGRAD_POINTS * (plan.in_points + plan.out_points)),
                   BLOCK_TILES_MIN, BLOCK_TILES_MAX);
    plan.blocks = size_divide_up(plan.tiles, plan.block_tiles);
    plan.parts = size_clamp(size_divide_up(TASKS_MIN, plan.blocks), 1, plan.panels);
    return plan;
}

struct winograd_weights_plan winograd_weights_plan_of(const struct conv2d_shape *shape)
{
    struct winograd_weights_plan plan = {
        .tiles = winograd_plan_of(shape, false),
        .filter_parts = size_divide_up(shape->O, GRADIENT_FILTERS),
        .channel_parts = size_divide_up(shape->C, GRADIENT_CHANNELS),
    };
    plan.partials = size_clamp(GRADIENT_PARTIALS_MAX / (plan.filter_parts * plan.channel_parts), 1,
                               plan.tiles.tiles);
    size_t most = size_divide_up(plan.tiles.tiles, plan.partials);
    plan.block_tiles = most < GRADIENT_TILES ? most : GRADIENT_TILES;
    return plan;
}

/* The channels of the largest part, if `channels` are split into `parts` parts of whole units. */
static size_t part_channels(size_t channels, size_t unit, size_t parts)
{
    return size_divide_up(size_divide_up(channels, unit), parts) * unit;
}

/* Floats of a worker for N samples or fewer: fewer samples give no larger blocks or parts. */
static uint64_t filter_worker_floats(const struct winograd_plan *plan)
{
    size_t tiles = plan->tiles < plan->block_tiles ? plan->tiles : plan->block_tiles;
    size_t outputs = part_channels(plan->out, WORKSPACE_PANEL, plan->parts);
    return WINOGRAD_POINTS * (winograd_plane((uint64_t)tiles * plan->in_points) +
                              winograd_plane((uint64_t)tiles * outputs));
}

static uint64_t panel_floats(const struct winograd_plan *plan)
{
    return WINOGRAD_POINTS *
           winograd_plane((uint64_t)plan->panels * WORKSPACE_PANEL * plan->in_points);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

struct workspace_bytes winograd_workspace(const struct conv2d_shape *shape)
{
    struct winograd_plan forward = winograd_plan_of(shape, false);
    struct winograd_plan backward = winograd_plan_of(shape, true);
    struct winograd_weights_plan weights = winograd_weights_plan_of(shape);
    size_t filters = part_channels(shape->O, WINOGRAD_CHANNELS, weights.filter_parts);
    size_t channels = part_channels(shape->C, WINOGRAD_CHANNELS, weights.channel_parts);
    uint64_t sums = WINOGRAD_POINTS * (winograd_plane((uint64_t)filters * channels) +
                                       winograd_plane((uint64_t)weights.block_tiles * filters) +
                                       winograd_plane((uint64_t)weights.block_tiles * channels));
    uint64_t partials =
        weights.partials > 1 ? (uint64_t)weights.partials * shape->O * conv2d_row_floats(shape) : 0;
    return (struct workspace_bytes){
        .shared = larger(larger(panel_floats(&forward), panel_floats(&backward)), partials) *
                  sizeof(float),
        .worker =
            larger(larger(filter_worker_floats(&forward), filter_worker_floats(&backward)), sums) *
            sizeof(float),
    };
}
