#include "coordinator/core/gossip/gossip_life.h"

#include "base/rng.h"

int64_t gossip_life_after(uint64_t core_seed, int64_t last)
{
    const struct rng_stream stream = rng_stream(core_seed, RNG_LIFE, (uint64_t)last, 0);
    return last + 1 + (int64_t)rng_below(&stream, 0, LIVES_SKIPPED_MAX);
}
