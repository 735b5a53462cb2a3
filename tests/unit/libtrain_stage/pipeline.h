/* pipeline.h: a model trained by several stages in one process, in the order that schedule.h gives:
 * the driver of the law's tests and of the golden tests. One thread (and the pool's). Tests only.
 */
#ifndef TESTS_UNIT_LIBTRAIN_STAGE_PIPELINE_H
#define TESTS_UNIT_LIBTRAIN_STAGE_PIPELINE_H

#include "libtrain/train.h"
#include "tests/unit/libtrain_description/model_support.h"
#include "tests/unit/libtrain_ops/kernel_support.h"

#define PIPELINE_STAGES_MAX 64

/* How a model is trained; the same for all partitions that must agree. */
struct pipeline_recipe {
    const struct model *model;
    size_t batch, micro_batches;
    struct optimizer optimizer;
    double learning_rate;
    uint64_t seed;
    enum recompute recompute;
    enum reduction reduction;
};

struct pipeline {
    struct pipeline_recipe recipe;
    size_t count;
    struct train_stage *stage[PIPELINE_STAGES_MAX];
    size_t end[PIPELINE_STAGES_MAX];        /* one past the last unit of each stage */
    float *activation[PIPELINE_STAGES_MAX]; /* after stage i: all micro-batches of a step */
    float *gradient[PIPELINE_STAGES_MAX];
    double last_loss;    /* sum over the batch of the last step */
    double last_squares; /* with clip_norm: of all gradients of the last step */
    bool poison;   /* fill the workspaces with NaN before each call: nothing may lie there from call
                      to call */
    bool in_parts; /* train_forward in parts, drawn */
};

/* end[count], the last one is the model's unit count. */
struct pipeline *pipeline_new(const struct pipeline_recipe *recipe, const size_t *end, size_t count,
                              struct train_pool *pool);
void pipeline_free(struct pipeline *pipeline);
void pipeline_initialise(struct pipeline *pipeline);

/* One step on `batch` stored samples. Which stage that could work does work next is drawn from
 * `draws`. */
void pipeline_step(struct pipeline *pipeline, int64_t step, const unsigned char *inputs,
                   const int32_t *labels, struct draws *draws);
/* The forwards and backwards of a step without its update. */
void pipeline_half_step(struct pipeline *pipeline, int64_t step, const unsigned char *inputs,
                        const int32_t *labels, struct draws *draws);
/* Evaluate up to a micro-batch of samples. */
void pipeline_evaluate(struct pipeline *pipeline, size_t count, const unsigned char *inputs,
                       const int32_t *labels, double *loss_sum, uint64_t *correct);

/* A unit's snapshot; heap. */
unsigned char *unit_save(const struct train_stage *stage, size_t unit);
/* All units' snapshots, one after the other; heap. Load: from another pipeline of the same recipe.
 */
unsigned char *pipeline_save(const struct pipeline *pipeline, size_t *out_size);
void pipeline_load(struct pipeline *pipeline, const unsigned char *blobs);

/* Random stored samples (bytes) and labels; heap. */
unsigned char *draw_bytes(struct draws *draws, size_t count);
int32_t *draw_labels(struct draws *draws, size_t count, uint32_t classes);

#endif
