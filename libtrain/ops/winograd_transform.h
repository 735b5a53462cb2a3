/* winograd_transform.h: transforms of tiles to Winograd's points and back, of weights to panels and
 * of their gradients back. The points are 0, 1, -1, 2, -2 and infinity in both directions;
 * [POINTS][...] arrays are winograd_plane floats apart. Points have channels in multiples of
 * WINOGRAD_CHANNELS: zeros after the last one of the tensor. Private to libtrain/ops; any thread.
 */
#ifndef LIBTRAIN_OPS_WINOGRAD_TRANSFORM_H
#define LIBTRAIN_OPS_WINOGRAD_TRANSFORM_H

#include <stdbool.h>
#include <stddef.h>

#include "libtrain/kernels/winograd_plan.h"

/* A tensor [N][H][W][C] that is read or written in squares. */
struct winograd_field {
    size_t H, W, C;
};

/* Tiles [t, end) of x, channels [c, c + channels), to points [POINTS][tiles][channels]. */
void winograd_transform_inputs(const struct winograd_plan *plan, const struct winograd_field *field,
                               const float *x, size_t t, size_t end, size_t c, size_t channels,
                               float *points);
/* The same of the output's gradient. */
void winograd_transform_gradients(const struct winograd_plan *plan,
                                  const struct winograd_field *field, const float *dy, size_t t,
                                  size_t end, size_t c, size_t channels, float *points);
/* points [POINTS][tiles][channels] to tiles [t, end) of y, channels [c, c + channels); bias of all
 * channels or NULL. */
void winograd_transform_outputs(const struct winograd_plan *plan,
                                const struct winograd_field *field, const float *points, size_t t,
                                size_t end, size_t c, size_t channels, const float *bias,
                                bool accumulate, float *y);

/* weight [O][3][3][C] for the forward pass: filters [o, o + WINOGRAD_CHANNELS) become columns of
 * the panels. */
void winograd_transform_weights(const struct winograd_plan *plan, const float *weight, size_t o,
                                float *points);
/* weight [O][3][3][C] for the input gradient: filter o, rotated by 180 degrees, is a row of the
 * panels. */
void winograd_transform_turned(const struct winograd_plan *plan, const float *weight, size_t o,
                               float *points);
/* A part of the weights' gradient. */
struct winograd_part {
    size_t filters, channels; /* of the points */
    size_t O;                 /* filters from the part's first to the tensor's last */
    size_t C, c;              /* channels of the tensor, and the part's first */
};
/* points [POINTS][filters][channels] to dweight [O][3][3][C], channels [c, c + channels). */
void winograd_transform_weight_gradients(const float *points, const struct winograd_part *part,
                                         bool accumulate, float *dweight);

/* The address of the weights of point p from channel `in` to channels [out, ...) of a panel, in
 * [POINTS][panels][in][panel]. */
static inline float *winograd_panel(const struct winograd_plan *plan, float *points, size_t p,
                                    size_t in, size_t out)
{
    size_t panel = out / WORKSPACE_PANEL;
    size_t plane = winograd_plane(plan->panels * WORKSPACE_PANEL * plan->in_points);
    return points + p * plane + (panel * plan->in_points + in) * WORKSPACE_PANEL +
           out % WORKSPACE_PANEL;
}

#endif
