/* train.h: libtrain's only public header: trains a range of units of a model on one CPU. Users: the
 * agent's runtime and `paceline-agent train`. No network, no globals, no exit, no logging. After
 * train_stage_new training allocates no memory.
 *
 * Numbers (docs: the law). Everything is float32, NHWC, plain. Sums run in a fixed order. Work is
 * split into slabs whose boundaries depend on shape alone; threads only pick slabs. So the results
 * depend neither on the number of threads nor on the stage that a unit is in.
 *
 * Gradients are divided by the batch size (micro_batch * micro_batches). Loss: softmax
 * cross-entropy with the model's label smoothing, in evaluations too. If the model has labels at
 * several positions, the loss of a sample is the mean over its positions.
 *
 * Running statistics of batch-norm advance with each forward of a step and become part of the state
 * with its update. A recompute pass does not advance them.
 *
 * A frozen unit (model.h) computes in training as in evaluation: running statistics, no dropout.
 * Its state does not change, it has no optimizer state and its gradients count as 0. Backward
 * passes through it to trained units before it.
 *
 * Versions. Update t makes version t of the parameters. Forward and backward of step t use version
 * max(r, t - versions), r the version of the last restart. With versions = 1 that is the version of
 * the step before: the synchronous schedule. An asynchronous stage takes whole batches, of which
 * several are in flight; with as many versions as batches in flight, forward uses the latest one
 * and backward the one of its forward (weight stashing); with as many versions as the pipeline has
 * stages, all stages use the same one (vertical sync).
 *
 * Reduction. In place, each backward adds to the gradients of the step. By the tree, the gradients
 * of each micro-batch start from zero and are added in the order of model/reduce.h, and so do the
 * statistics of batch-norm: c of a micro-batch is what its forward adds to arrays of zeros; with
 * the update, r = (1 - momentum) r + c for each micro-batch in order, in double, rounded once.
 * Other devices may then compute other micro-batches: the bits are the same.
 *
 * Running statistics are not stashed: those of version t are those after forward t. So the state of
 * a version depends on nothing that is in flight.
 *
 * Threads: a stage is used by one thread at a time (the compute thread), which distributes the work
 * over its pool inside a call. */
#ifndef LIBTRAIN_TRAIN_H
#define LIBTRAIN_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "libtrain/memory/memory.h"
#include "libtrain/model/holdout.h"
#include "libtrain/model/model.h"
#include "libtrain/model/recipe.h"
#include "libtrain/model/reduce.h"
#include "libtrain/model/view.h"
#include "libtrain/state/state.h"

/* ---- numeric class ---- */

#define TRAIN_NUMERIC_CLASS_MAX 128
/* Write the numeric class of this machine: libtrain version, backend with version and core, vector
 * ISA, denormal mode. Machines with equal text compute equal bits. */
void train_numeric_class(char out[TRAIN_NUMERIC_CLASS_MAX]);
/* Return the backend for convolutions in this build. */
enum conv2d_backend train_backend(void);

/* ---- compute threads ---- */

struct train_pool;
/* Start threads - 1 workers, with all signals blocked: `threads` counts the caller. Workers flush
 * denormals to zero; a call into libtrain sets that mode on the calling thread too, and restores
 * the earlier one before it returns. ERR_INVALID outside [1, MEMORY_THREADS_MAX]; ERR_MEMORY. */
NODISCARD int train_pool_new(size_t threads, struct train_pool **out, struct err *err);
void train_pool_free(struct train_pool **pool);
/* Sum up the time for which the calling thread waits for the workers, by the clock `seconds`, which
 * is read only then. */
void train_pool_time_waits(struct train_pool *pool, double (*seconds)(void));
double train_pool_waited_seconds(const struct train_pool *pool);

/* ---- probe: the first estimate of a device's speed. It takes about `seconds` (and at least a few
 * rounds) and frees its memory. OpenBLAS keeps its packing buffers, so a small process probes in a
 * child. It is the only function here that reads a clock by itself. ---- */

struct train_probe {
    double gemm_gflops;             /* sgemm 384^3, all threads of the pool */
    double memory_bytes_per_second; /* triad over 32 MiB */
};
NODISCARD int train_probe(struct train_pool *pool, double seconds, struct train_probe *out,
                          struct err *err);

