/* Segments of a parameter server's transfers: seconds of the solver, and what they save
 *
 *   segments
 *
 * First table: processor time of one segments_solve, the median of many. Second table: models of
 * the zoo whose layers take time in proportion to their operations, backward twice as long as
 * forward, one server, links of equal speed both ways. A/C is the time of the transfers of one
 * direction over that of the forward pass. Each column is the change of the step time (pull,
 * forward, backward, push) by the optimal segments against another way; `stream` and `window`
 * overlap requests and are not bound by the optimum. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "bench/segments/ways.h"
#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "libtrain/model/layers.h"

#define SOLVES 2000
#define LAYERS_MAX 1000

static const size_t sizes[] = {58, 156, 1000};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static const struct setting {
    const char *model;
    double link_mbit, request_ms, transfer_over_compute;
} settings[] = {
    {"mobilenetv2", 100, 2, 2.3}, {"mobilenetv2", 100, 10, 2.3}, {"mobilenetv2", 100, 40, 2.3},
    {"mobilenetv2", 30, 10, 7.6}, {"resnet18", 100, 10, 3.6},    {"resnet8", 100, 10, 0.6},
    {"vgg11-bn", 100, 10, 11},
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

struct layers {
    size_t count;
    double bytes[LAYERS_MAX], forward[LAYERS_MAX], backward[LAYERS_MAX];
    size_t server[LAYERS_MAX];
};

static struct segments_scratch *scratch;

static int compare(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(double), compare);
    return values[count / 2];
}

/* ---- the solver ---- */

static double solver_us(size_t count)
{
    static double seconds[SOLVES];
    static struct layers layers;
    const struct rng_stream random = rng_stream(count, RNG_SIMULATION, 0, 0);
    const struct segments_link link = {.request_seconds = 0.01, .bytes_per_second = 12.5e6};
    for (size_t j = 0; j < count; j++) {
        layers.bytes[j] = 4e7 / (double)count * exp(2 * (rng_uniform(&random, 2 * j) - 0.5));
        layers.backward[j] = 2.0 / (double)count * exp(2 * (rng_uniform(&random, 2 * j + 1) - 0.5));
    }
    const struct segments_problem problem = {.count = count,
                                             .bytes = layers.bytes,
                                             .seconds = layers.backward,
                                             .server = layers.server,
                                             .link = &link};
    for (size_t i = 0; i < SOLVES; i++) {
        size_t end[LAYERS_MAX], segments;
        const double began = clock_thread_seconds();
        (void)segments_solve(&problem, scratch, end, &segments);
        seconds[i] = clock_thread_seconds() - began;
    }
    return 1e6 * median(seconds, SOLVES);
}

/* ---- the zoo ---- */

static double operations(const struct op *op)
{
    const double out = (double)op->out.h * op->out.w * op->out.c;
    const double taps = op->type == OP_CONV2D
                            ? (double)op->kernel.h * op->kernel.w * op->in.c / op->groups
                        : op->type == OP_LINEAR ? (double)op->in.h * op->in.w * op->in.c
                                                : 1;
    return 2 * taps * out;
}

/* With operations in place of seconds. */
static void read_layers(const struct model *model, struct layers *out)
{
    memset(out, 0, sizeof(*out));
    for (size_t u = 0; u < model->unit_count; u++) {
        for (size_t k = 0; k < model->unit[u].op_count; k++) {
            const struct op *op = &model->unit[u].op[k];
            double bytes = 0;
            for (size_t t = 0; t < op->tensor_count; t++) {
                const bool trained = op->tensor[t].role == TENSOR_PARAMETER;
                bytes += trained ? (double)op->tensor[t].elements * sizeof(float) : 0;
            }
            out->count += layers_begins(&model->unit[u], k);
            const size_t layer = out->count > 0 ? out->count - 1 : 0;
            out->bytes[layer] += bytes;
            out->forward[layer] += operations(op);
        }
    }
}

static int load(const char *name, struct layers *out, struct err *err)
{
    const char *text = zoo_text(name);
    const struct model_fit fit = {
        .input = {32, 32, 3}, .dtype = DTYPE_U8, .classes = 10, .positions = 1};
    json_auto_t *value = NULL;
    struct model *model = NULL;
    int rc = text ? json_parse(text, strlen(text), &value, err)
                  : err_set(err, ERR_NOT_FOUND, "no model '%s'", name);
    rc = rc ? rc : description_parse(value, &fit, &model, NULL, err);
    if (rc == 0) {
        read_layers(model, out);
    }
    model_free(&model);
    return rc;
}

