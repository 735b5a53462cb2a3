/* The times of the units of a model of the zoo on this machine, for bench/predictor.py
 *
 *   unit_times MODEL MICRO_BATCH THREADS SECONDS
 *
 * Every unit is a stage of its own; forward goes through all of them and backward returns, as in
 * training, so that a unit finds the caches that its neighbours leave. Prints a line `probe GFLOPS
 * BYTES_PER_SECOND`, then `unit INDEX FORWARD BACKWARD` for each: means of the rounds of SECONDS
 * (four rounds at least), with a sample counted as at most four medians. All are without the time
 * in which a quota or other programs had the processor, as agents measure. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/parse.h"
#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "libtrain/train.h"

#define ROUNDS_MIN 4
#define ROUNDS_MAX 4096
#define PROBE_SECONDS 0.8
#define CLIP 4

struct run {
    struct model *model;
    struct train_stage *stage[MODEL_UNITS_MAX];
    void *border[MODEL_UNITS_MAX + 1];     /* [0]: the input; [u + 1]: the output of unit u */
    float *gradient[MODEL_UNITS_MAX + 1];  /* [u]: of the input of unit u */
    double (*seconds)[MODEL_UNITS_MAX][2]; /* [ROUNDS_MAX] */
    int32_t *labels;
    size_t rounds;
    struct train_pool *pool;
};

static int read_model(const char *name, struct model **out, struct err *err)
{
    const char *text = zoo_text(name);
    const struct model_fit *fit = zoo_fit(name);
    if (!text || !fit) {
        return err_set(err, ERR_NOT_FOUND, "model '%s' is not in the zoo", name);
    }
    json_t *description = NULL;
    int rc = json_parse(text, strlen(text), &description, err);
    rc = rc ? rc : description_parse(description, fit, out, NULL, err);
    json_decref(description);
    return rc;
}

static int make_unit(struct run *run, size_t u, size_t micro_batch, struct train_pool *pool,
                     struct err *err)
{
    const struct unit *unit = &run->model->unit[u];
    const struct train_stage_config config = {.model = run->model,
                                              .first = u,
                                              .end = u + 1,
                                              .micro_batch = micro_batch,
                                              .micro_batches = 1,
                                              .in_flight = 1,
                                              .optimizer = {.type = OPTIMIZER_SGD},
                                              .seed = 1,
                                              .pool = pool};
    run->border[u + 1] = calloc(micro_batch * shape_elements(unit->out), sizeof(float));
    run->gradient[u] = calloc(micro_batch * shape_elements(unit->in), sizeof(float));
    if (!run->border[u + 1] || !run->gradient[u]) {
        return err_set(err, ERR_MEMORY, "out of memory for unit %zu", u);
    }
    int rc = train_stage_new(&config, &run->stage[u], err);
    if (rc == 0) {
        train_unit_initialise(run->stage[u], u);
    }
    return rc;
}

/* Inputs: tokens or pixels between 0 and 15. */
static void fill_input(const struct run *run, size_t elements)
{
    unsigned char *bytes = run->border[0];
    float *values = run->border[0];
    for (size_t i = 0; i < elements; i++) {
        const unsigned value = (unsigned)(i * 2654435761u >> 28);
        if (run->model->input_dtype == DTYPE_U8) {
            bytes[i] = (unsigned char)value;
        } else {
            values[i] = (float)value / 8 - 1;
        }
    }
}

static int make_run(struct run *run, size_t micro_batch, struct train_pool *pool, struct err *err)
{
    const size_t elements = micro_batch * shape_elements(run->model->input);
    run->border[0] = calloc(elements, sizeof(float));
    run->labels = calloc(micro_batch * run->model->positions, sizeof(int32_t));
    run->seconds = calloc(ROUNDS_MAX, sizeof(run->seconds[0]));
    if (!run->border[0] || !run->labels || !run->seconds) {
        return err_set(err, ERR_MEMORY, "out of memory");
    }
    fill_input(run, elements);
    int rc = 0;
    for (size_t u = 0; rc == 0 && u < run->model->unit_count; u++) {
        rc = make_unit(run, u, micro_batch, pool, err);
    }
    return rc;
}

