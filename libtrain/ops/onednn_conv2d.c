#include "libtrain/ops/onednn_conv2d.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/size.h"
#include "libtrain/backend/onednn.h"
#include "libtrain/kernels/conv2d_kernel.h"
#include "libtrain/kernels/onednn_plan.h"
#include "libtrain/ops/partials.h"

/* One pass. `pass` is NULL if another kernel computes it. */
struct prepared {
    struct onednn_pass *pass;
    size_t samples;  /* samples of a task */
    uint64_t packed; /* version of the packed weights; 0: none */
};

struct onednn_conv2d {
    struct conv2d_shape shape;
    struct prepared prepared[CONV2D_PASSES];
    size_t x_floats, y_floats; /* of a sample */
};

static size_t partials_of(const struct onednn_conv2d *conv2d)
{
    return conv2d->shape.N / conv2d->prepared[CONV2D_BACKWARD_WEIGHTS].samples;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- life ---- */

static int prepare(struct onednn_conv2d *conv2d, struct onednn *library, enum conv2d_kernel kernel,
                   enum conv2d_pass pass, bool bias, struct err *err)
{
    struct prepared *prepared = &conv2d->prepared[pass];
    struct onednn_plan plan = onednn_plan_of(kernel, &conv2d->shape);
    struct conv2d_shape part = conv2d->shape;
    prepared->samples = pass == CONV2D_BACKWARD_WEIGHTS ? part.N / plan.partials : plan.block;
    part.N = prepared->samples;
    const struct onednn_request request = {
        .kernel = kernel, .pass = pass, .shape = &part, .bias = bias};
    int rc = onednn_pass_new(library, &request, &prepared->pass, err);
    return rc ? err_wrap(err, "%s", conv2d_pass_names[pass]) : 0;
}

int onednn_conv2d_new(struct onednn *library, const struct conv2d_shape *shape,
                      struct conv2d_kernels kernels, bool bias, struct onednn_conv2d **out,
                      struct err *err)
{
    struct onednn_conv2d *conv2d AUTO(onednn_conv2d_free) = calloc(1, sizeof(*conv2d));
    if (!conv2d) {
        return err_set(err, ERR_MEMORY, "out of memory for a convolution");
    }
    conv2d->shape = *shape;
    conv2d->x_floats = shape->H * shape->W * shape->C;
    conv2d->y_floats = shape->OH * shape->OW * shape->O;
    for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
        enum conv2d_kernel kernel = (enum conv2d_kernel)kernels.pass[pass];
        int rc = conv2d_kernel_is_onednn(kernel)
                     ? prepare(conv2d, library, kernel, (enum conv2d_pass)pass, bias, err)
                     : 0;
        if (rc) {
            return rc;
        }
    }
    *out = conv2d;
    conv2d = NULL;
    return 0;
}

void onednn_conv2d_free(struct onednn_conv2d **pointer)
{
    struct onednn_conv2d *conv2d = *pointer;
    if (!conv2d) {
        return;
    }
    for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
        onednn_pass_free(&conv2d->prepared[pass].pass);
    }
    free(conv2d);
    *pointer = NULL;
}

bool onednn_conv2d_does(const struct onednn_conv2d *conv2d, enum conv2d_pass pass)
{
    return conv2d->prepared[pass].pass != NULL;
}

/* ---- memory ---- */

/* Bytes of a partial last block and its output. They follow the library's scratch. */
static size_t rest_bytes(const struct onednn_conv2d *conv2d)
{
    size_t samples = conv2d->prepared[CONV2D_FORWARD].samples;
    return samples > 1
               ? size_align(samples * conv2d->x_floats * sizeof(float), WORKSPACE_ALIGNMENT) +
                     size_align(samples * conv2d->y_floats * sizeof(float), WORKSPACE_ALIGNMENT)
               : 0;
}

struct workspace_bytes onednn_conv2d_workspace(const struct onednn_conv2d *conv2d)
{
    struct workspace_bytes bytes = {0};
    for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
        const struct prepared *prepared = &conv2d->prepared[pass];
        if (prepared->pass) {
            size_t worker = onednn_pass_worker_bytes(prepared->pass);
            bytes.worker =
                larger(bytes.worker, worker + (pass == CONV2D_FORWARD ? rest_bytes(conv2d) : 0));
        }
    }
    if (onednn_conv2d_does(conv2d, CONV2D_BACKWARD_WEIGHTS)) {
        bytes.shared = partials_of(conv2d) *
                       onednn_pass_weight_bytes(conv2d->prepared[CONV2D_BACKWARD_WEIGHTS].pass);
    }
    return bytes;
}

static size_t packed_bytes(const struct onednn_conv2d *conv2d, enum conv2d_pass pass)
{
    return onednn_conv2d_does(conv2d, pass) ? onednn_pass_weight_bytes(conv2d->prepared[pass].pass)
                                            : 0;
}

size_t onednn_conv2d_packed_bytes(const struct onednn_conv2d *conv2d)
{
    return packed_bytes(conv2d, CONV2D_FORWARD) + packed_bytes(conv2d, CONV2D_BACKWARD_DATA);
}