/* ---- tuning: finds the fastest kernels on this machine. Timing is not reproducible, so the choice
 * is made once for a job and then becomes part of its model (kernels/kernel_table.h). ---- */

struct train_tuner;
/* Create a tuner, which caches its measurements by shape and number of threads. One thread. */
NODISCARD int train_tuner_new(struct train_tuner **out, struct err *err);
void train_tuner_free(struct train_tuner **tuner);

struct train_tuning {
    size_t first, end; /* units */
    size_t micro_batch;
    struct train_pool *pool;
    double (*seconds)(void *arg); /* the clock */
    void *arg;
    double budget_seconds; /* passes not measured within it keep the choice by shape */
};
/* Choose a kernel for every pass of the units' convolutions that has none: the fastest that this
 * build has on every CPU. The choice of train_backend by shape stays unless another kernel is
 * clearly faster. Allocates memory for one convolution at a time and frees it. ERR_MEMORY. */
NODISCARD int train_tune(struct train_tuner *tuner, struct model *model,
                         const struct train_tuning *tuning, struct err *err);

/* ---- a stage ---- */

struct train_stage;

/* Times units and layers: libtrain reads no clock by itself. */
struct train_clock {
    double (*seconds)(void *arg); /* NULL: nothing is timed */
    void *arg;
    double *forward_seconds;       /* out: [end - first], of each unit in the last train_forward */
    double *backward_seconds;      /* the same of train_backward, including recompute passes and the
                                      additions of the tree */
    double *layer_forward_seconds; /* out: [layers_list of model/layers.h], of each layer with the
                                      ops computed with it; NULL: not timed */
    double *layer_backward_seconds; /* the same of train_backward */
};

struct train_stage_config {
    const struct model *model; /* borrowed for the life of the stage */
    size_t first, end;         /* units [first, end) */
    size_t micro_batch;   /* samples of a micro-batch; also the maximum of one evaluation call */
    size_t micro_batches; /* of a step */
    size_t in_flight;     /* activation slots; 0: a stage that only evaluates */
    size_t versions;      /* of the trained parameters; 0 counts as 1. Above 1: at least in_flight,
                             micro_batches 1 and no clip_norm */
    int64_t aggregate_every;   /* updates after which the latest version becomes the mean of the
                                  versions kept since the restart; 0: never. Not with one version */
    enum recompute recompute;  /* kept tensors of a slot; changes memory and time, never results */
    enum reduction reduction;  /* how the micro-batches of a step are added (model/reduce.h). The
                                  tree: with one version */
    struct reduce_range share; /* with the tree: the micro-batches that this stage computes; empty:
                                  none, the stage only keeps units for others */
    bool worker; /* with a share: the stage has no optimizer state, its parameters come from others.
                    It is never updated nor saved */
    /* A callback with the tree; NULL: none. train_backward of the last micro-batch of a block
     * (model/reduce.h) of the share calls it, from the last layer to layer 0: the layers from
     * `layer` on are final in `sum`, which train_block returns afterwards. Other threads may read
     * them from then on. It must return soon and call nothing of the stage. */
    void (*summed)(void *arg, const float *sum, size_t layer);
    void *summed_arg;
    struct optimizer optimizer;
    uint64_t seed;            /* initial weights, dropout */
    struct train_pool *pool;  /* borrowed */
    struct train_clock clock; /* its arrays are borrowed */
};

/* Create a stage: allocate all arenas (memory_of_stage, with train_backend; no slots if in_flight
 * is 0). Convolutions take the kernels that the model names. If it names none, or one of oneDNN's
 * in a build without it, the backend chooses by shape. The state is undefined until each unit was
 * initialised or loaded. ERR_INVALID, also for a kernel that this CPU does not have; ERR_MEMORY. */
NODISCARD int train_stage_new(const struct train_stage_config *config, struct train_stage **out,
                              struct err *err);
void train_stage_free(struct train_stage **stage);

/* Restart after `version`, that of the state: discard an unfinished step and drop older versions.
 * For a stage of several versions, after its units were loaded and when the pipeline has drained,
 * as it does for an evaluation. A new stage begins after version 0. */
void train_restart(struct train_stage *stage, int64_t version);

/* Units: by index in the model, within [first, end). */

