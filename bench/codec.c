/* Codecs on the activations and gradients of a training resnet8: size, speed of one core, error
 *
 *   codec [TRAIN]
 *
 * TRAIN: a file of CIFAR-10's binary format; without one, drawn images of its size. resnet8 trains
 * 200 steps of 64 samples in three stages without a codec; the last step's tensors are coded, each
 * 15 times in turns with the other codecs. Speeds are bytes of float32 a second; the median of the
 * runs in processor time, since others may use the core meanwhile, and spread: (third - first
 * quartile) / median of encoding. error: the root of the mean square of what is lost, over that of
 * the values. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/cuts/cuts.h"

#define STEPS 200
#define BATCH 64
#define IMAGES 10000
#define TENSORS_MAX 64
#define RUNS 15

struct tensor {
    enum coder_data data;
    float *x;
    size_t n;
};

struct row {
    enum codec codec;
    struct coder *coder;
    double encode[RUNS], decode[RUNS]; /* seconds of all tensors */
    double bytes, coded_bytes, lost, squares;
};

static struct tensor tensor[TENSORS_MAX];
static size_t tensors;
static bool keeps;

static void keep(void *arg, enum coder_data data, const float *x, size_t n)
{
    (void)arg;
    float *copy = keeps && tensors < TENSORS_MAX ? malloc(n * sizeof(*x)) : NULL;
    if (copy) {
        memcpy(copy, x, n * sizeof(*x));
        tensor[tensors++] = (struct tensor){data, copy, n};
    }
}

static int train(const char *path, struct err *err)
{
    const struct cuts_config config = {
        .seed = 1, .batch = BATCH, .micro_batches = 2, .steps = STEPS, .look = keep};
    struct cuts_images images = {0};
    struct cuts *cuts = NULL;
    double loss = 0;
    int rc = path ? cuts_read(path, IMAGES, &images, err) : cuts_draw(IMAGES, 1, &images, err);
    rc = rc ? rc : cuts_new(&config, &cuts, err);
    rc = rc ? rc : cuts_train(cuts, &images, STEPS - 1, &loss, err);
    keeps = true;
    rc = rc ? rc : cuts_train(cuts, &images, 1, &loss, err);
    if (cuts) {
        cuts_free(&cuts);
    }
    cuts_images_free(&images);
    fprintf(stderr, "loss %.3f after %d steps, %zu tensors\n", loss, STEPS, tensors);
    return rc;
}

static int run_once(struct row *row, float *back, size_t run, struct err *err)
{
    row->bytes = row->coded_bytes = row->lost = row->squares = 0;
    for (size_t t = 0; t < tensors; t++) {
        const struct tensor *one = &tensor[t];
        const double began = clock_thread_seconds();
        const size_t size = coder_encode(row->coder, one->data, one->x, one->n);
        const double coded = clock_thread_seconds();
        int rc = coder_decode(row->coder, size, back, one->n, err);
        row->decode[run] += clock_thread_seconds() - coded;
        row->encode[run] += coded - began;
        row->bytes += (double)(one->n * sizeof(float));
        row->coded_bytes += (double)size;
        for (size_t i = 0; rc == 0 && i < one->n; i++) {
            const double off = (double)back[i] - (double)one->x[i];
            row->lost += off * off;
            row->squares += (double)one->x[i] * (double)one->x[i];
        }
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static int measure(struct row *row, size_t rows, struct err *err)
{
    size_t most = 0;
    for (size_t t = 0; t < tensors; t++) {
        most = tensor[t].n > most ? tensor[t].n : most;
    }
    float *back = malloc(most * sizeof(*back));
    int rc = back ? 0 : err_set(err, ERR_MEMORY, "a tensor");
    for (size_t r = 0; rc == 0 && r < rows; r++) {
        rc = coder_new(row[r].codec, most, &row[r].coder, err);
        rc = rc ? rc : run_once(&row[r], back, 0, err); /* its memory is there now */
        row[r].encode[0] = row[r].decode[0] = 0;
    }
    for (size_t run = 0; rc == 0 && run < RUNS; run++) {
        for (size_t r = 0; rc == 0 && r < rows; r++) {
            rc = run_once(&row[r], back, run, err);
        }
    }
    for (size_t r = 0; r < rows; r++) {
        coder_free(&row[r].coder);
    }
    free(back);
    return rc;
}

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void print_rows(struct row *row, size_t rows)
{
    printf("| codec | ratio | encode GB/s | decode GB/s | error | spread |\n"
           "|---|--:|--:|--:|--:|--:|\n");
    for (size_t r = 0; r < rows; r++) {
        qsort(row[r].encode, RUNS, sizeof(double), compare);
        qsort(row[r].decode, RUNS, sizeof(double), compare);
        printf("| `%s` | %.2f | %.1f | %.1f | %.2g | %.2f |\n", codec_info(row[r].codec)->name,
               row[r].bytes / row[r].coded_bytes, row[r].bytes / row[r].encode[RUNS / 2] / 1e9,
               row[r].bytes / row[r].decode[RUNS / 2] / 1e9, sqrt(row[r].lost / row[r].squares),
               (row[r].encode[RUNS * 3 / 4] - row[r].encode[RUNS / 4]) / row[r].encode[RUNS / 2]);
    }
    printf("{\"bench\": \"codec\", \"rows\": [");
    for (size_t r = 0; r < rows; r++) {
        printf("%s{\"codec\": \"%s\", \"bytes_ratio\": %.3f, \"encode_bytes_per_second\": %.4g, "
               "\"decode_bytes_per_second\": %.4g, \"error\": %.4g, \"runs\": %d, "
               "\"spread\": %.3f}",
               r ? ", " : "", codec_info(row[r].codec)->name, row[r].bytes / row[r].coded_bytes,
               row[r].bytes / row[r].encode[RUNS / 2], row[r].bytes / row[r].decode[RUNS / 2],
               sqrt(row[r].lost / row[r].squares), RUNS,
               (row[r].encode[RUNS * 3 / 4] - row[r].encode[RUNS / 4]) / row[r].encode[RUNS / 2]);
    }
    printf("]}\n");
}

int main(int argc, char **argv)
{
    static struct row row[CODECS];
    struct err err = {0};
    size_t rows = 0;
    if (argc > 2) {
        fprintf(stderr, "usage: codec [TRAIN]\n");
        return 2;
    }
    for (enum codec codec = CODEC_BFLOAT16; codec < CODECS; codec++) {
        if (codec_available(codec)) {
            row[rows++].codec = codec;
        }
    }
    int rc = train(argc > 1 ? argv[1] : NULL, &err);
    rc = rc ? rc : measure(row, rows, &err);
    if (rc) {
        fprintf(stderr, "codec: %s\n", err.text);
        return 1;
    }
    print_rows(row, rows);
    for (size_t t = 0; t < tensors; t++) {
        free(tensor[t].x);
    }
    return 0;
}
