/* train.h: libtrain's only public header: trains a range of units of a model on one CPU. Users: the
 * agent's runtime and `paceline-agent train`. No network, no globals, no exit, no logging. After
 * train_stage_new nothing here allocates.
 *
 * Numbers (docs: the law). Everything is float32, NHWC, plain; sums run in a fixed order; work is
 * cut into slabs whose borders depend on shape alone and threads only pick slabs, so results do not
 * depend on the number of threads, nor on which stage a unit is in. Gradients are divided by the
 * batch size (micro_batch * micro_batches). Loss: softmax cross-entropy with the model's label
 * smoothing, in evaluations too; of a model with labels at several positions, the loss of a sample
 * is the mean over its positions.
 *
 * Running statistics of batch-norm move with each forward of a step and become the state with its
 * update; what backward computes again moves them no more.
 *
 * A frozen unit (model.h) computes in training as in evaluation: running statistics, no dropout.
 * Its state does not change, it has no optimizer state and its gradients count as 0; backward goes
 * through it to units before it that are trained.
 *
 * Threads: a stage is used by one thread at a time (the compute thread); it fans out over its pool
 * inside a call. */
#ifndef LIBTRAIN_TRAIN_H
#define LIBTRAIN_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "libtrain/memory/memory.h"
#include "libtrain/model/model.h"
#include "libtrain/model/recipe.h"
#include "libtrain/state/state.h"

/* ---- numeric class ---- */

#define TRAIN_NUMERIC_CLASS_MAX 128
/* What decides bits on this machine: libtrain version, backend and its version and core, vector
 * ISA, denormal mode; equal text, equal bits. */
void train_numeric_class(char out[TRAIN_NUMERIC_CLASS_MAX]);
/* What this build computes convolutions with beside our own kernels. */
enum conv2d_backend train_backend(void);

/* ---- compute threads ---- */

struct train_pool;
/* `threads` counts the caller: threads - 1 workers are started, with all signals blocked. They
 * flush denormals to zero; a call into libtrain sets that mode on the calling thread, too, and
 * restores the earlier one before it returns. ERR_INVALID outside [1, MEMORY_THREADS_MAX];
 * ERR_MEMORY. */
NODISCARD int train_pool_new(size_t threads, struct train_pool **out, struct err *err);
void train_pool_free(struct train_pool **pool);

/* ---- probe: the first guess of a device's speed; takes about `seconds` (and at least a few
 * rounds), frees what it used; OpenBLAS keeps its packing buffers, so a small process probes in a
 * child. The one place here that reads a clock of its own. ---- */

struct train_probe {
    double gemm_gflops;             /* sgemm 384^3, all threads of the pool */
    double memory_bytes_per_second; /* triad over 32 MiB */
};
NODISCARD int train_probe(struct train_pool *pool, double seconds, struct train_probe *out,
                          struct err *err);

/* ---- tuning: which kernels are the fastest here. A choice by time is made once for a job and then
 * part of its model (model/kernel_table.h): timing is not reproducible. ---- */

struct train_tuner;
/* Remembers what it measured, by shape and number of threads. One thread. */
NODISCARD int train_tuner_new(struct train_tuner **out, struct err *err);
void train_tuner_free(struct train_tuner **tuner);

struct train_tuning {
    size_t first, end; /* units */
    size_t micro_batch;
    struct train_pool *pool;
    double (*seconds)(void *arg); /* the clock */
    void *arg;
    double budget_seconds; /* passes that are not measured by then are left to the shape */
};
/* Name a kernel for every pass of the units' convolutions that has none: the fastest one that this
 * build has for every CPU, that of train_backend by shape unless another one is clearly faster.
 * Takes memory for one convolution at a time and frees it. ERR_MEMORY. */
NODISCARD int train_tune(struct train_tuner *tuner, struct model *model,
                         const struct train_tuning *tuning, struct err *err);

/* ---- a stage ---- */

struct train_stage;

struct train_stage_config {
    const struct model *model; /* borrowed for the life of the stage */
    size_t first, end;         /* units [first, end) */
    size_t micro_batch; /* samples of a micro-batch; also the most samples of one evaluation call */
    size_t micro_batches;     /* of a step */
    size_t in_flight;         /* activation slots; 0: a stage that only evaluates */
    enum recompute recompute; /* what a slot keeps: changes no result, only memory and time */
    struct optimizer optimizer;
    uint64_t seed;           /* initial weights, dropout */
    struct train_pool *pool; /* borrowed */
};

/* Allocate all arenas (memory_of_stage, of train_backend; without slots where none is in flight).
 * Convolutions take the kernels that the model names, and those of the backend by shape where it
 * names none, or one of oneDNN's in a build without it. ERR_INVALID also for a kernel that this CPU
 * does not have. The state is undefined until each unit was initialised or loaded. */
NODISCARD int train_stage_new(const struct train_stage_config *config, struct train_stage **out,
                              struct err *err);
void train_stage_free(struct train_stage **stage);

/* Units: by index in the model, within [first, end). */

/* Set a unit's state to version 0 and forget its gradients. Weights of convolutions and linear
 * layers are uniform in
 * [-b, b), b = sqrt(6 / fan_in) (He), each element a function of (seed, unit, parameter of the
 * unit, element in PyTorch's order); biases 0; batch-norm and layer-norm weight 1, bias 0, running
 * mean 0, running variance 1; optimizer state 0. Weights of embeddings and positions are uniform in
 * [-sqrt(3), sqrt(3)): variance 1, as PyTorch's nn.Embedding. */
void train_unit_initialise(struct train_stage *stage, size_t unit);
/* Read a snapshot blob (state.h, at any address) and forget the unit's gradients. ERR_FORMAT when
 * its size or header is not exactly that of this unit's layout; the old state is kept then. */
