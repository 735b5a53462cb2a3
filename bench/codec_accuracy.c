/* The accuracy of resnet8 on CIFAR-10 with codecs at two stage boundaries, by paired seeds
 *
 *   codec_accuracy TRAIN TEST [IMAGES [EPOCHS [SEEDS]]]
 *
 * TRAIN and TEST: files of CIFAR-10's binary format. One process runs three stages in the
 * synchronous schedule. Equal seeds give equal weights and batches at the start, so a row's
 * difference to float32 is that of the codec and of chance. Rows appear as they are finished. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/cuts/cuts.h"

#define BATCH 64
#define MICRO_BATCHES 2

static const struct variant {
    enum codec activation, gradient;
} variants[] = {{CODEC_NONE, CODEC_NONE}, {CODEC_Q8, CODEC_Q8}, {CODEC_Q4, CODEC_Q4}};
#define VARIANTS (sizeof(variants) / sizeof(variants[0]))
#define SEEDS_MAX 20

static double result[SEEDS_MAX][VARIANTS];

static int run(const struct variant *variant, const struct cuts_images *train,
               const struct cuts_images *test, int64_t steps, uint64_t seed, double *accuracy,
               struct err *err)
{
    const struct cuts_config config = {.activation = variant->activation,
                                       .gradient = variant->gradient,
                                       .seed = seed,
                                       .batch = BATCH,
                                       .micro_batches = MICRO_BATCHES,
                                       .steps = steps};
    struct cuts *cuts = NULL;
    double loss = 0;
    int rc = cuts_new(&config, &cuts, err);
    if (rc) {
        return rc;
    }
    rc = cuts_train(cuts, train, steps, &loss, err);
    rc = rc ? rc : cuts_test(cuts, test, accuracy, err);
    cuts_free(&cuts);
    return rc;
}

static void print_json(size_t seeds, size_t images, int epochs)
{
    printf("{\"bench\": \"codec_accuracy\", \"rows\": [");
    for (size_t i = 0; i < seeds * VARIANTS; i++) {
        const struct variant *variant = &variants[i % VARIANTS];
        printf("%s{\"seed\": %zu, \"activation\": \"%s\", \"gradient\": \"%s\", \"images\": %zu, "
               "\"epochs\": %d, \"accuracy\": %.4f}",
               i ? ", " : "", i / VARIANTS + 1, codec_info(variant->activation)->name,
               codec_info(variant->gradient)->name, images, epochs,
               result[i / VARIANTS][i % VARIANTS]);
    }
    printf("]}\n");
}

int main(int argc, char **argv)
{
    struct cuts_images train = {0}, test = {0};
    struct err err = {0};
    const size_t images = argc > 3 ? strtoul(argv[3], NULL, 10) : 20000;
    const int epochs = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 3;
    const size_t seeds = argc > 5 ? strtoul(argv[5], NULL, 10) : 5;
    if (argc < 3 || argc > 6 || epochs < 1 || images < BATCH || seeds < 1 || seeds > SEEDS_MAX) {
        fprintf(stderr, "usage: codec_accuracy TRAIN TEST [IMAGES [EPOCHS [SEEDS]]]\n");
        return 2;
    }
    int rc = cuts_read(argv[1], images, &train, &err);
    rc = rc ? rc : cuts_read(argv[2], 10000, &test, &err);
    const int64_t steps = epochs * (int64_t)(train.count / BATCH);
    printf("| seed | activations | gradients | accuracy | float32 + |\n|--:|---|---|--:|--:|\n");
    for (size_t seed = 0; rc == 0 && seed < seeds; seed++) {
        for (size_t v = 0; rc == 0 && v < VARIANTS; v++) {
            rc = run(&variants[v], &train, &test, steps, seed + 1, &result[seed][v], &err);
            printf("| %zu | %s | %s | %.4f | %+.4f |\n", seed + 1,
                   codec_info(variants[v].activation)->name, codec_info(variants[v].gradient)->name,
                   result[seed][v], result[seed][v] - result[seed][0]);
            (void)fflush(stdout);
        }
    }
    if (rc) {
        fprintf(stderr, "codec_accuracy: %s\n", err.text);
        return 1;
    }
    print_json(seeds, train.count, epochs);
    cuts_images_free(&train);
    cuts_images_free(&test);
    return 0;
}
