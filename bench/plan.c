/* The planner alone: seconds of a search and how far from the best its answer can be
 *
 *   plan [--problems N] [--seed N]
 *
 * Random problems by seed: units whose work and tensors vary tenfold, devices of speeds 1 to 10
 * with 20 % of noise by unit, links of 10 to 1000 Mbit/s and 0.2 to 5 ms, 4 to 16 micro-batches,
 * memory caps in every third problem. seconds: of the processor. gap: step time over the proven
 * lower bound, minus 1. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/rng.h"
#include "coordinator/plan/partition.h"

#define PROBLEMS_DEFAULT 15
#define PROBLEMS_MAX 1000
#define PAIRS_MAX 4096

struct size {
    size_t units, devices, stages_max;
    double work_max;
    int share; /* of the problems asked for, in percent */
};

static const struct size sizes[] = {
    {10, 5, 5, 0, 100},    {20, 3, 3, 0, 100},   {50, 5, 5, 0, 100},
    {100, 10, 10, 0, 100}, {256, 32, 32, 0, 20}, {256, 1000, 32, 20e6, 20},
};

struct bench {
    uint64_t seed, draw;
    struct partition_scratch *scratch;
    double forward[PARTITION_DEVICES_MAX * PARTITION_UNITS_MAX];
    double backward[PARTITION_DEVICES_MAX * PARTITION_UNITS_MAX];
    double update[PARTITION_DEVICES_MAX * PARTITION_UNITS_MAX];
    uint64_t border[PARTITION_UNITS_MAX], unit_bytes[PARTITION_UNITS_MAX];
    struct partition_pair pair[PAIRS_MAX];
    uint64_t cap[PARTITION_DEVICES_MAX];
};

static double uniform(struct bench *bench, double low, double high)
{
    const struct rng_stream stream = rng_stream(bench->seed, RNG_SIMULATION, 68, 0);
    return low + (high - low) * (double)rng_uniform(&stream, bench->draw++);
}

static double between(struct bench *bench, double low, double high)
{
    return low * pow(high / low, uniform(bench, 0, 1));
}

/* A stage's bytes: state of its units, and a tensor for each unit and micro-batch in flight. */
static uint64_t stage_memory(void *arg, size_t device, size_t first, size_t end, size_t in_flight,
                             size_t stage_count)
{
    (void)device;
    (void)stage_count;
    const struct bench *bench = arg;
    uint64_t bytes = 0;
    for (size_t u = first; u < end; u++) {
        bytes += 4 * bench->unit_bytes[u] + in_flight * bench->border[u];
    }
    return bytes;
}

static struct link_speed draw_link(struct bench *bench)
{
    return (struct link_speed){.latency_seconds = between(bench, 0.0002, 0.005),
                               .bytes_per_second = between(bench, 10e6, 1000e6) / 8};
}

static void draw_devices(struct bench *bench, const struct size *size, const double *work)
{
    uint64_t total = 0;
    for (size_t u = 0; u < size->units; u++) {
        total += 4 * bench->unit_bytes[u] + 4 * bench->border[u];
    }
    const bool tight = uniform(bench, 0, 3) < 1;
    const double stages = (double)(size->stages_max < size->units ? size->stages_max : size->units);
    for (size_t d = 0; d < size->devices; d++) {
        const double speed = between(bench, 1, 10);
        bench->cap[d] =
            tight ? (uint64_t)((double)total * between(bench, 1.5, 6) / stages) : UINT64_MAX;
        for (size_t u = 0; u < size->units; u++) {
            const size_t at = d * size->units + u;
            bench->forward[at] = work[u] / speed * uniform(bench, 0.8, 1.2);
            bench->backward[at] = 2 * work[u] / speed * uniform(bench, 0.8, 1.2);
            bench->update[at] = (double)bench->unit_bytes[u] / (1e9 * speed);
        }
    }
}