/* Set a unit's state to version 0 and clear its gradients. Weights of convolutions and linear
 * layers are uniform in [-b, b), b = sqrt(6 / fan_in) (He), each element a function of (seed, unit,
 * parameter of the unit, element in PyTorch's order). Biases are 0; batch-norm and layer-norm have
 * weight 1, bias 0, running mean 0, running variance 1; optimizer state is 0. Weights of embeddings
 * and positions are uniform in [-sqrt(3), sqrt(3)): variance 1, as PyTorch's nn.Embedding. */
void train_unit_initialise(struct train_stage *stage, size_t unit);
/* Load a snapshot blob (state.h, of any alignment) and clear the unit's gradients. A worker skips
 * the optimizer's arrays. ERR_FORMAT if its size or header is not exactly that of this unit's
 * layout; the old state is kept then. */
NODISCARD int train_unit_load(struct train_stage *stage, size_t unit, const void *blob, size_t size,
                              struct err *err);
/* Write a snapshot blob of train_unit_bytes bytes: the state as of the last update, even in the
 * middle of a step. `out` is aligned to 4. */
size_t train_unit_bytes(const struct train_stage *stage, size_t unit);
void train_unit_save(const struct train_stage *stage, size_t unit, void *out);
/* Pass the exported part of that blob (state.h) to `write`, tensor by tensor. Clears the unit's
 * gradients, whose memory is used as transposed scratch, whatever `write` returns. Return the first
 * error of `write`. */
typedef int (*train_write_fn)(void *arg, const void *data, size_t size, struct err *err);
NODISCARD int train_unit_export(struct train_stage *stage, size_t unit, train_write_fn write,
                                void *arg, struct err *err);

/* The position of a micro-batch, on which the random draws of dropout depend. */
struct train_position {
    int64_t step;       /* from 1 */
    size_t micro_batch; /* from 0 */
};

/* Forward of one micro-batch in slot `slot` (< in_flight). With several versions: of the batch
 * after the one before, at most in_flight after the last update.
 *
 *     input     stage 0: micro_batch stored samples (model's input dtype); else float32
 *               [micro_batch, in]. Valid and unchanged until this slot's backward returns.
 *     output    float32 [micro_batch, out]; NULL on the last stage
 *     labels    last stage: [micro_batch][positions]; else NULL
 *     loss_sum  last stage: out, sum of the micro-batch's losses in sample order, not divided; else
 * NULL
 *
 * ERR_INVALID for a label >= classes and for a token without a row in an embedding; ERR_DIVERGED if
 * loss_sum is not finite. */
NODISCARD int train_forward(struct train_stage *stage, size_t slot, struct train_position position,
                            const void *input, float *output, const int32_t *labels,
                            double *loss_sum, struct err *err);

/* Backward of the micro-batch in `slot`; the micro-batches of a step in order. Parameter gradients
 * accumulate.
 *
 *     output_gradient  float32 [micro_batch, out]; NULL on the last stage
 *     input_gradient   overwritten, float32 [micro_batch, in]; NULL on stage 0. Zeros if no unit
 *                      before the stage is trained: nothing is computed for it then. */
void train_backward(struct train_stage *stage, size_t slot, const float *output_gradient,
                    float *input_gradient);

/* Sum the squares of the gradients of the stage's units and add `later`, the sum of the following
 * stage (last stage: 0). Called with an optimizer that has a clip_norm, between the last backward
 * of a step and its update. In double, unit by unit from the model's last to its first, so that
 * stage 0 gets the same sum for every partition. ERR_DIVERGED if a gradient is not finite,
 * ERR_INVALID if `later` is negative or not finite. */
NODISCARD int train_sum_squares(struct train_stage *stage, double later, double *out,
                                struct err *err);
/* Clip the gradients, once after train_sum_squares. `squares` is the sum of stage 0. If its root,
 * the norm of all gradients of the model, exceeds clip_norm, the stage's gradients are scaled down
 * in proportion. ERR_INVALID if `squares` is negative or not finite. */
NODISCARD int train_clip(struct train_stage *stage, double squares, struct err *err);
/* Do one optimizer step with the accumulated gradients, clipped to the optimizer's clip_value, and
 * zero them. It reads the latest version and makes version `step`, which with an `aggregate_every`
 * that divides `step` is the mean of the kept versions: sums in float32 from the oldest on, divided
 * by their number. Optimizer state is not averaged. step: of the job, from 1 (adam's bias
 * correction follows from it); with several versions the one after the last. ERR_DIVERGED if a
 * gradient is not finite; then no parameter changed. */
