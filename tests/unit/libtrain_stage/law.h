/* law.h: the law as a check: trains a model for some steps in one stage on one thread, and compares
 * the bits with other partitions and thread counts. Tests only. */
#ifndef TESTS_UNIT_LIBTRAIN_STAGE_LAW_H
#define TESTS_UNIT_LIBTRAIN_STAGE_LAW_H

#include "tests/unit/libtrain_stage/pipeline.h"

/* Descriptions with every op of images, and of sequences. */
extern const char law_everything[], law_sequence[];

/* How long the training is that must agree. */
struct law_run {
    size_t batch, micro_batches;
    int64_t steps;
    enum reduction reduction;
};

/* A model with its data, and the result of one stage on one thread. */
struct law {
    const struct kernel_pools *pools;
    struct model *model;
    struct law_run run;
    struct pipeline_recipe recipe;
    unsigned char *inputs; /* [steps][batch] samples */
    int32_t *labels;
    size_t batch_bytes;
    unsigned char *expected; /* snapshots after the last step */
    size_t expected_size;
    double expected_loss; /* of the last step */
    struct draws draws;
};

/* Takes the model. state: the test's, with the pools. law_new: SGD with momentum and weight decay.
 */
struct law law_new(void **state, struct model *model, struct law_run run);
struct law law_with(void **state, struct model *model, struct law_run run,
                    const struct optimizer *optimizer);
void law_done(struct law *law);

/* The data of a step, from 1. */
const unsigned char *law_inputs(const struct law *law, int64_t step);
const int32_t *law_labels(const struct law *law, int64_t step);
void law_steps(struct law *law, struct pipeline *pipeline, int64_t first, int64_t last);

/* Fail unless the pipeline's state and its last loss are the expected ones. */
void law_check_state(const struct law *law, const struct pipeline *pipeline);
/* Train all steps as `count` stages, on one and on two threads, without and with recomputing, and
 * check. */
void law_check_partition(struct law *law, const size_t *end, size_t count);

/* Bit u of `cuts` puts a border after unit u. end [PIPELINE_STAGES_MAX]: out. Returns the number
 * of stages. */
size_t law_partition(uint64_t cuts, size_t units, size_t *end);
size_t law_draw_partition(struct law *law, size_t *end);
void law_check_random_partitions(struct law *law, int times);

/* ---- the tree (REDUCTION_TREE) ---- */

#define LAW_OPTIMIZERS 4
extern const struct optimizer law_optimizers[LAW_OPTIMIZERS];
/* The config of a stage of all units that computes a share of the micro-batches. */
struct train_stage_config law_tree_config(const struct law *law, struct reduce_range share,
                                          size_t threads);
/* A stage at version 0. */
struct train_stage *law_stage_of(const struct train_stage_config *config);
/* The same of units [first, end) that computes a share of the micro-batches. */
struct train_stage *law_tree_stage(const struct law *law, size_t first, size_t end,
                                   size_t in_flight, struct reduce_range share, size_t threads);
/* Forward and backward of one micro-batch by a stage of all units. Return its loss. */
double law_pass(const struct law *law, struct train_stage *stage, int64_t step, size_t micro_batch);

#endif
