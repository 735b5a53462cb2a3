/* reduction.h: the tree reduction of a stage (REDUCTION_TREE, model/reduce.h): each micro-batch has
 * a gradient that starts from zero and statistics of its own. Private to libtrain/stage. */
#ifndef LIBTRAIN_STAGE_REDUCTION_H
#define LIBTRAIN_STAGE_REDUCTION_H

#include "libtrain/stage/stage.h"

/* ERR_INVALID for a config that the tree does not support; without a tree for none. */
NODISCARD int reduction_check(const struct train_stage_config *config, struct err *err);
void reduction_init(struct train_stage *stage);

/* The running statistics that forward and backward of a micro-batch use. */
float *reduction_statistics(const struct train_stage *stage, size_t micro_batch);
/* The same before its forward: those of trained units are zero, so that the forward leaves what it
 * adds; those of frozen units are as they are. */
float *reduction_begin(const struct train_stage *stage, size_t micro_batch);

/* After its forward. ERR_DIVERGED if what it adds to a statistic is not finite: others would refuse
 * it. */
NODISCARD int reduction_check_statistics(const struct train_stage *stage, size_t micro_batch,
                                         struct err *err);

/* Before the backward of a micro-batch: find the sums that belong to its gradient. */
void reduction_open(struct train_stage *stage, size_t micro_batch);
/* Its gradient of a layer is whole: add theirs. */
void reduction_add(struct train_stage *stage, size_t layer);
/* After its last layer: begin another gradient. That of the last micro-batch is the step's. */
void reduction_close(struct train_stage *stage);

/* Apply the statistics of all micro-batches of the step to the state, in order:
 * r = (1 - momentum) r + c, in double, rounded once. */
void reduction_apply(struct train_stage *stage);
/* Forget the sums of an unfinished step. */
void reduction_discard(struct train_stage *stage);

#endif