NODISCARD int train_update(struct train_stage *stage, int64_t step, double learning_rate,
                           struct err *err);
/* Discard an unfinished step: its gradients, and its changes to running statistics. */
void train_discard(struct train_stage *stage);

/* ---- a batch that several devices share (REDUCTION_TREE): a worker computes a share of the
 * micro-batches with all units, a server keeps units and updates them ---- */

/* The smallest part of a transfer: the trained parameters of an op and of the norms that follow
 * it. Consecutive layers are contiguous in the arenas of parameters and gradients; every stage that
 * has the layer has it in the same form, padded with zeros. */
struct train_layer {
    size_t unit;  /* in the model */
    size_t first; /* float of the stage's arenas */
    size_t count;
};
/* Return the layers of the stage, in order; borrowed for its life. *count: their number. */
const struct train_layer *train_layers(const struct train_stage *stage, size_t *count);

/* Return the trained parameters of the latest version, all layers in order. With one version they
 * stay valid for the stage's life. After writing to them call train_parameters_changed: the stage
 * recomputes data derived from the weights. */
float *train_parameters(struct train_stage *stage);
void train_parameters_changed(struct train_stage *stage);

/* Worker: train_forward in parts, for a micro-batch that begins when only the first layers have
 * arrived: begin; layers, each time more of them have arrived; end. The bits are those of
 * train_forward. Between the parts call only train_parameters_changed, or train_discard, which
 * abandons the forward.
 *
 * train_forward_begin: input, labels, errors as train_forward; labels are valid until the end.
 * train_forward_layers: compute the layers before `end` that are not computed yet. An op without
 * trained parameters is computed with the layer before it, the ops before layer 0 with that.
 * train_forward_end: compute the rest. output, loss_sum, errors as train_forward. */
NODISCARD int train_forward_begin(struct train_stage *stage, size_t slot,
                                  struct train_position position, const void *input,
                                  const int32_t *labels, struct err *err);
void train_forward_layers(struct train_stage *stage, size_t end);
NODISCARD int train_forward_end(struct train_stage *stage, float *output, double *loss_sum,
                                struct err *err);

/* Worker: return the sum of the gradients of a block (model/reduce.h) of its share, in the form of
 * the parameters; NULL: not complete, or not a block of the share. Valid until it is released, at
 * the latest before the next step. The stage has room for all sums of its share. */
const float *train_block(struct train_stage *stage, struct reduce_range block);
void train_block_release(struct train_stage *stage, struct reduce_range block);

/* Server: return the gradient of the step, in the form of the parameters. It is zero at first; the
 * caller writes the sum of all blocks to it before train_update. train_add: sum[i] += block[i]. */
float *train_gradient(struct train_stage *stage);
void train_add(const struct train_stage *stage, size_t count, const float *block, float *sum);

/* Return what the forward of a micro-batch of this step added to the statistics of batch-norm. A
 * worker reads it; a server writes it before train_update. A unit's statistics are contiguous. */
float *train_statistics(struct train_stage *stage, size_t micro_batch);
/* Return the running statistics of the state, in the same form, as of the last update;
 * train_evaluate uses them. A worker writes the server's statistics to them before it evaluates a
 * version. NULL: the stage has none. */
float *train_running(struct train_stage *stage);
/* Set [*first, *end) to a unit's range in both arrays; empty for a frozen unit. */
void train_statistics_of(const struct train_stage *stage, size_t unit, size_t *first, size_t *end);

/* ---- groups that train apart and move towards each other (optim/mix.h): a stage of one version
 * that adds micro-batches in place ---- */

/* The state that training changes, without the optimizer's state: train_parameters, with the zeros
 * of its padding, and train_running. Or a copy of both. */
struct train_state {
    float *parameter, *statistic;
    size_t parameters, statistics; /* floats */
};
/* Return the stage's own state; for its life. After writing to it, which is possible between two
 * steps, call train_state_changed. */
struct train_state train_state(struct train_stage *stage);
void train_state_changed(struct train_stage *stage);
/* Return tensor `index` of a unit's export (train_unit_export) from `state` or, for a frozen unit,
 * from the stage. It lies in `state`, in the stage or in scratch [train_scratch_floats]. *count:
 * its floats. NULL: no more tensors. With a copy of the state any thread may call it. */
