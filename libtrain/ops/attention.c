#include "libtrain/ops/attention.h"

#include <math.h>

#include "libtrain/backend/gemm.h"
#include "libtrain/backend/simd.h"
#include "libtrain/ops/elementary_vector.h"
#include "libtrain/ops/row_sum.h"

struct attention_job {
    const struct compute *compute;
    const struct attention_shape *shape;
    const float *x, *dy;
    float *y, *dx;
    bool accumulate;
};

/* One head of one sample. Rows of q, k, v and their gradients are 3 C floats apart. Rows of y and
 * dy are C floats apart. */
struct head {
    const float *q, *k, *v, *dy;
    float *y, *dq, *dk, *dv;
    size_t D, C, stride;
    float scale;     /* 1 / sqrt(D) */
    float *share;    /* [block][T] probabilities */
    float *gradient; /* [block][T] gradients of the scores */
};

/* A block of queries and the positions that its last query attends to. */
struct block {
    size_t first, count, seen;
};

static struct head head_of(const struct attention_job *job, size_t task, size_t worker)
{
    const struct attention_shape *s = job->shape;
    size_t n = task / s->heads;
    size_t D = s->C / s->heads;
    size_t input = n * s->T * 3 * s->C + task % s->heads * D;
    size_t output = n * s->T * s->C + task % s->heads * D;
    struct head head = {.q = job->x + input,
                        .k = job->x + input + s->C,
                        .v = job->x + input + 2 * s->C,
                        .D = D,
                        .C = s->C,
                        .stride = 3 * s->C,
                        .scale = (float)(1.0 / sqrt((double)D)),
                        .share = compute_worker(job->compute, worker)};
    head.gradient = head.share + attention_block_rows(s) * s->T;
    if (job->y) {
        head.y = job->y + output;
    } else {
        head.dy = job->dy + output;
        head.dq = job->dx + input;
        head.dk = head.dq + s->C;
        head.dv = head.dq + 2 * s->C;
    }
    return head;
}

/* Scores to probabilities: row[j] = exp(scale (row[j] - largest)) / their sum. */
SIMD_CLONES static void softmax_row(float *row, size_t count, double scale)
{
    float largest = row[0];
    for (size_t j = 1; j < count; j++) {
        largest = row[j] > largest ? row[j] : largest;
    }
    double top = (double)largest;
    SIMD_IN_PLACE
    for (size_t j = 0; j < count; j++) {
        row[j] = (float)elementary_exp_below_0(((double)row[j] - top) * scale);
    }
    double sum;
    ROW_SUM(sum, j, count, (double)row[j]);
    float inverse = (float)(1.0 / sum);
    SIMD_IN_PLACE
    for (size_t j = 0; j < count; j++) {
        row[j] *= inverse;
    }
}

/* Gradients of the probabilities to gradients of the scores: row[j] = share[j] (row[j] - sum of
 * share row) scale. */
SIMD_CLONES static void softmax_gradient_row(const float *restrict share, float *restrict row,
                                             size_t count, float scale)
{
    double sum;
    ROW_SUM(sum, j, count, (double)share[j] * (double)row[j]);
    float mean = (float)sum;
    for (size_t j = 0; j < count; j++) {
        row[j] = share[j] * (row[j] - mean) * scale;
    }
}

/* Compute the probabilities of a block's queries: 0 where a query does not attend. */
static void find_shares(const struct head *head, const struct block *block, bool causal)
{
    gemm(false, true, block->count, block->seen, head->D, head->q + block->first * head->stride,
         head->stride, head->k, head->stride, 0.0f, head->share, block->seen);
    for (size_t i = 0; i < block->count; i++) {
        float *row = head->share + i * block->seen;
        size_t visible = causal ? block->first + i + 1 : block->seen;
        softmax_row(row, visible, (double)head->scale);
        for (size_t j = visible; j < block->seen; j++) {
            row[j] = 0.0f;
        }
    }
}

static struct block block_at(const struct attention_shape *shape, size_t first)
{
    size_t rows = attention_block_rows(shape);
    size_t count = shape->T - first < rows ? shape->T - first : rows;
    return (struct block){
        .first = first, .count = count, .seen = shape->causal ? first + count : shape->T};
}

static void forward_head(const void *arg, size_t task, size_t worker)
{
    const struct attention_job *job = arg;
    const struct attention_shape *s = job->shape;
    struct head head = head_of(job, task, worker);
    for (size_t first = 0; first < s->T; first += attention_block_rows(s)) {
        struct block block = block_at(s, first);
        find_shares(&head, &block, s->causal);
        gemm(false, false, block.count, head.D, block.seen, head.share, block.seen, head.v,
             head.stride, 0.0f, head.y + first * head.C, head.C);
    }
}

void attention_forward(const struct compute *compute, const struct attention_shape *shape,
                       const float *x, float *y)
{
    const struct attention_job job = {.compute = compute, .shape = shape, .x = x, .y = y};
    pool_run(compute->pool, shape->N * shape->heads, forward_head, &job);
}

/* fresh: the first block computed. It attends to all positions and overwrites their gradients. */
static void backward_block(const struct attention_job *job, const struct head *head,
                           const struct block *block, bool fresh)
{
    const struct attention_shape *s = job->shape;
    const float *dy = head->dy + block->first * head->C;
    const float *q = head->q + block->first * head->stride;
    float keep = job->accumulate || !fresh ? 1.0f : 0.0f;
    find_shares(head, block, s->causal);
    gemm(true, false, block->seen, head->D, block->count, head->share, block->seen, dy, head->C,
         keep, head->dv, head->stride);
    gemm(false, true, block->count, block->seen, head->D, dy, head->C, head->v, head->stride, 0.0f,
         head->gradient, block->seen);
    for (size_t i = 0; i < block->count; i++) {
        softmax_gradient_row(head->share + i * block->seen, head->gradient + i * block->seen,
                             block->seen, head->scale);
    }
    gemm(false, false, block->count, head->D, block->seen, head->gradient, block->seen, head->k,
         head->stride, job->accumulate ? 1.0f : 0.0f, head->dq + block->first * head->stride,
         head->stride);
    gemm(true, false, block->seen, head->D, block->count, head->gradient, block->seen, q,
         head->stride, keep, head->dk, head->stride);
}

/* Go from the last block to the first, because the last block attends to every position. */
static void backward_head(const void *arg, size_t task, size_t worker)
{
    const struct attention_job *job = arg;
    const struct attention_shape *s = job->shape;
    struct head head = head_of(job, task, worker);
    size_t rows = attention_block_rows(s);
    size_t blocks = (s->T - 1) / rows + 1;
    for (size_t b = blocks; b-- > 0;) {
        struct block block = block_at(s, b * rows);
        backward_block(job, &head, &block, b + 1 == blocks);
    }
}

void attention_backward(const struct compute *compute, const struct attention_shape *shape,
                        const float *x, const float *dy, float *dx, bool accumulate)
{
    const struct attention_job job = {
        .compute = compute, .shape = shape, .x = x, .dy = dy, .dx = dx, .accumulate = accumulate};
    pool_run(compute->pool, shape->N * shape->heads, backward_head, &job);
}
