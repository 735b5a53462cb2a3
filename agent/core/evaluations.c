#include "agent/core/evaluations.h"

#include "base/assert.h"

static size_t batches_of(int64_t samples, size_t micro_batch)
{
    return ((size_t)samples + micro_batch - 1) / micro_batch;
}

size_t evaluations_batches(const struct job_spec *spec, const struct job_data *data,
                           size_t micro_batch)
{
    return spec->evaluate_every_epochs > 0 ? batches_of(data->test_samples, micro_batch) +
                                                 batches_of(data->holdout_samples, micro_batch)
                                           : 0;
}

struct evaluations_part evaluations_part(const struct job_data *data, size_t micro_batch,
                                         size_t index)
{
    const size_t tests = batches_of(data->test_samples, micro_batch);
    const bool held = index >= tests;
    const size_t samples = (size_t)(held ? data->holdout_samples : data->test_samples);
    const size_t first = (held ? index - tests : index) * micro_batch;
    ASSERT(first < samples);
    const size_t left = samples - first;
    return (struct evaluations_part){held, first, left < micro_batch ? left : micro_batch};
}
