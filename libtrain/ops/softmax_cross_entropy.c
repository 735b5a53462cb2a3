#include "libtrain/ops/softmax_cross_entropy.h"

#include "base/elementary.h"
#include "libtrain/kernels/workspace.h"

struct loss_job {
    size_t N, C, slabs;
    const float *x;
    const int32_t *label;
    double own, other; /* excess target of the label's class; target of every class */
    double gradient_scale;
    float *dx;
    double *loss; /* [N] */
};

static double sample_loss(const struct loss_job *job, size_t n)
{
    const float *x = job->x + n * job->C;
    size_t label = (size_t)job->label[n];
    float largest = x[0];
    for (size_t c = 1; c < job->C; c++) {
        largest = x[c] > largest ? x[c] : largest;
    }
    double sum = 0.0;
    double distances = 0.0; /* sum over all scores of the distance from the largest */
    for (size_t c = 0; c < job->C; c++) {
        distances += (double)x[c] - (double)largest;
        sum += elementary_exp((double)x[c] - (double)largest);
    }
    if (job->dx) {
        float *dx = job->dx + n * job->C;
        for (size_t c = 0; c < job->C; c++) {
            double probability = elementary_exp((double)x[c] - (double)largest) / sum;
            dx[c] = (float)((probability - ((c == label ? job->own : 0.0) + job->other)) *
                            job->gradient_scale);
        }
    }
    return elementary_log(sum) -
           (job->own * ((double)x[label] - (double)largest) + job->other * distances);
}

static void loss_slab(const void *arg, size_t task, size_t worker)
{
    const struct loss_job *job = arg;
    (void)worker;
    size_t end = slab_begin(job->N, job->slabs, task + 1);
    for (size_t n = slab_begin(job->N, job->slabs, task); n < end; n++) {
        job->loss[n] = sample_loss(job, n);
    }
}

double softmax_cross_entropy(const struct compute *compute, size_t N, size_t C, const float *x,
                             const int32_t *label, double smoothing, double gradient_scale,
                             float *dx)
{
    const struct loss_job job = {.N = N,
                                 .C = C,
                                 .slabs = slab_count(N, C * 64, SLABS_MAX),
                                 .x = x,
                                 .label = label,
                                 .own = 1.0 - smoothing,
                                 .other = smoothing / (double)C,
                                 .gradient_scale = gradient_scale,
                                 .dx = dx,
                                 .loss = compute->shared};
    pool_run(compute->pool, job.slabs, loss_slab, &job);
    double sum = 0.0;
    for (size_t n = 0; n < N; n++) {
        sum += job.loss[n];
    }
    return sum;
}
