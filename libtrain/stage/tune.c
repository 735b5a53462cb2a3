/* Tuning by measurement: the fastest kernel for each pass of a convolution, on this CPU, with these
 * threads and this micro-batch.
 *
 * Timing is not reproducible, but the choice changes bits. So a choice is made once per job and
 * becomes part of its model (ADR 0051). A kernel is measured only if every CPU with this backend
 * has it, so that a unit can move to another device. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/backend/denormal.h"
#include "libtrain/backend/onednn.h"
#include "libtrain/kernels/op_workspace.h"
#include "libtrain/kernels/winograd_plan.h"
#include "libtrain/ops/conv2d.h"
#include "libtrain/ops/onednn_conv2d.h"
#include "libtrain/train.h"

#define RUNS 3             /* timed runs, after one warm-up; the fastest counts */
#define HOPELESS 1.3       /* a kernel slower than the best by this factor is not run again */
#define CLEARLY 0.95       /* of the time of the kernel by shape: a smaller gain may be noise */
#define REMEMBERED_MAX 512 /* shapes remembered; the oldest are dropped */

/* The result for a shape. Passes that were not requested keep CONV2D_BY_SHAPE. */
struct remembered {
    struct conv2d_shape shape;
    size_t threads;
    struct conv2d_kernels fastest;
};

struct train_tuner {
    struct remembered item[REMEMBERED_MAX];
    size_t count, next;
};

int train_tuner_new(struct train_tuner **out, struct err *err)
{
    *out = calloc(1, sizeof(**out));
    return *out ? 0 : err_set(err, ERR_MEMORY, "out of memory for a tuner");
}

void train_tuner_free(struct train_tuner **tuner)
{
    free(*tuner);
    *tuner = NULL;
}

static struct remembered *recall(struct train_tuner *tuner, const struct conv2d_shape *shape,
                                 size_t threads)
{
    for (size_t i = 0; i < tuner->count; i++) {
        struct remembered *item = &tuner->item[i];
        if (item->threads == threads && memcmp(&item->shape, shape, sizeof(*shape)) == 0) {
            return item;
        }
    }
    struct remembered *item = &tuner->item[tuner->next];
    tuner->next = (tuner->next + 1) % REMEMBERED_MAX;
    tuner->count += tuner->count < REMEMBERED_MAX;
    *item = (struct remembered){.shape = *shape, .threads = threads};
    return item;
}

/* ---- one kernel of one pass ---- */

/* The tensors of one convolution. */
struct bench {
    const struct train_tuning *tuning;
    double end_seconds; /* end of the budget, on the clock of `tuning` */
    struct conv2d_shape shape;
    struct onednn *library; /* NULL until one of its kernels is measured */
    float *x, *weight, *y, *dx, *dweight;
};

/* A kernel prepared for measurement. */
struct candidate {
    enum conv2d_pass pass;
    struct conv2d_kernels kernels; /* by shape except in this pass */
    struct onednn_conv2d *onednn;  /* NULL: one of our kernels */
    struct compute compute;
    unsigned char *memory;
    uint64_t version;
};

static bool time_left(const struct bench *bench)
{
    return bench->tuning->seconds(bench->tuning->arg) < bench->end_seconds;
}

static float *tensor_new(size_t floats)
{
    float *tensor =
        aligned_alloc(WORKSPACE_ALIGNMENT, (size_t)workspace_align(floats * sizeof(float)));
    for (size_t i = 0; tensor && i < floats; i++) {
        tensor[i] = (float)(i % 7) * 0.125f;
    }
    return tensor;
}

static int bench_open(struct bench *bench, struct err *err)
{
    const struct conv2d_shape *s = &bench->shape;
    size_t in = s->N * s->H * s->W * s->C, out = s->N * s->OH * s->OW * s->O,
           weights = s->O * conv2d_row_floats(s);
    bench->x = tensor_new(in);
    bench->dx = tensor_new(in);
    bench->y = tensor_new(out);
    bench->weight = tensor_new(weights);
    bench->dweight = tensor_new(weights);
    return bench->x && bench->dx && bench->y && bench->weight && bench->dweight
               ? 0
               : err_set(err, ERR_MEMORY, "out of memory to measure a convolution");
}

static void bench_close(struct bench *bench)
{
    free(bench->x);
    free(bench->dx);
    free(bench->y);
    free(bench->weight);
    free(bench->dweight);
    onednn_free(&bench->library);
}

