/* holdout.h: selects the samples of a device's own data that are held out of training, for
 * evaluations. Used by schema (a field of jobs), the coordinator (sizes), and the sampler
 * (samples). A sample's place within its class decides. So appended samples do not change the
 * choice among earlier ones: no trained sample is held out later. Pure; any thread. */
#ifndef LIBTRAIN_MODEL_HOLDOUT_H
#define LIBTRAIN_MODEL_HOLDOUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define HOLDOUT_SHARE_MAX 0.5
#define HOLDOUT_CLASSES_MAX 1024

struct holdout {
    double share; /* above 0, at most HOLDOUT_SHARE_MAX */
    uint64_t seed;
    size_t classes; /* classes with the same held-out share; 0: all data count as one class */
};

/* Return how many samples are held out: at least one of a data set.
 *
 *     count  [classes] samples of each class; without classes NULL
 *
 * Of n samples of a class floor(share * n + phase), where the phase, from 0 to below 1, is drawn
 * from (seed, class): in the mean exactly the share, and of two neighbours never both. */
uint64_t holdout_count(const struct holdout *holdout, const int64_t *count, uint64_t samples);

/* Split a data set. Sample k of a class, from 0 in the order of the data set, is held out if
 * floor(share * (k + 1) + phase) is above floor(share * k + phase). If that is true of no sample,
 * the first one of the data set is held out.
 *
 *     labels  of the samples, as stored: I32, little-endian, of any alignment, one a sample;
 *             without classes NULL
 *     own     out: [samples - holdout_count] indices, rising
 *     held    out: [holdout_count] indices, rising
 *
 * ERR_FORMAT: a label is not below `classes`. */
NODISCARD int holdout_split(const struct holdout *holdout, const unsigned char *labels,
                            uint64_t samples, uint32_t *own, uint32_t *held, struct err *err);
/* Count the samples of each class.
 *
 *     count  out: [classes]
 *
 * ERR_FORMAT as above. */
NODISCARD int holdout_classes(const struct holdout *holdout, const unsigned char *labels,
                              uint64_t samples, int64_t *count, struct err *err);

#endif
