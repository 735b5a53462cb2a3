/* keeper.h: the units [first, end) that a device keeps in one generation of a job, possibly none:
 * their model, threads and arithmetic, loading, saving and export; for a worker (train.h) a stage
 * of all units beside them, which takes the same states; and what every way to train shares: the
 * end of the generation, --slowdown, and the yielding of copies to tensors. A strategy (work.h)
 * builds on it; copies and sources know nothing else of the training.
 *
 * The compute thread makes it and computes; its owner frees it. keeper_cancel, keeper_add_waiting
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
    struct reduce_range worker_share; /* of a stage of all units beside the kept ones; empty: there
                                         is none */
    void (*summed)(void *arg, const float *sum, size_t layer); /* of that, as train_stage_config */
    void *summed_arg;
    size_t threads;
    double slowdown; /* >= 1 */
};

struct keeper;

/* model: taken, also on failure. The state of the units is undefined until each was loaded or
 * started. ERR_INVALID, ERR_MEMORY. To be called by the thread that will compute. */
NODISCARD int keeper_new(const struct keeper_config *config, struct model **model,
                         struct keeper **out, struct err *err);
void keeper_free(struct keeper **keeper);
/* Its spec is the keeper's own. */
const struct keeper_config *keeper_config(const struct keeper *keeper);

/* ---- units; the compute thread ---- */

/* Into the kept units and the worker's. blob NULL: from the seed. As train_unit_load. */
NODISCARD int keeper_load_unit(struct keeper *keeper, size_t unit, const void *blob, size_t size,
                               struct err *err);
/* Version 0 of the unit from a checkpoint: its tensors, and a fresh optimizer. As
 * checkpoint_read_unit. */
NODISCARD int keeper_start_unit(struct keeper *keeper, size_t unit, struct checkpoint_file *file,
                                struct err *err);
size_t keeper_unit_bytes(const struct keeper *keeper, size_t unit);
void keeper_save_unit(const struct keeper *keeper, size_t unit, void *out);
/* After the last step. */
NODISCARD int keeper_export_unit(struct keeper *keeper, size_t unit, train_write_fn write,
                                 void *arg, struct err *err);

/* ---- computing; the compute thread ---- */

const struct model *keeper_model(const struct keeper *keeper);
/* Of the kept units; NULL: there are none. */
struct train_stage *keeper_train(const struct keeper *keeper);
/* Of all units; NULL: the device is no worker. */
struct train_stage *keeper_worker(const struct keeper *keeper);
struct train_pool *keeper_pool(const struct keeper *keeper);
/* Seconds of each unit in the last forward and backward pass: [units] of the worker if there is
 * one, else [end - first]. */
const double *keeper_forward_seconds(const struct keeper *keeper);
const double *keeper_backward_seconds(const struct keeper *keeper);
/* The same of each layer of the worker, [train_layers]. */
const double *keeper_layer_forward_seconds(const struct keeper *keeper);
const double *keeper_layer_backward_seconds(const struct keeper *keeper);
/* Rest after work of thread_seconds, as --slowdown says. Only processor time is stretched, not time
 * in which another process ran. Returns the seconds owed for this work. */
double keeper_rest(struct keeper *keeper, double thread_seconds);

/* ---- the end of the generation; any thread ---- */

/* End every wait of the keeper. Strategies have a cancel of their own that calls it. */
void keeper_cancel(struct keeper *keeper);
struct cancel *keeper_cancelled(struct keeper *keeper);

/* ---- copies yield to training ---- */

/* So many more tensors wait to be sent; negative: fewer. */
void keeper_add_waiting(struct keeper *keeper, int count);
/* Wait up to wait_ns while tensors are being sent or wait. */
void keeper_wait_quiet(struct keeper *keeper, int64_t wait_ns);

#endif