static void candidate_close(struct candidate *candidate)
{
    onednn_conv2d_free(&candidate->onednn);
    free(candidate->memory);
}

static int candidate_open(struct bench *bench, struct candidate *candidate,
                          enum conv2d_kernel kernel, struct err *err)
{
    struct train_pool *pool = bench->tuning->pool;
    struct workspace_bytes bytes;
    size_t packed = 0;
    int rc = 0;
    candidate->kernels.pass[candidate->pass] = (uint8_t)kernel;
    if (conv2d_kernel_is_onednn(kernel)) {
        rc = bench->library ? 0 : onednn_new(pool_threads(pool), &bench->library, err);
        rc = rc ? rc
                : onednn_conv2d_new(bench->library, &bench->shape, candidate->kernels, false,
                                    &candidate->onednn, err);
        if (rc) {
            return rc;
        }
        bytes = onednn_conv2d_workspace(candidate->onednn);
        packed = onednn_conv2d_packed_bytes(candidate->onednn);
    } else {
        bytes = conv2d_workspace(&bench->shape, candidate->kernels);
    }
    bytes.shared = workspace_align(bytes.shared);
    bytes.worker = workspace_align(bytes.worker);
    uint64_t all = bytes.shared + bytes.worker * pool_threads(pool) + packed + WORKSPACE_ALIGNMENT;
    candidate->memory = all < SIZE_MAX / 2
                            ? aligned_alloc(WORKSPACE_ALIGNMENT, (size_t)workspace_align(all))
                            : NULL;
    if (!candidate->memory) {
        return err_set(err, ERR_MEMORY, "out of memory to measure a convolution");
    }
    unsigned char *worker = candidate->memory + bytes.shared;
    candidate->compute = (struct compute){.pool = pool,
                                          .shared = candidate->memory,
                                          .worker = worker,
                                          .worker_bytes = (size_t)bytes.worker};
    unsigned char *after_workers = worker + bytes.worker * pool_threads(pool);
    return candidate->onednn
               ? onednn_conv2d_bind(candidate->onednn, &candidate->compute, after_workers, err)
               : 0;
}

/* Run once with a new version of the weights, as after an update, so that the time includes packing
 * the weights. */
static void run_onednn(const struct bench *bench, struct candidate *candidate)
{
    candidate->version++;
    switch (candidate->pass) {
    case CONV2D_FORWARD:
        onednn_conv2d_forward(candidate->onednn, &candidate->compute, candidate->version,
                              bench->shape.N, bench->x, bench->weight, NULL, bench->y);
        return;
    case CONV2D_BACKWARD_DATA:
        onednn_conv2d_backward_data(candidate->onednn, &candidate->compute, candidate->version,
                                    bench->y, bench->weight, bench->dx, false);
        return;
    case CONV2D_BACKWARD_WEIGHTS:
        onednn_conv2d_backward_weights(candidate->onednn, &candidate->compute, bench->x, bench->y,
                                       bench->dweight);
        return;
    }
}

static void run_own(const struct bench *bench, const struct candidate *candidate)
{
    switch (candidate->pass) {
    case CONV2D_FORWARD:
        conv2d_forward(&candidate->compute, &bench->shape, candidate->kernels, bench->x,
                       bench->weight, NULL, bench->y);
        return;
    case CONV2D_BACKWARD_DATA:
        conv2d_backward_data(&candidate->compute, &bench->shape, candidate->kernels, bench->y,
                             bench->weight, bench->dx, false);
        return;
    case CONV2D_BACKWARD_WEIGHTS:
        conv2d_backward_weights(&candidate->compute, &bench->shape, candidate->kernels, bench->x,
                                bench->y, bench->dweight);
        return;
    }
}

static double run_seconds(const struct bench *bench, struct candidate *candidate)
{
    const struct train_tuning *tuning = bench->tuning;
    double began = tuning->seconds(tuning->arg);
    if (candidate->onednn) {
        run_onednn(bench, candidate);
    } else {
        run_own(bench, candidate);
    }
    return tuning->seconds(tuning->arg) - began;
}

/* Measure the seconds of the fastest run: INFINITY if this CPU does not have the kernel. best:
 * seconds of the best other kernel. */
