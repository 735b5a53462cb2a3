/* staged.h: trains an asynchronous job in one process as its plans say: one libtrain stage for each
 * planned stage, with the versions that it keeps on a device. For train.c; one thread (and the
 * pool's).
 *
 * Tensors between stages are coded as the plan says, since codecs change the weights.
 *
 * The state of a version depends on the versions that forward and backward use, not on the order of
 * stages and batches (train.h). So batches pass through one at a time, and only one batch is in
 * memory. */
#ifndef AGENT_OFFLINE_STAGED_H
#define AGENT_OFFLINE_STAGED_H

#include "agent/offline/plan_file.h"
#include "agent/runtime/work.h"
#include "base/err.h"
#include "libtrain/state/checkpoint.h"
#include "libtrain/train.h"
#include "schema/job.h"

/* Everything is borrowed for the life of the training. */
struct staged_config {
    const struct model *model;
    const struct job_spec *spec;
    struct job_data samples;
    struct work_data data;
    size_t threads;
    int64_t total_steps;
    struct checkpoint_file *checkpoint; /* of units that start from a checkpoint; NULL: none do */
    const struct work_listener *listener;
};

struct staged;

/* ERR_MEMORY, ERR_INVALID. */
NODISCARD int staged_new(const struct staged_config *config, struct staged **out, struct err *err);
void staged_free(struct staged **staged);

/* Train all steps of the job. Errors as stage_loop. */
NODISCARD int staged_run(struct staged *staged, const struct plan_file *plans, struct err *err);
/* Export a unit after staged_run, as train_unit_export. */
NODISCARD int staged_export_unit(struct staged *staged, size_t unit, train_write_fn write,
                                 void *arg, struct err *err);

#endif
