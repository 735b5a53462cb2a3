/* critical.h: the epochs of a shard that are shorter than the shard (view.h, "window"): a part of
 * each are the samples whose loss was largest when they were last used, the rest follow in turn.
 * Our own derivation of "critical samples". Samples are numbered within the shard. Deterministic:
 * what is chosen follows from the seed, the epoch and the losses noted. For sampler.c. One thread;
 * nothing allocates after critical_new. */
#ifndef LIBTRAIN_DATA_CRITICAL_H
#define LIBTRAIN_DATA_CRITICAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct critical;
/* share: of an epoch, 0 to 1, that is chosen by losses; window: samples of an epoch, 1 to
 * `samples`. No loss is known. ERR_MEMORY. */
NODISCARD int critical_new(size_t samples, size_t window, double share, uint64_t seed,
                           struct critical **out, struct err *err);
void critical_free(struct critical **critical);
/* The loss of a sample when it was last used. */
void critical_note(struct critical *critical, uint32_t sample, double loss);
/* Choose the samples [window] of an epoch, in an order of no meaning: floor(share * window) of the
 * largest losses, of equal ones the first, fewer if not so many are known; then those in turn that
 * are not among them. The first epoch that is asked for begins in turn where it would if all
 * earlier epochs had been asked for and all losses known. */
void critical_choose(struct critical *critical, int64_t epoch, uint32_t *out);

#endif
