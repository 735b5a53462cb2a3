#include "libtrain/images/resize.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define WEIGHT_BITS 22 /* a sum of bytes whose weights add up to 1 stays below 2^30 */

static void axis_done(struct resize_axis *axis)
{
    free(axis->first);
    free(axis->count);
    free(axis->weight);
    *axis = (struct resize_axis){0};
}

void resize_done(struct resize *resize)
{
    axis_done(&resize->row);
    axis_done(&resize->column);
    pixels_done(&resize->narrow);
}

/* Set the weights of output `i`: a triangle around its centre, truncated at the edges, with sum
 * 1. */
static void weigh(struct resize_axis *axis, size_t i, double reach, double scale)
{
    const double middle = ((double)i + 0.5) * scale;
    const double low = fmax(middle - reach + 0.5, 0.0);
    const double high = fmin(middle + reach + 0.5, (double)axis->from);
    const uint32_t first = (uint32_t)low;
    const uint32_t count = (uint32_t)high - first;
    int32_t *weight = axis->weight + i * axis->taps;
    double sum = 0;
    for (uint32_t k = 0; k < count; k++) {
        sum += fmax(0.0, 1.0 - fabs((double)(first + k) - middle + 0.5) / reach);
    }
    for (uint32_t k = 0; k < count; k++) {
        const double share =
            fmax(0.0, 1.0 - fabs((double)(first + k) - middle + 0.5) / reach) / sum;
        weight[k] = (int32_t)(share * (1 << WEIGHT_BITS) + 0.5);
    }
    axis->first[i] = first;
    axis->count[i] = count;
}

static int axis_make(struct resize_axis *axis, uint32_t from, uint32_t to, struct err *err)
{
    if (axis->from == from && axis->to == to) {
        return 0;
    }
    axis_done(axis);
    const double scale = (double)from / (double)to;
    const double reach = fmax(scale, 1.0);
    axis->taps = (size_t)ceil(reach) * 2 + 1;
    axis->first = calloc(to, sizeof(*axis->first));
    axis->count = calloc(to, sizeof(*axis->count));
    axis->weight = calloc(to * axis->taps, sizeof(*axis->weight));
    if (!axis->first || !axis->count || !axis->weight) {
        axis_done(axis);
        return err_set(err, ERR_MEMORY, "no memory to resize %" PRIu32 " pixels to %" PRIu32, from,
                       to);
    }
    axis->from = from;
    axis->to = to;
    for (size_t i = 0; i < to; i++) {
        weigh(axis, i, reach, scale);
    }
    return 0;
}

/* Resize one line of elements of C numbers. The strides are the bytes between two elements. */
static void resize_line(const struct resize_axis *axis, size_t C, const uint8_t *from,
                        size_t from_stride, uint8_t *to, size_t to_stride)
{
    for (size_t i = 0; i < axis->to; i++) {
        const int32_t *weight = axis->weight + i * axis->taps;
        const uint8_t *in = from + axis->first[i] * from_stride;
        for (size_t c = 0; c < C; c++) {
            int32_t sum = 1 << (WEIGHT_BITS - 1);
            for (size_t k = 0; k < axis->count[i]; k++) {
                sum += weight[k] * in[k * from_stride + c];
            }
            sum >>= WEIGHT_BITS;
            to[i * to_stride + c] = (uint8_t)(sum < 255 ? sum : 255);
        }
    }
}

int resize_run(struct resize *resize, const struct pixels *from, struct image_size to, uint8_t *out,
               struct err *err)
{
    struct pixels *narrow = &resize->narrow;
    int rc = axis_make(&resize->row, from->w, to.w, err);
    rc = rc ? rc : axis_make(&resize->column, from->h, to.h, err);
    rc = rc ? rc : pixels_shape(narrow, from->h, to.w, from->c, err);
    if (rc) {
        return rc;
    }
    const size_t C = from->c;
    const size_t line = to.w * C;
    for (size_t h = 0; h < from->h; h++) {
        resize_line(&resize->row, C, from->data + h * from->w * C, C, narrow->data + h * line, C);
    }
    /* Resize all columns at once: the numbers of a row have the same weights, so a row is one
     * element. */
    resize_line(&resize->column, line, narrow->data, line, out, line);
    return 0;
}