static void draw_problem(struct bench *bench, const struct size *size,
                         struct partition_problem *out)
{
    double work[PARTITION_UNITS_MAX];
    const double step = between(bench, 0.2, 5); /* of the slowest device alone, one micro-batch */
    for (size_t u = 0; u < size->units; u++) {
        work[u] = step / (double)size->units * between(bench, 0.3, 3);
        bench->border[u] = (uint64_t)between(bench, 20e3, 200e3);
        bench->unit_bytes[u] = (uint64_t)between(bench, 10e3, 1e6);
    }
    draw_devices(bench, size, work);
    static const size_t micro_batches[] = {4, 8, 16};
    *out = (struct partition_problem){
        .unit_count = size->units,
        .device_count = size->devices,
        .stages_min = 1,
        .stages_max = size->stages_max,
        .forward_seconds = bench->forward,
        .backward_seconds = bench->backward,
        .update_seconds = bench->update,
        .border_bytes = bench->border,
        .usual_link = draw_link(bench),
        .pair = bench->pair,
        .memory_cap_bytes = bench->cap,
        .stage_memory = stage_memory,
        .arg = bench,
        .micro_batches = micro_batches[(size_t)uniform(bench, 0, 3) % 3],
        .work_max = size->work_max,
    };
    for (size_t a = 0; a < size->devices; a++) {
        for (size_t b = a + 1; b < size->devices && out->pair_count < PAIRS_MAX; b++) {
            if (size->devices <= 32 || uniform(bench, 0, 100) < 1) {
                bench->pair[out->pair_count++] =
                    (struct partition_pair){.a = a, .b = b, .link = draw_link(bench)};
            }
        }
    }
}

static int compare(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

struct row {
    int problems, solved, optimal;
    double seconds[PROBLEMS_MAX], gap[PROBLEMS_MAX];
};

static void measure(struct bench *bench, const struct size *size, int problems, struct row *row)
{
    *row = (struct row){.problems = problems};
    for (int i = 0; i < problems; i++) {
        struct partition_problem problem;
        struct partition_plan plan;
        struct err err = {0};
        draw_problem(bench, size, &problem);
        const double start = clock_thread_seconds();
        if (partition_solve(&problem, bench->scratch, &plan, &err) == 0) {
            row->seconds[row->solved] = clock_thread_seconds() - start;
            row->gap[row->solved++] = plan.gap;
            row->optimal += plan.optimal;
        }
    }
    qsort(row->seconds, (size_t)row->solved, sizeof(double), compare);
    qsort(row->gap, (size_t)row->solved, sizeof(double), compare);
}

static double last(const double *sorted, int count)
{
    return count > 0 ? sorted[count - 1] : 0;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    static struct row row[sizeof(sizes) / sizeof(sizes[0])];
    struct err err = {0};
    int64_t problems = PROBLEMS_DEFAULT, seed = 1;
    for (int i = 1; i < argc; i += 2) {
        int64_t *value = strcmp(argv[i], "--problems") == 0 ? &problems
                         : strcmp(argv[i], "--seed") == 0   ? &seed
                                                            : NULL;
        if (!value || i + 1 == argc || parse_i64(argv[i + 1], 1, PROBLEMS_MAX, value, &err) != 0) {
            (void)fprintf(stderr, "usage: plan [--problems N] [--seed N], 1 to %d\n", PROBLEMS_MAX);
            return 2;
        }
    }
    bench.seed = (uint64_t)seed;
    if (partition_scratch_new(&bench.scratch, &err) != 0) {
        (void)fprintf(stderr, "bench: %s\n", err.text);
        return 1;
    }
    printf("\nunits  devices  stages  problems  seconds    most  optimal     gap   worst\n");
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        int count = (int)(problems * sizes[s].share + 99) / 100;
        measure(&bench, &sizes[s], count, &row[s]);
        const struct row *r = &row[s];
        printf("%5zu  %7zu  %6zu  %8d  %7.3f  %6.3f  %7d  %5.1f%%  %5.1f%%\n", sizes[s].units,
               sizes[s].devices, sizes[s].stages_max, r->solved, r->seconds[r->solved / 2],
               last(r->seconds, r->solved), r->optimal, 100 * r->gap[r->solved / 2],
               100 * last(r->gap, r->solved));
        (void)fflush(stdout);
    }
    printf("\n{\"bench\": \"plan\", \"rows\": [");
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        const struct row *r = &row[s];
        printf("%s{\"units\": %zu, \"devices\": %zu, \"stages_max\": %zu, \"runs\": %d, "
               "\"seconds\": %.4f, \"seconds_max\": %.4f, \"optimal\": %d, \"gap\": %.4f, "
               "\"gap_max\": %.4f}",
               s > 0 ? ", " : "", sizes[s].units, sizes[s].devices, sizes[s].stages_max, r->solved,
               r->seconds[r->solved / 2], last(r->seconds, r->solved), r->optimal,
               r->gap[r->solved / 2], last(r->gap, r->solved));
    }
    printf("]}\n");
    partition_scratch_free(&bench.scratch);
    return 0;
}
