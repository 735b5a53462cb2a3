/* samples.h: the samples of a job: selects those of a micro-batch, with their labels, in training
 * and in evaluations; and the result of an evaluation. For the first and the last stage, and for
 * jobs in one process (stage_loop.c, offline/staged.c). The micro-batches of an evaluation are
 * those of core/evaluations. One thread; nothing allocates after samples_new. */
#ifndef AGENT_RUNTIME_SAMPLES_H
#define AGENT_RUNTIME_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/runtime/tally.h"
#include "agent/runtime/work.h"
#include "base/err.h"
#include "libtrain/train.h"
#include "schema/job.h"

struct samples_config {
    const struct model *model; /* borrowed, as the next one */
    const struct job_spec *spec;
    struct job_data counts;
    struct work_data data; /* with the training labels if the job has a view or a hold-out */
    size_t micro_batch;
    bool last; /* evaluations end here */
};

struct samples;
/* ERR_FORMAT if a view of the data has other numbers of samples than `counts`; ERR_INVALID,
 * ERR_MEMORY. */
NODISCARD int samples_new(const struct samples_config *config, struct samples **out,
                          struct err *err);
void samples_free(struct samples **samples);

/* Copy `count` training samples from position `first` of the batch of `step`. */
void samples_inputs(struct samples *samples, int64_t step, size_t first, size_t count, void *out);
void samples_labels(struct samples *samples, int64_t step, size_t first, size_t count,
                    int32_t *out);

/* Note the losses of these samples, for a view whose epochs depend on them (train_sampler_note). */
void samples_note(struct samples *samples, int64_t step, size_t first, size_t count,
                  const double *loss);

/* Copy the inputs of micro-batch `index` of an evaluation. */
void samples_test_inputs(const struct samples *samples, size_t index, void *out);
/* Evaluate micro-batch `index` on the last stage: train_evaluate of its input. labels: scratch for
 * the labels of a micro-batch. part: out, [tally_numbers]. */
NODISCARD int samples_evaluate(struct samples *samples, struct train_stage *stage, size_t index,
                               const void *input, int32_t *labels, double *part, struct err *err);
/* Do the same and add the part to the tally. Micro-batch 0 begins an evaluation. */
NODISCARD int samples_evaluate_next(struct samples *samples, struct train_stage *stage,
                                    size_t index, const void *input, int32_t *labels,
                                    struct err *err);
/* Copy samples [first, first + count) of a sequence that the seed draws from all training samples.
 * They have no augmentation and are the same in all views. */
void samples_drawn(const struct samples *samples, size_t first, size_t count, void *inputs,
                   int32_t *labels);
/* Return the result of the evaluation, after its last micro-batch. Only where evaluations end. */
struct tally *samples_tally(const struct samples *samples);

#endif