/* As the clock of a stage (agent/pipeline/stage.c). */
static double running_seconds(const struct run *run)
{
    return clock_thread_seconds() + train_pool_waited_seconds(run->pool);
}

static int play_round(struct run *run, double (*seconds)[2], struct err *err)
{
    const size_t units = run->model->unit_count;
    const struct train_position position = {.step = 1};
    int rc = 0;
    for (size_t u = 0; rc == 0 && u < units; u++) {
        const bool last = u + 1 == units;
        double loss = 0;
        const double start = running_seconds(run);
        rc = train_forward(run->stage[u], 0, position, run->border[u],
                           last ? NULL : run->border[u + 1], last ? run->labels : NULL,
                           last ? &loss : NULL, err);
        seconds[u][0] = running_seconds(run) - start;
    }
    for (size_t u = units; rc == 0 && u-- > 0;) {
        const double start = running_seconds(run);
        train_backward(run->stage[u], 0, u + 1 == units ? NULL : run->gradient[u + 1],
                       u == 0 ? NULL : run->gradient[u]);
        seconds[u][1] = running_seconds(run) - start;
        train_discard(run->stage[u]);
    }
    return rc;
}

static int compare_seconds(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double mean_of(const struct run *run, size_t unit, size_t pass)
{
    double value[ROUNDS_MAX], sum = 0;
    for (size_t r = 0; r < run->rounds; r++) {
        value[r] = run->seconds[r][unit][pass];
    }
    qsort(value, run->rounds, sizeof(value[0]), compare_seconds);
    const double most = CLIP * value[run->rounds / 2];
    for (size_t r = 0; r < run->rounds; r++) {
        sum += value[r] < most ? value[r] : most;
    }
    return sum / (double)run->rounds;
}

static int measure(const char *name, size_t micro_batch, size_t threads, double seconds,
                   struct err *err)
{
    struct train_pool *pool AUTO(train_pool_free) = NULL;
    struct train_probe probe;
    double share = 1; /* of the probe's time for which it ran */
    static struct run run;
    static double warm[MODEL_UNITS_MAX][2];
    int rc = read_model(name, &run.model, err);
    rc = rc ? rc : train_pool_new(threads, &pool, err);
    if (rc == 0) {
        run.pool = pool;
        train_pool_time_waits(pool, clock_now_seconds);
        const double began = clock_now_seconds(), began_running = running_seconds(&run);
        rc = train_probe(pool, PROBE_SECONDS, &probe, err);
        share = (running_seconds(&run) - began_running) / (clock_now_seconds() - began);
    }
    rc = rc ? rc : make_run(&run, micro_batch, pool, err);
    rc = rc ? rc : play_round(&run, warm, err);
    const double end = clock_now_seconds() + seconds;
    while (rc == 0 && run.rounds < ROUNDS_MAX &&
           (run.rounds < ROUNDS_MIN || clock_now_seconds() < end)) {
        rc = play_round(&run, run.seconds[run.rounds++], err);
    }
    if (rc == 0) {
        printf("probe %.17g %.17g\n", probe.gemm_gflops / share,
               probe.memory_bytes_per_second / share);
        for (size_t u = 0; u < run.model->unit_count; u++) {
            printf("unit %zu %.6g %.6g\n", u, mean_of(&run, u, 0), mean_of(&run, u, 1));
        }
    }
    return rc; /* the program ends: its memory goes with it */
}

int main(int argc, char **argv)
{
    struct err err = {0};
    int64_t micro_batch = 0, threads = 0;
    double seconds = 0;
    if (argc != 5) {
        fprintf(stderr, "usage: unit_times MODEL MICRO_BATCH THREADS SECONDS\n");
        return 2;
    }
    int rc = parse_i64(argv[2], 1, 65536, &micro_batch, &err);
    rc = rc ? rc : parse_i64(argv[3], 1, MEMORY_THREADS_MAX, &threads, &err);
    rc = rc ? rc : parse_double(argv[4], 0, 3600, &seconds, &err);
    rc = rc ? rc : measure(argv[1], (size_t)micro_batch, (size_t)threads, seconds, &err);
    if (rc) {
        fprintf(stderr, "unit_times: %s\n", err.text);
        return 1;
    }
    return 0;
}