NODISCARD int train_unit_load(struct train_stage *stage, size_t unit, const void *blob, size_t size,
                              struct err *err);
/* Write a snapshot blob of train_unit_bytes bytes: the state as of the last update, in the middle
 * of a step too. `out` is aligned to 4. */
size_t train_unit_bytes(const struct train_stage *stage, size_t unit);
void train_unit_save(const struct train_stage *stage, size_t unit, void *out);
/* Give the part of that blob that an exported model holds (state.h) to `write`, tensor after
 * tensor, and forget the unit's gradients, whose memory turns the layouts. Whatever `write`
 * returned. */
typedef int (*train_write_fn)(void *arg, const void *data, size_t size, struct err *err);
NODISCARD int train_unit_export(struct train_stage *stage, size_t unit, train_write_fn write,
                                void *arg, struct err *err);

/* Which micro-batch: dropout's draws depend on it. */
struct train_position {
    int64_t step;       /* from 1 */
    size_t micro_batch; /* from 0 */
};

/* Forward of one micro-batch in slot `slot` (< in_flight).
 * input    stage 0: micro_batch stored samples (model's input dtype); else float32 [micro_batch,
 * in]. Must stay valid and unchanged until this slot's backward returns. output   float32
 * [micro_batch, out]; NULL on the last stage. labels [micro_batch][positions], last stage only,
 * else NULL. A label >= classes is ERR_INVALID, as is a token that an embedding has no row for.
 * loss_sum last stage: sum of the losses of the micro-batch in sample order (not divided); else
 * NULL. ERR_DIVERGED when it is not finite. */
NODISCARD int train_forward(struct train_stage *stage, size_t slot, struct train_position position,
                            const void *input, float *output, const int32_t *labels,
                            double *loss_sum, struct err *err);

/* Backward of the micro-batch in `slot`; micro-batches of a step in order. Parameter gradients
 * accumulate. output_gradient  float32 [micro_batch, out]; NULL on the last stage. input_gradient
 * overwritten, float32 [micro_batch, in]; NULL on stage 0. 0 where no unit before the stage is
 * trained: then nothing was computed for it. */
void train_backward(struct train_stage *stage, size_t slot, const float *output_gradient,
                    float *input_gradient);

/* With an optimizer that has a clip_norm, between the last backward of a step and its update: the
 * sum of squares of the gradients of the stage's units and of `behind`, the sum of the stages
 * behind it (last stage: 0). In double, unit by unit from the model's last one to its first, so
 * that stage 0 comes to the same sum wherever the model is cut. ERR_DIVERGED when a gradient is not
 * finite, ERR_INVALID when `behind` is no such sum. */
NODISCARD int train_sum_squares(struct train_stage *stage, double behind, double *out,
                                struct err *err);
/* Then, once: `squares` is the sum of stage 0. Where its root, the norm of all gradients of the
 * model, exceeds clip_norm, those of the stage are shortened in proportion. ERR_INVALID when
 * `squares` is no such sum. */
NODISCARD int train_clip(struct train_stage *stage, double squares, struct err *err);
/* One optimizer step, the job's `step` (from 1: adam's bias correction follows from it), with the
 * accumulated gradients, cut to the optimizer's clip_value; they are zeroed. ERR_DIVERGED when one
 * is not finite: then no parameter changed. */
NODISCARD int train_update(struct train_stage *stage, int64_t step, double learning_rate,
                           struct err *err);
/* Forget a half step: its gradients, and what its forwards did to running statistics. */
void train_discard(struct train_stage *stage);

/* Forward of `count` <= micro_batch samples with running statistics and without dropout; reads the
 * state, never writes it; needs no slot. Last stage: labels in; adds to *loss_sum (in sample order)
 * and to *correct, which counts labels: micro_batch * positions of them at most. There `output`
 * takes the scores, float32 [count][positions][classes], or is NULL; with it labels may be NULL,
 * and nothing is added. */
NODISCARD int train_evaluate(struct train_stage *stage, size_t count, const void *input,
                             float *output, const int32_t *labels, double *loss_sum,
                             uint64_t *correct, struct err *err);

/* ---- data ---- */

/* Which samples make which batch: a permutation per epoch keyed by (seed, epoch). One thread. */
struct train_sampler;
/* samples >= batch >= 1. Allocates the permutation of one epoch. */
NODISCARD int train_sampler_new(uint64_t samples, size_t batch, uint64_t seed,
                                struct train_sampler **out, struct err *err);
void train_sampler_free(struct train_sampler **sampler);
/* floor(samples / batch): the last partial batch is dropped. */
int64_t train_steps_per_epoch(uint64_t samples, size_t batch);
/* The batch's sample indices [batch] for `step` (from 1, global); borrowed until the next call. */
const uint32_t *train_sampler_batch(struct train_sampler *sampler, int64_t step);

/* Where stage 0's samples come from, and what happens to them while a batch is loaded. Plain data.
 */
struct train_loader {
    const unsigned char
        *inputs;        /* stored samples one behind the other, of any alignment; borrowed */
    struct shape shape; /* of one sample */
    size_t element_bytes;
    size_t padding; /* crop: rows and columns of zeros around a sample; 0: not cropped */
    bool flip;
    uint64_t seed;
};
struct train_loader train_loader_of(const struct model *model, const struct augment *augment,
                                    size_t augment_count, uint64_t seed,
                                    const unsigned char *inputs);
/* Load the samples `sample`[count], which are at the positions [first, first + count) of the batch
 * of `step`, as stored: each cropped and flipped by draws that are a function of (seed, step,
 * position) alone. */
void train_load(const struct train_loader *loader, int64_t step, size_t first, size_t count,
                const uint32_t *sample, void *out);

#endif