static int measure(struct bench *bench, enum conv2d_pass pass, enum conv2d_kernel kernel,
                   double best, double *seconds, struct err *err)
{
    struct candidate candidate = {.pass = pass};
    *seconds = INFINITY;
    int rc = candidate_open(bench, &candidate, kernel, err);
    if (rc == 0) {
        (void)run_seconds(bench, &candidate); /* warms up */
        for (int i = 0; i < RUNS && (i == 0 || (*seconds <= best * HOPELESS && time_left(bench)));
             i++) {
            *seconds = fmin(*seconds, run_seconds(bench, &candidate));
        }
    }
    candidate_close(&candidate);
    return rc == ERR_INVALID && conv2d_kernel_is_onednn(kernel) ? 0 : rc;
}

/* ---- all kernels of a pass ---- */

/* Whether every CPU with this backend has the kernel. A unit that moves needs its kernel there. */
static bool is_everywhere(enum conv2d_kernel kernel)
{
    return kernel != CONV2D_ONEDNN_WINOGRAD && (onednn_built() || !conv2d_kernel_is_onednn(kernel));
}

/* Whether agents of protocols 1 and 2 have the kernel for this shape, because they may receive the
 * table of kernels. They have winograd4 only where it is the kernel by shape. */
static bool is_known(enum conv2d_kernel kernel, const struct conv2d_shape *shape)
{
    return kernel != CONV2D_WINOGRAD4 || conv2d_is_winograd(shape);
}

/* Measure the kernels of a pass. `fastest` is unchanged if time runs out before the last one. */
static int choose(struct bench *bench, enum conv2d_pass pass, enum conv2d_kernel by_shape,
                  uint8_t *fastest, struct err *err)
{
    double best;
    enum conv2d_kernel chosen = by_shape;
    int rc = measure(bench, pass, by_shape, INFINITY, &best, err);
    best *= CLEARLY;
    for (enum conv2d_kernel kernel = CONV2D_COLUMNS;
         rc == 0 && kernel < CONV2D_KERNELS && time_left(bench); kernel++) {
        double seconds;
        if (kernel == by_shape || !is_everywhere(kernel) || !is_known(kernel, &bench->shape) ||
            !conv2d_kernel_can(kernel, &bench->shape, pass)) {
            continue;
        }
        rc = measure(bench, pass, kernel, best, &seconds, err);
        if (rc == 0 && seconds < best) {
            best = seconds;
            chosen = kernel;
        }
    }
    if (rc == 0 && time_left(bench)) {
        *fastest = (uint8_t)chosen;
    }
    return rc;
}

/* Set the kernel of each pass of `op` that has none. */
static int tune_op(struct bench *bench, struct op *op, struct remembered *known, struct err *err)
{
    const struct conv2d_kernels by_shape = op_conv2d_kernels(op, train_backend());
    int rc = 0;
    for (size_t pass = 0; rc == 0 && pass < CONV2D_PASSES; pass++) {
        if (op->kernels.pass[pass] != CONV2D_BY_SHAPE) {
            continue;
        }
        bool open = known->fastest.pass[pass] == CONV2D_BY_SHAPE;
        if (open && time_left(bench)) {
            rc = bench->x ? 0 : bench_open(bench, err);
            rc = rc ? rc
                    : choose(bench, (enum conv2d_pass)pass, (enum conv2d_kernel)by_shape.pass[pass],
                             &known->fastest.pass[pass], err);
        }
        bool measured = known->fastest.pass[pass] != CONV2D_BY_SHAPE;
        op->kernels.pass[pass] = measured ? known->fastest.pass[pass] : by_shape.pass[pass];
    }
    return rc;
}

int train_tune(struct train_tuner *tuner, struct model *model, const struct train_tuning *tuning,
               struct err *err)
{
    double end_seconds = tuning->seconds(tuning->arg) + tuning->budget_seconds;
    uint64_t mode = denormal_flush();
    int rc = 0;
    for (size_t u = tuning->first; rc == 0 && u < tuning->end; u++) {
        for (size_t k = 0; rc == 0 && k < model->unit[u].op_count; k++) {
            struct op *op = &model->unit[u].op[k];
            if (op->type == OP_CONV2D) {
                struct bench bench = {.tuning = tuning,
                                      .end_seconds = end_seconds,
                                      .shape = op_conv2d_shape(op, tuning->micro_batch)};
                struct remembered *known = recall(tuner, &bench.shape, pool_threads(tuning->pool));
                rc = tune_op(&bench, op, known, err);
                bench_close(&bench);
            }
        }
    }
    denormal_restore(mode);
    return rc;
}
