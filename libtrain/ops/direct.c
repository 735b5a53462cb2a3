#include "libtrain/ops/direct.h"

#include <string.h>

#include "libtrain/backend/product.h"
#include "libtrain/kernels/direct_plan.h"
#include "libtrain/ops/panels.h"
#include "libtrain/ops/partials.h"

struct direct_job {
    const struct compute *compute;
    const struct conv2d_shape *shape;
    struct direct_plan plan;
    const float *x, *bias, *dy;
    float *y;
};

/* Output rows [oh, oh + rows) of sample n. */
struct strip {
    size_t n, oh, rows;
};

static struct strip strip_of(const struct direct_job *job, size_t index)
{
    struct strip strip = {.n = index / job->plan.strips,
                          .oh = index % job->plan.strips * job->plan.strip_rows};
    size_t left = job->shape->OH - strip.oh;
    strip.rows = left < job->plan.strip_rows ? left : job->plan.strip_rows;
    return strip;
}

/* Copy the input rows under a strip, zero-padded on all sides and after the last row. */
static void copy_rows(const struct direct_job *job, const struct strip *strip, float *to)
{
    const struct conv2d_shape *s = job->shape;
    const struct direct_plan *plan = &job->plan;
    size_t count = (strip->rows - 1) * s->SH + s->KH;
    size_t left = s->PW * s->C < plan->row ? s->PW * s->C : plan->row;
    size_t width = s->W * s->C < plan->row - left ? s->W * s->C : plan->row - left;
    for (size_t r = 0; r < count; r++, to += plan->row) {
        size_t h = strip->oh * s->SH + r; /* counted from the padding's first row */
        if (h < s->PH || h - s->PH >= s->H) {
            memset(to, 0, plan->row * sizeof(float));
            continue;
        }
        memset(to, 0, left * sizeof(float));
        memcpy(to + left, job->x + (strip->n * s->H + h - s->PH) * s->W * s->C,
               width * sizeof(float));
        memset(to + left + width, 0, (plan->row - left - width) * sizeof(float));
    }
    memset(to, 0, (plan->columns - plan->window) * sizeof(float));
}

/* ---- forward ---- */

static void forward_task(const void *arg, size_t task, size_t worker)
{
    const struct direct_job *job = arg;
    const struct conv2d_shape *s = job->shape;
    const struct direct_plan *plan = &job->plan;
    struct strip strip = strip_of(job, task);
    float *rows = compute_worker(job->compute, worker);
    float *pixels = rows + plan->strip_floats;
    copy_rows(job, &strip, rows);
    for (size_t r = 0; r < strip.rows; r++) {
        float *y = job->y + (strip.n * s->OH + strip.oh + r) * s->OW * s->O;
        float *out = plan->filters == s->O ? y : pixels;
        for (size_t ow = 0; job->bias && ow < s->OW; ow++) {
            memcpy(out + ow * plan->filters, job->bias, s->O * sizeof(float));
        }
        const struct product product = {.M = s->OW,
                                        .N = plan->filters,
                                        .K = plan->window,
                                        .runs = s->KH,
                                        .A = rows + r * s->SH * plan->row,
                                        .a_row = s->SW * s->C,
                                        .a_step = 1,
                                        .a_run = plan->row,
                                        .B = job->compute->shared,
                                        .b_step = PRODUCT_PANEL,
                                        .b_panel = conv2d_row_floats(s) * PRODUCT_PANEL,
                                        .b_run = plan->window * PRODUCT_PANEL,
                                        .C = out,
                                        .c_row = plan->filters,
                                        .accumulate = job->bias != NULL};
        product_run(&product);
        for (size_t ow = 0; out != y && ow < s->OW; ow++) {
            memcpy(y + ow * s->O, out + ow * plan->filters, s->O * sizeof(float));
        }
    }
}

void direct_forward(const struct compute *compute, const struct conv2d_shape *shape, const float *x,
                    const float *weight, const float *bias, float *y)
{
    const struct direct_job job = {.compute = compute,
                                   .shape = shape,
                                   .plan = direct_plan_of(shape),
                                   .x = x,
                                   .bias = bias,
                                   .y = y};
    panels_pack(compute, weight, conv2d_row_floats(shape), shape->O, true, compute->shared);
    pool_run(compute->pool, shape->N * job.plan.strips, forward_task, &job);
}

/* ---- backward to the weights ---- */

/* sum [KH][O][columns] += products of a strip's gradients and the inputs under them. */
static void add_strip(const struct direct_job *job, const struct strip *strip, const float *rows,
                      float *sum)
{
    const struct conv2d_shape *s = job->shape;
    const struct direct_plan *plan = &job->plan;
    for (size_t kh = 0; kh < s->KH; kh++) {
        const struct product product = {.M = s->O,
                                        .N = plan->columns,
                                        .K = s->OW,
                                        .runs = strip->rows,
                                        .A =
                                            job->dy + (strip->n * s->OH + strip->oh) * s->OW * s->O,
                                        .a_row = 1,
                                        .a_step = s->O,
                                        .a_run = s->OW * s->O,
                                        .B = rows + kh * plan->row,
                                        .b_step = s->SW * s->C,
                                        .b_panel = PRODUCT_PANEL,
                                        .b_run = s->SH * plan->row,
                                        .C = sum + kh * s->O * plan->columns,
                                        .c_row = plan->columns,
                                        .accumulate = true};
        product_run(&product);
    }
}

static void weights_task(const void *arg, size_t task, size_t worker)
{
    const struct direct_job *job = arg;
    const struct conv2d_shape *s = job->shape;
    const struct direct_plan *plan = &job->plan;
    float *rows = compute_worker(job->compute, worker);
    float *sum = rows + plan->strip_floats;
    size_t end = slab_begin(s->N * plan->strips, plan->weights_slabs, task + 1);
    memset(sum, 0, s->KH * s->O * plan->columns * sizeof(float));
    for (size_t i = slab_begin(s->N * plan->strips, plan->weights_slabs, task); i < end; i++) {
        struct strip strip = strip_of(job, i);
        copy_rows(job, &strip, rows);
        add_strip(job, &strip, rows, sum);
    }
    float *partial = (float *)job->compute->shared + task * s->O * conv2d_row_floats(s);
    for (size_t o = 0; o < s->O; o++) {
        for (size_t kh = 0; kh < s->KH; kh++, partial += plan->window) {
            memcpy(partial, sum + (kh * s->O + o) * plan->columns, plan->window * sizeof(float));
        }
    }
}

void direct_backward_weights(const struct compute *compute, const struct conv2d_shape *shape,
                             const float *x, const float *dy, float *dweight)
{
    const struct direct_job job = {
        .compute = compute, .shape = shape, .plan = direct_plan_of(shape), .x = x, .dy = dy};
    pool_run(compute->pool, job.plan.weights_slabs, weights_task, &job);
    partials_add(compute, dweight, compute->shared, job.plan.weights_slabs,
                 shape->O * conv2d_row_floats(shape));
}
