/* cuts.h: trains resnet8 on images of CIFAR-10's size in one process, in three stages whose tensors
 * pass through the codec of a link, as between agents in the synchronous schedule. For bench/codec
 * and bench/codec_accuracy. One thread. */
#ifndef BENCH_CUTS_CUTS_H
#define BENCH_CUTS_CUTS_H

#include "base/err.h"
#include "libtrain/quant/coder.h"

#define CUTS_CLASSES 10

/* Images as the model reads them: [count][32][32][3], labels [count]. */
struct cuts_images {
    unsigned char *input;
    int32_t *label;
    size_t count;
};
/* The first `most` records of a file of CIFAR-10's binary format. */
NODISCARD int cuts_read(const char *path, size_t most, struct cuts_images *out, struct err *err);
/* Noise with a pattern for each class, by seed. */
NODISCARD int cuts_draw(size_t count, uint64_t seed, struct cuts_images *out, struct err *err);
void cuts_images_free(struct cuts_images *images);

struct cuts;

struct cuts_config {
    enum codec activation, gradient; /* at both stage boundaries */
    uint64_t seed;
    size_t batch, micro_batches;
    int64_t steps; /* of the whole run: the rate falls to 0 by a cosine */
    /* Called with each tensor before it is coded; NULL: nobody looks. */
    void (*look)(void *arg, enum coder_data data, const float *x, size_t n);
    void *arg;
};

NODISCARD int cuts_new(const struct cuts_config *config, struct cuts **out, struct err *err);
void cuts_free(struct cuts **cuts);
/* Train up to `steps` further steps. loss: out, of the last one. */
NODISCARD int cuts_train(struct cuts *cuts, const struct cuts_images *images, int64_t steps,
                         double *loss, struct err *err);
/* The share of images that are classified right. */
NODISCARD int cuts_test(struct cuts *cuts, const struct cuts_images *images, double *accuracy,
                        struct err *err);

#endif
