#include "libtrain/data/critical.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

struct loss {
    double loss; /* NAN: not known */
    uint32_t sample;
};

struct critical {
    size_t samples, window, most; /* most: limit of samples per epoch that are chosen by loss */
    double *loss;                 /* [samples]; NAN: not known */
    struct loss *known;           /* [samples] scratch */
    bool *chosen;                 /* [samples] scratch */
    uint32_t *turn; /* [samples] the order in which samples fill the rest of a window */
    size_t next;    /* the next position in turn */
    bool begun;
};

int critical_new(size_t samples, size_t window, double share, uint64_t seed, struct critical **out,
                 struct err *err)
{
    struct critical *critical AUTO(critical_free) = calloc(1, sizeof(*critical));
    const struct rng_stream stream = rng_stream(seed, RNG_TURN, 0, 0);
    if (critical) {
        critical->loss = calloc(samples, sizeof(*critical->loss));
        critical->known = calloc(samples, sizeof(*critical->known));
        critical->chosen = calloc(samples, sizeof(*critical->chosen));
        critical->turn = calloc(samples, sizeof(*critical->turn));
    }
    if (!critical || !critical->loss || !critical->known || !critical->chosen || !critical->turn) {
        return err_set(err, ERR_MEMORY, "out of memory for the losses of %zu samples", samples);
    }
    critical->samples = samples;
    critical->window = window;
    critical->most = (size_t)(share * (double)window);
    for (size_t i = 0; i < samples; i++) {
        critical->loss[i] = NAN;
        critical->turn[i] = (uint32_t)i;
    }
    rng_shuffle(&stream, critical->turn, samples);
    *out = critical;
    critical = NULL;
    return 0;
}

void critical_free(struct critical **critical)
{
    if (*critical) {
        free((*critical)->loss);
        free((*critical)->known);
        free((*critical)->chosen);
        free((*critical)->turn);
    }
    free(*critical);
    *critical = NULL;
}

void critical_note(struct critical *critical, uint32_t sample, double loss)
{
    critical->loss[sample] = loss;
}

static int compare(const void *left, const void *right)
{
    const struct loss *a = left, *b = right;
    if (a->loss != b->loss) {
        return a->loss > b->loss ? -1 : 1;
    }
    return (a->sample > b->sample) - (a->sample < b->sample);
}

/* Write the samples with the largest losses. Return their number. */
static size_t choose_largest(struct critical *critical, uint32_t *out)
{
    size_t known = 0;
    for (size_t i = 0; i < critical->samples && critical->most > 0; i++) {
        if (!isnan(critical->loss[i])) {
            critical->known[known++] = (struct loss){critical->loss[i], (uint32_t)i};
        }
    }
    qsort(critical->known, known, sizeof(critical->known[0]), compare);
    const size_t count = known < critical->most ? known : critical->most;
    for (size_t i = 0; i < count; i++) {
        out[i] = critical->known[i].sample;
    }
    return count;
}

void critical_choose(struct critical *critical, int64_t epoch, uint32_t *out)
{
    if (!critical->begun) {
        const uint64_t each = critical->window - critical->most;
        critical->next = (size_t)((uint64_t)epoch * each % critical->samples);
        critical->begun = true;
    }
    size_t count = choose_largest(critical, out);
    memset(critical->chosen, 0, critical->samples * sizeof(critical->chosen[0]));
    for (size_t i = 0; i < count; i++) {
        critical->chosen[out[i]] = true;
    }
    while (count < critical->window) {
        const uint32_t sample = critical->turn[critical->next];
        critical->next = (critical->next + 1) % critical->samples;
        if (!critical->chosen[sample]) {
            out[count++] = sample;
        }
    }
}
