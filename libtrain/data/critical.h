/* critical.h: chooses the samples of epochs that are shorter than their shard (view.h, "window"). A
 * part of each epoch are the samples with the largest losses at their last use; the rest follow in
 * turn. Our own derivation of "critical samples". Samples are numbered within the shard.
 * Deterministic: the choice depends only on the seed, the epoch and the noted losses. For
 * sampler.c. One thread; nothing allocates after critical_new. */
#ifndef LIBTRAIN_DATA_CRITICAL_H
#define LIBTRAIN_DATA_CRITICAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct critical;
/* Create the choice, without known losses. share: the part of an epoch that is chosen by losses, 0
 * to 1; window: samples of an epoch, 1 to `samples`. ERR_MEMORY. */
NODISCARD int critical_new(size_t samples, size_t window, double share, uint64_t seed,
                           struct critical **out, struct err *err);
void critical_free(struct critical **critical);
/* Note the loss of a sample at its last use. */
void critical_note(struct critical *critical, uint32_t sample, double loss);
/* Choose the samples [window] of an epoch; their order has no meaning. First floor(share * window)
 * samples with the largest losses (among equal losses the first samples; fewer if fewer losses are
 * known), then other samples in turn. The first chosen epoch begins in turn as if all earlier
 * epochs had been chosen with all losses known. */
void critical_choose(struct critical *critical, int64_t epoch, uint32_t *out);

#endif
