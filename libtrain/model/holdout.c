#include "libtrain/model/holdout.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"

#define ONE 4294967296.0 /* shares are multiples of 2^-32: the same on every machine */

/* Return how many of the first n samples of a class are held out. n: below 2^32. The product does
 * not overflow, because a share is at most a half. */
static uint64_t held_of(const struct holdout *holdout, size_t class, uint64_t n)
{
    const struct rng_stream stream = rng_stream(holdout->seed, RNG_HOLDOUT, class, 1);
    const uint64_t share = (uint64_t)(holdout->share * ONE);
    return (share * n + rng_word(&stream, 0)) >> 32;
}

static uint64_t held_by_phase(const struct holdout *holdout, const int64_t *count, uint64_t samples)
{
    uint64_t held = holdout->classes == 0 ? held_of(holdout, 0, samples) : 0;
    for (size_t class = 0; class < holdout->classes; class ++) {
        held += held_of(holdout, class, (uint64_t)count[class]);
    }
    return held;
}

uint64_t holdout_count(const struct holdout *holdout, const int64_t *count, uint64_t samples)
{
    const uint64_t held = held_by_phase(holdout, count, samples);
    return held > 0 || samples == 0 ? held : 1;
}

/* The class of a sample. */
static int read_class(const struct holdout *holdout, const unsigned char *labels, uint64_t sample,
                      size_t *out, struct err *err)
{
    int32_t class;
    if (holdout->classes == 0) {
        *out = 0;
        return 0;
    }
    memcpy(&class, labels + sample * sizeof(class), sizeof(class));
    if (class < 0 || (size_t) class >= holdout->classes) {
        return err_set(err, ERR_FORMAT,
                       "sample %" PRIu64 " is of class %" PRId32 "; samples of %zu classes are "
                       "held out",
                       sample, class, holdout->classes);
    }
    *out = (size_t) class;
    return 0;
}

int holdout_classes(const struct holdout *holdout, const unsigned char *labels, uint64_t samples,
                    int64_t *count, struct err *err)
{
    int rc = 0;
    memset(count, 0, holdout->classes * sizeof(*count));
    for (uint64_t i = 0; rc == 0 && holdout->classes > 0 && i < samples; i++) {
        size_t class = 0;
        rc = read_class(holdout, labels, i, &class, err);
        if (rc == 0) {
            count[class]++;
        }
    }
    return rc;
}

int holdout_split(const struct holdout *holdout, const unsigned char *labels, uint64_t samples,
                  uint32_t *own, uint32_t *held, struct err *err)
{
    int64_t count[HOLDOUT_CLASSES_MAX];
    uint64_t before[HOLDOUT_CLASSES_MAX] = {0};
    size_t own_count = 0, held_count = 0;
    ASSERT(holdout->classes <= HOLDOUT_CLASSES_MAX && samples <= UINT32_MAX);
    int rc = holdout_classes(holdout, labels, samples, count, err);
    const bool only_first = rc == 0 && held_by_phase(holdout, count, samples) == 0;
    for (uint64_t i = 0; rc == 0 && i < samples; i++) {
        size_t class = 0;
        rc = read_class(holdout, labels, i, &class, err);
        if (rc != 0) {
            break;
        }
        const uint64_t place = before[class]++;
        if (only_first ? i == 0
                       : held_of(holdout, class, place + 1) > held_of(holdout, class, place)) {
            held[held_count++] = (uint32_t)i;
        } else {
            own[own_count++] = (uint32_t)i;
        }
    }
    return rc;
}