int onednn_conv2d_bind(struct onednn_conv2d *conv2d, const struct compute *compute,
                       unsigned char *packed, struct err *err)
{
    unsigned char *const weights[CONV2D_PASSES] = {
        [CONV2D_FORWARD] = packed,
        [CONV2D_BACKWARD_DATA] = packed + packed_bytes(conv2d, CONV2D_FORWARD),
        [CONV2D_BACKWARD_WEIGHTS] = compute->shared,
    };
    for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
        if (!onednn_conv2d_does(conv2d, (enum conv2d_pass)pass)) {
            continue;
        }
        size_t count = pass == CONV2D_BACKWARD_WEIGHTS ? partials_of(conv2d) : 1;
        int rc = onednn_pass_bind(conv2d->prepared[pass].pass, weights[pass], count,
                                  compute->worker, compute->worker_bytes, err);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

/* ---- computing ---- */

struct onednn_job {
    const struct onednn_conv2d *conv2d;
    const struct compute *compute;
    const struct prepared *prepared;
    size_t N;
    const float *x, *dy, *bias;
    float *y, *dx;
    bool accumulate;
};

static void pack(struct prepared *prepared, uint64_t version, const float *weight)
{
    ASSERT(version > 0);
    if (prepared->packed != version) {
        onednn_pack(prepared->pass, weight);
        prepared->packed = version;
    }
}

/* A partial block (at the end of an evaluation): pad it with zeros. */
static void forward_rest(const struct onednn_job *job, size_t worker, const float *x,
                         size_t samples, float *y)
{
    const struct onednn_conv2d *conv2d = job->conv2d;
    size_t whole = job->prepared->samples;
    float *in = (float *)((unsigned char *)compute_worker(job->compute, worker) +
                          onednn_pass_worker_bytes(job->prepared->pass));
    float *out = in + size_align(whole * conv2d->x_floats * sizeof(float), WORKSPACE_ALIGNMENT) /
                          sizeof(float);
    memcpy(in, x, samples * conv2d->x_floats * sizeof(float));
    memset(in + samples * conv2d->x_floats, 0,
           (whole - samples) * conv2d->x_floats * sizeof(float));
    onednn_forward(job->prepared->pass, worker, in, job->bias, out);
    memcpy(y, out, samples * conv2d->y_floats * sizeof(float));
}

static void forward_task(const void *arg, size_t task, size_t worker)
{
    const struct onednn_job *job = arg;
    size_t n = task * job->prepared->samples;
    const float *x = job->x + n * job->conv2d->x_floats;
    float *y = job->y + n * job->conv2d->y_floats;
    if (n + job->prepared->samples > job->N) {
        forward_rest(job, worker, x, job->N - n, y);
    } else {
        onednn_forward(job->prepared->pass, worker, x, job->bias, y);
    }
}

void onednn_conv2d_forward(struct onednn_conv2d *conv2d, const struct compute *compute,
                           uint64_t version, size_t N, const float *x, const float *weight,
                           const float *bias, float *y)
{
    struct prepared *prepared = &conv2d->prepared[CONV2D_FORWARD];
    const struct onednn_job job = {.conv2d = conv2d,
                                   .compute = compute,
                                   .prepared = prepared,
                                   .N = N,
                                   .x = x,
                                   .bias = bias,
                                   .y = y};
    ASSERT(N <= conv2d->shape.N);
    pack(prepared, version, weight);
    pool_run(compute->pool, size_divide_up(N, prepared->samples), forward_task, &job);
}

static void data_task(const void *arg, size_t task, size_t worker)
{
    const struct onednn_job *job = arg;
    size_t n = task * job->prepared->samples;
    onednn_backward_data(job->prepared->pass, worker, job->dy + n * job->conv2d->y_floats,
                         job->dx + n * job->conv2d->x_floats, job->accumulate);
}

void onednn_conv2d_backward_data(struct onednn_conv2d *conv2d, const struct compute *compute,
                                 uint64_t version, const float *dy, const float *weight, float *dx,
                                 bool accumulate)
{
    struct prepared *prepared = &conv2d->prepared[CONV2D_BACKWARD_DATA];
    const struct onednn_job job = {.conv2d = conv2d,
                                   .compute = compute,
                                   .prepared = prepared,
                                   .dy = dy,
                                   .dx = dx,
                                   .accumulate = accumulate};
    pack(prepared, version, weight);
    pool_run(compute->pool, conv2d->shape.N / prepared->samples, data_task, &job);
}

static void weights_task(const void *arg, size_t task, size_t worker)
{
    const struct onednn_job *job = arg;
    size_t n = task * job->prepared->samples;
    onednn_backward_weights(job->prepared->pass, worker, job->x + n * job->conv2d->x_floats,
                            job->dy + n * job->conv2d->y_floats, task);
}

void onednn_conv2d_backward_weights(struct onednn_conv2d *conv2d, const struct compute *compute,
                                    const float *x, const float *dy, float *dweight)
{
    const struct prepared *prepared = &conv2d->prepared[CONV2D_BACKWARD_WEIGHTS];
    const struct onednn_job job = {
        .conv2d = conv2d, .compute = compute, .prepared = prepared, .x = x, .dy = dy};
    size_t partials = partials_of(conv2d);
    size_t floats = onednn_pass_weight_bytes(prepared->pass) / sizeof(float);
    float *sum = compute->shared;
    pool_run(compute->pool, partials, weights_task, &job);
    if (partials > 1) {
        partials_add(compute, sum, sum + floats, partials - 1, floats);
    }
    onednn_add_weights(prepared->pass, dweight);
}
