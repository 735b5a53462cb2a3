#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/rng.h"
#include "base/size.h"
#include "libtrain/train.h"

struct train_sampler {
    uint64_t seed;
    size_t batch;
    uint32_t samples;
    int64_t steps_per_epoch;
    int64_t epoch;    /* of `order`; -1: none yet */
    uint32_t order[]; /* [samples] */
};

int64_t train_steps_per_epoch(uint64_t samples, size_t batch)
{
    return (int64_t)(samples / batch);
}

int train_sampler_new(uint64_t samples, size_t batch, uint64_t seed, struct train_sampler **out,
                      struct err *err)
{
    if (batch < 1 || samples < batch) {
        return err_set(err, ERR_INVALID,
                       "batch of %zu samples: expected 1 to the data set's %" PRIu64, batch,
                       samples);
    }
    if (samples > UINT32_MAX) {
        return err_set(err, ERR_LIMIT, "%" PRIu64 " samples: at most %u", samples, UINT32_MAX);
    }
    size_t bytes = 0;
    bool fits = size_multiply((size_t)samples, sizeof(uint32_t), &bytes) &&
                size_add(bytes, sizeof(struct train_sampler), &bytes);
    struct train_sampler *sampler = fits ? malloc(bytes) : NULL;
    if (!sampler) {
        return err_set(err, ERR_MEMORY, "out of memory for the order of %" PRIu64 " samples",
                       samples);
    }
    sampler->seed = seed;
    sampler->batch = batch;
    sampler->samples = (uint32_t)samples;
    sampler->steps_per_epoch = train_steps_per_epoch(samples, batch);
    sampler->epoch = -1;
    *out = sampler;
    return 0;
}

void train_sampler_free(struct train_sampler **sampler)
{
    free(*sampler);
    *sampler = NULL;
}

/* Fisher-Yates, from the last position down. */
static void shuffle(struct train_sampler *sampler, int64_t epoch)
{
    struct rng_stream stream = rng_stream(sampler->seed, RNG_SHUFFLE, (uint64_t)epoch, 0);
    for (uint32_t i = 0; i < sampler->samples; i++) {
        sampler->order[i] = i;
    }
    for (uint32_t i = sampler->samples - 1; i > 0; i--) {
        uint32_t other = (uint32_t)rng_below(&stream, i, (uint64_t)i + 1);
        uint32_t swap = sampler->order[i];
        sampler->order[i] = sampler->order[other];
        sampler->order[other] = swap;
    }
    sampler->epoch = epoch;
}

const uint32_t *train_sampler_batch(struct train_sampler *sampler, int64_t step)
{
    ASSERT(step >= 1);
    int64_t epoch = (step - 1) / sampler->steps_per_epoch;
    if (epoch != sampler->epoch) {
        shuffle(sampler, epoch);
    }
    return sampler->order + (size_t)((step - 1) % sampler->steps_per_epoch) * sampler->batch;
}
