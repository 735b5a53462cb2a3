/* keeper.h: the units [first, end) that a device keeps in one generation of a job, possibly none:
 * their model, threads and arithmetic, and their loading, saving and export. A worker (train.h)
 * has, in addition, a stage of all units, which takes the same states. The keeper also has the
 * functions that all strategies share: the end of the generation, --slowdown, and making copies
 * yield to tensors. Strategies (work.h) build on it; for copies and sources it is the only
 * interface to the training.
 *
 * The compute thread creates it and computes; its owner frees it. keeper_cancel, keeper_add_waiting
 * and keeper_wait_quiet: any thread. */
#ifndef AGENT_RUNTIME_KEEPER_H
#define AGENT_RUNTIME_KEEPER_H

#include <stddef.h>
#include <stdint.h>

#include "agent/runtime/cancel.h"
#include "base/err.h"
#include "libtrain/model/model.h"
#include "libtrain/state/checkpoint.h"
#include "libtrain/train.h"
#include "schema/id.h"
#include "schema/job.h"

struct keeper_config {
    struct job_id job;
    int64_t generation;
    size_t first, end; /* the units */
    int64_t resume_version;
    const struct job_spec *spec;      /* copied; the description is not used */
    size_t in_flight, versions;       /* as train_stage_config */
    struct reduce_range share;        /* as train_stage_config; the job says how it is added */
    struct reduce_range worker_share; /* for the worker's stage of all units; empty: no worker */
    void (*summed)(void *arg, const float *sum, size_t layer); /* its, as in train_stage_config */
    void *summed_arg;
    size_t threads;
    double slowdown; /* >= 1 */
};

struct keeper;

/* model: taken, also on failure. The state of the units is undefined until each was loaded or
 * started. ERR_INVALID, ERR_MEMORY. The thread that will compute must call it. */
NODISCARD int keeper_new(const struct keeper_config *config, struct model **model,
                         struct keeper **out, struct err *err);
void keeper_free(struct keeper **keeper);
/* Return the configuration. Its spec is the keeper's own copy. */
const struct keeper_config *keeper_config(const struct keeper *keeper);

/* ---- units; the compute thread ---- */

/* Load a unit into the kept units and into the worker's stage. blob NULL: initialise from the seed.
 * As train_unit_load. */
NODISCARD int keeper_load_unit(struct keeper *keeper, size_t unit, const void *blob, size_t size,
                               struct err *err);
/* Load version 0 of the unit from a checkpoint: its tensors, and a new optimizer state. As
 * checkpoint_read_unit. */
NODISCARD int keeper_start_unit(struct keeper *keeper, size_t unit, struct checkpoint_file *file,
                                struct err *err);
size_t keeper_unit_bytes(const struct keeper *keeper, size_t unit);
void keeper_save_unit(const struct keeper *keeper, size_t unit, void *out);
/* Export a unit after the last step. */
NODISCARD int keeper_export_unit(struct keeper *keeper, size_t unit, train_write_fn write,
                                 void *arg, struct err *err);

/* ---- computing; the compute thread ---- */

const struct model *keeper_model(const struct keeper *keeper);
/* Return the stage of the kept units; NULL: there are none. */
struct train_stage *keeper_train(const struct keeper *keeper);
/* Return the worker's stage of all units; NULL: the device is not a worker. */
struct train_stage *keeper_worker(const struct keeper *keeper);
struct train_pool *keeper_pool(const struct keeper *keeper);
/* Return the seconds of each unit in the last forward and backward pass: [units] of the worker's
 * stage if there is one, else [end - first]. */
const double *keeper_forward_seconds(const struct keeper *keeper);
const double *keeper_backward_seconds(const struct keeper *keeper);
/* Return the same for each layer of the worker's stage, [train_layers]. */
const double *keeper_layer_forward_seconds(const struct keeper *keeper);
const double *keeper_layer_backward_seconds(const struct keeper *keeper);
/* Rest after thread_seconds of work to implement --slowdown. Only processor time is stretched, not
 * time in which another process ran. Returns the seconds owed for this work. */
double keeper_rest(struct keeper *keeper, double thread_seconds);

/* ---- the end of the generation; any thread ---- */

/* End every wait of the keeper. A strategy's own cancel function calls it. */
void keeper_cancel(struct keeper *keeper);
struct cancel *keeper_cancelled(struct keeper *keeper);

/* ---- copies yield to training ---- */

/* Add `count` to the number of tensors that wait to be sent; negative: subtract. */
void keeper_add_waiting(struct keeper *keeper, int count);
/* Wait up to wait_ns while tensors are being sent or wait to be sent. */
void keeper_wait_quiet(struct keeper *keeper, int64_t wait_ns);

#endif