const float *train_state_tensor(const struct train_stage *stage, const struct train_state *state,
                                size_t unit, size_t index, float *scratch, size_t *count);
size_t train_scratch_floats(const struct train_stage *stage);

/* Return the losses [micro_batch * positions] that the last train_forward of the last stage summed;
 * borrowed until the next call. */
const double *train_losses(const struct train_stage *stage);

/* Evaluate `count` <= micro_batch samples with running statistics and without dropout. Reads the
 * state, never writes it; needs no slot. Last stage: with labels, adds to *loss_sum (in sample
 * order) and to *correct, which counts labels (at most micro_batch * positions). There `output`
 * takes the scores, float32 [count][positions][classes], or is NULL; with it labels may be NULL,
 * and nothing is added. */
NODISCARD int train_evaluate(struct train_stage *stage, size_t count, const void *input,
                             float *output, const int32_t *labels, double *loss_sum,
                             uint64_t *correct, struct err *err);

/* Return the (first) class with the highest score, by which `correct` counts. */
static inline size_t train_best(const float *scores, size_t classes)
{
    size_t best = 0;
    for (size_t c = 1; c < classes; c++) {
        best = scores[c] > scores[best] ? c : best;
    }
    return best;
}

/* ---- data ---- */

/* The samples of each batch: a permutation per epoch keyed by (seed, epoch). One thread. */
struct train_sampler;
/* Allocate the permutation of one epoch. samples >= batch >= 1. */
NODISCARD int train_sampler_new(uint64_t samples, size_t batch, uint64_t seed,
                                struct train_sampler **out, struct err *err);
/* The same for the epochs of a view (view.h) of a data set: each has all own samples and a draw of
 * the others, permuted. labels: of its `samples`, as stored; read in this call only. An epoch has
 * at least `batch` samples. ERR_INVALID also for a shard that the data does not have. */
NODISCARD int train_sampler_new_view(const struct view *view, const unsigned char *labels,
                                     uint64_t samples, size_t batch, uint64_t seed,
                                     struct train_sampler **out, struct err *err);
/* The same of a data set without the samples that are held out (holdout.h): each of the others once
 * in an epoch. */
NODISCARD int train_sampler_new_without(const struct holdout *holdout, const unsigned char *labels,
                                        uint64_t samples, size_t batch, uint64_t seed,
                                        struct train_sampler **out, struct err *err);
void train_sampler_free(struct train_sampler **sampler);
/* Return the number of samples of an epoch. */
uint64_t train_sampler_epoch(const struct train_sampler *sampler);
/* Return the held-out samples, rising; *count: their number. Borrowed for the sampler's life. */
const uint32_t *train_sampler_held(const struct train_sampler *sampler, size_t *count);
/* Return floor(samples / batch): the last partial batch is dropped. */
int64_t train_steps_per_epoch(uint64_t samples, size_t batch);
/* Return the sample indices [batch] of `step` (from 1, global); borrowed until the next call. */
const uint32_t *train_sampler_batch(struct train_sampler *sampler, int64_t step);
/* Note the losses of the samples [first, first + count) of the batch of `step`, the last one that
 * was returned. Later epochs of a window (view.h) depend on them: request its steps in order; a
 * sampler that begins at a later step knows no losses. Without a window this does nothing. */
void train_sampler_note(struct train_sampler *sampler, int64_t step, size_t first, size_t count,
                        const double *loss);

/* The source of stage 0's samples and their augmentation. Plain data. */
struct train_loader {
    const unsigned char *inputs; /* contiguous stored samples of any alignment; borrowed */
    struct shape shape;          /* of one sample */
    size_t element_bytes;
    size_t padding; /* crop: rows and columns of zeros around a sample; 0: no crop */
    bool flip;
    uint64_t seed;
};
struct train_loader train_loader_of(const struct model *model, const struct augment *augment,
                                    size_t augment_count, uint64_t seed,
                                    const unsigned char *inputs);
/* Load the samples sample[count], at positions [first, first + count) of the batch of `step`, as
 * stored. Crop and flip are drawn as a function of (seed, step, position) alone. */
void train_load(const struct train_loader *loader, int64_t step, size_t first, size_t count,
                const uint32_t *sample, void *out);

#endif
