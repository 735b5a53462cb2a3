/* reduction.h: the tree reduction of a stage (REDUCTION_TREE, model/reduce.h): each micro-batch has
 * a gradient that starts from zero and statistics of its own. Private to libtrain/stage. */
#ifndef LIBTRAIN_STAGE_REDUCTION_H
#define LIBTRAIN_STAGE_REDUCTION_H

#include "libtrain/stage/stage.h"

/* Check a config. ERR_INVALID: the tree does not support it. Without a tree all are valid. */
NODISCARD int reduction_check(const struct train_stage_config *config, struct err *err);
void reduction_init(struct train_stage *stage);

/* Return the running statistics that forward and backward of a micro-batch use. */
float *reduction_statistics(const struct train_stage *stage, size_t micro_batch);
/* Return the same before the micro-batch's forward. Statistics of trained units are set to zero, so
 * that they hold only the forward's contribution afterwards; those of frozen units stay. */
float *reduction_begin(const struct train_stage *stage, size_t micro_batch);

/* Check a micro-batch after its forward. ERR_DIVERGED if its contribution to a statistic is not
 * finite: servers would reject it. */
NODISCARD int reduction_check_statistics(const struct train_stage *stage, size_t micro_batch,
                                         struct err *err);

/* Before the backward of a micro-batch: find the sums that belong to its gradient. */
void reduction_open(struct train_stage *stage, size_t micro_batch);
/* Add these sums to the micro-batch's gradient of a layer, which is complete. */
void reduction_add(struct train_stage *stage, size_t layer);
/* End a micro-batch after its last layer, and begin another gradient. The last micro-batch's
 * gradient is the step's. */
void reduction_close(struct train_stage *stage);

/* Apply the statistics of all micro-batches of the step to the state, in order:
 * r = (1 - momentum) r + c, in double, rounded once. */
void reduction_apply(struct train_stage *stage);
/* Discard the sums of an unfinished step. */
void reduction_discard(struct train_stage *stage);

#endif
