#include "tests/sim/mix_digest.h"

#include <string.h>

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

void mix_digest_move(struct digest_stage *stage, const struct mix_state *own,
                     const struct mix_state *peer, const struct mix_share *share)
{
    const uint64_t name = digest_mix((uint64_t)share->xid.life, (uint64_t)share->xid.counter);
    const uint64_t alphas = digest_mix(bits_of(share->alpha), bits_of(share->statistics_alpha));
    for (size_t u = stage->first; u < stage->end; u++) {
        const uint64_t towards = digest_mix(own->unit[u], peer->unit[u]);
        const uint64_t moved =
            digest_mix(digest_mix(stage->state[u], towards), digest_mix(alphas, name));
        stage->state[u] = stage->still[u] ? stage->state[u] : moved;
    }
}

void mix_digest_add(struct mix_state *average, const struct mix_state *copy, double weight)
{
    for (size_t u = 0; u < DIGEST_UNITS_MAX; u++) {
        average->unit[u] = digest_mix(average->unit[u], digest_mix(copy->unit[u], bits_of(weight)));
    }
}

uint64_t mix_digest_file(const struct mix_state *average, size_t units)
{
    return digest_model(average->unit, units);
}

void mix_digest_update(struct digest_stage *stage, int64_t step, int64_t rate_step, uint64_t total)
{
    digest_update(stage, step, total);
    for (size_t u = stage->first; u < stage->end; u++) {
        stage->state[u] =
            stage->still[u] ? stage->state[u] : digest_mix(stage->state[u], (uint64_t)rate_step);
    }
}