/* Let all transfers of one direction take `ratio` of the forward pass. */
static void scale(struct layers *layers, const struct segments_link *link, double ratio)
{
    double bytes = 0, work = 0;
    for (size_t j = 0; j < layers->count; j++) {
        bytes += layers->bytes[j];
        work += layers->forward[j];
    }
    const double seconds = bytes / link->bytes_per_second / ratio;
    for (size_t j = 0; j < layers->count; j++) {
        layers->forward[j] *= seconds / work;
        layers->backward[j] = 2 * layers->forward[j];
    }
}

struct row {
    size_t layers, pulls, pushes;
    double seconds, way[WAYS];
};

static void measure(const struct setting *setting, struct layers *layers, struct row *row)
{
    const struct segments_link link = {.request_seconds = setting->request_ms / 1e3,
                                       .bytes_per_second = setting->link_mbit * 1e6 / 8};
    scale(layers, &link, setting->transfer_over_compute);
    struct segments_problem pull = {.count = layers->count,
                                    .bytes = layers->bytes,
                                    .seconds = layers->forward,
                                    .server = layers->server,
                                    .link = &link,
                                    .pull = true,
                                    .first_request_seconds = link.request_seconds / 2};
    struct segments_problem push = pull;
    size_t end[LAYERS_MAX];
    push.pull = false;
    push.seconds = layers->backward;
    row->layers = layers->count;
    row->seconds = segments_solve(&pull, scratch, end, &row->pulls) +
                   segments_solve(&push, scratch, end, &row->pushes);
    for (size_t w = 0; w < WAYS; w++) {
        row->way[w] =
            way_seconds(&pull, &ways[w], scratch, end) + way_seconds(&push, &ways[w], scratch, end);
    }
}

int main(void)
{
    static struct row row[SETTINGS];
    static struct layers layers;
    struct err err = {0};
    double us[SIZES], product = 1;
    if (segments_scratch_new(LAYERS_MAX, &scratch, &err) != 0) {
        (void)fprintf(stderr, "bench: %s\n", err.text);
        return 1;
    }
    printf("\nlayers  solve us\n");
    for (size_t i = 0; i < SIZES; i++) {
        us[i] = solver_us(sizes[i]);
        printf("%6zu  %8.2f\n", sizes[i], us[i]);
    }
    printf("\n%-12s %6s %6s %4s %6s %6s", "model", "Mbit/s", "D ms", "A/C", "pulls", "pushes");
    for (size_t w = 0; w < WAYS; w++) {
        printf(" %7s", ways[w].name);
    }
    printf("\n");
    for (size_t i = 0; i < SETTINGS; i++) {
        const struct setting *at = &settings[i];
        if (load(at->model, &layers, &err) != 0) {
            (void)fprintf(stderr, "bench: %s\n", err.text);
            return 1;
        }
        measure(at, &layers, &row[i]);
        printf("%-12s %6.0f %6.0f %4.1f %6zu %6zu", at->model, at->link_mbit, at->request_ms,
               at->transfer_over_compute, row[i].pulls, row[i].pushes);
        double best = INFINITY;
        for (size_t w = 0; w < WAYS; w++) {
            printf(" %6.1f%%", 100 * (row[i].seconds / row[i].way[w] - 1));
            const bool baseline = w >= 1 && w <= 3;
            best = baseline && row[i].way[w] < best ? row[i].way[w] : best;
        }
        product *= best / row[i].seconds;
        printf("\n");
    }
    const double mean = pow(product, 1.0 / SETTINGS);
    printf("\nthe best of layer, 1 MiB and 4 MiB over optimal, geometric mean: %.3f\n", mean);
    printf("\n{\"bench\": \"segments\", \"rows\": [");
    for (size_t i = 0; i < SIZES; i++) {
        printf("{\"layers\": %zu, \"solve_us\": %.3f, \"runs\": %d}, ", sizes[i], us[i], SOLVES);
    }
    for (size_t i = 0; i < SETTINGS; i++) {
        printf("{\"model\": \"%s\", \"layers\": %zu, \"link_mbit\": %.0f, \"request_ms\": %.0f, "
               "\"segments_pull\": %zu, \"segments_push\": %zu, \"seconds\": %.4f",
               settings[i].model, row[i].layers, settings[i].link_mbit, settings[i].request_ms,
               row[i].pulls, row[i].pushes, row[i].seconds);
        for (size_t w = 0; w < WAYS; w++) {
            printf(", \"%s\": %.4f", ways[w].name, row[i].way[w]);
        }
        printf("}, ");
    }
    printf("{\"over_best_baseline\": %.4f}]}\n", mean);
    segments_scratch_free(&scratch);
    return 0;
}
