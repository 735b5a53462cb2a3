/* sim: run seeds of the simulator, or replay one.
 *
 *   sim --seeds FIRST..LAST    ends with "N passed, N failed"; failing seeds are named above it
 *   sim --seeds FILE           the seeds of a file: one per line, # starts a comment
 *   sim --seed N [--trace]     one seed, with a line for everything that happens
 *
 * Seeds run in a child process: one that ends by an assertion, or does not end, fails alone. */
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/parse.h"
#include "tests/sim/sim.h"

#define SEEDS_MAX 10000000
#define MAPPED_BYTES (256 << 10)
#define SEED_SECONDS_MAX 60 /* of real time */
#define LINE_MAX_BYTES 256

struct seeds {
    uint64_t *item;
    size_t count;
};

/* Shared with the child that runs them. */
struct progress {
    size_t at; /* of the seeds */
    size_t passed, failed;
    size_t jobs, succeeded, job_failed, cancelled, generations;
    int repeats;
    uint64_t events;
};

static const char usage[] = "usage: sim --seeds FIRST..LAST | --seeds FILE | --seed N [--trace]\n";

/* ---- which seeds ---- */

static int read_range(const char *text, const char *dots, struct seeds *out, struct err *err)
{
    char first_text[32];
    int64_t first = 0, last = 0;
    (void)snprintf(first_text, sizeof(first_text), "%.*s", (int)(dots - text), text);
    int rc = parse_i64(first_text, 0, INT64_MAX, &first, err);
    rc = rc ? rc : parse_i64(dots + 2, first, first + SEEDS_MAX, &last, err);
    if (rc != 0) {
        return rc;
    }
    out->item = calloc((size_t)(last - first) + 1, sizeof(out->item[0]));
    if (!out->item) {
        return err_set(err, ERR_MEMORY, "seeds");
    }
    for (int64_t seed = first; seed <= last; seed++) {
        out->item[out->count++] = (uint64_t)seed;
    }
    return 0;
}

static int read_lines(FILE *file, const char *path, struct seeds *out, struct err *err)
{
    char line[LINE_MAX_BYTES];
    size_t capacity = 0;
    while (fgets(line, sizeof(line), file)) {
        int64_t seed = 0;
        line[strcspn(line, "#\n")] = '\0';
        line[strcspn(line, " \t")] = '\0';
        if (line[0] == '\0') {
            continue;
        }
        if (parse_i64(line, 0, INT64_MAX, &seed, err) != 0) {
            return err_wrap(err, "%s", path);
        }
        if (out->count == capacity) {
            capacity = capacity ? 2 * capacity : 64;
            uint64_t *item = realloc(out->item, capacity * sizeof(out->item[0]));
            if (!item) {
                return err_set(err, ERR_MEMORY, "seeds");
            }
            out->item = item;
        }
        out->item[out->count++] = (uint64_t)seed;
    }
    return 0;
}

static int read_seeds(const char *text, struct seeds *out, struct err *err)
{
    const char *dots = strstr(text, "..");
    if (dots && text[0] >= '0' && text[0] <= '9') {
        return read_range(text, dots, out, err);
    }
    FILE *file = fopen(text, "r");
    if (!file) {
        return err_set(err, ERR_IO, "open '%s'", text);
    }
    const int rc = read_lines(file, text, out, err);
    (void)fclose(file);
    return rc;
}

/* ---- running them ---- */

static void add_result(struct progress *progress, uint64_t seed, const struct sim_result *result)
{
    progress->jobs += result->jobs;
    progress->succeeded += result->succeeded;
    progress->job_failed += result->failed;
    progress->cancelled += result->cancelled;
    progress->generations += result->generations;
    progress->events += result->events;
    progress->repeats = result->repeats > progress->repeats ? result->repeats : progress->repeats;
    if (result->failure[0] == '\0') {
        progress->passed++;
    } else {
        progress->failed++;
        (void)printf("seed %" PRIu64 " failed: %s\n", seed, result->failure);
        (void)fflush(stdout);
    }
}

static int run_all(const struct seeds *seeds, struct progress *progress)
{
    struct models models;
    struct err err = {0};
    int rc = sim_models_new(&models, &err);
    for (; rc == 0 && progress->at < seeds->count; progress->at++) {
        struct sim_result result;
        (void)alarm(SEED_SECONDS_MAX);
        rc = sim_run(seeds->item[progress->at], &models, NULL, &result, &err);
        add_result(progress, seeds->item[progress->at], &result);
    }
    sim_models_free(&models);
    if (rc != 0) {
        (void)fprintf(stderr, "sim: %s\n", err.text);
    }
    return rc ? 2 : 0;
}

/* A child for as long as nothing dies. Returns whether the seeds could be run at all. */
static bool run_in_children(struct seeds *seeds, struct progress *progress)
{
    while (progress->at < seeds->count) {
        int status = 0;
        (void)fflush(stdout); /* else the child prints it once more */
        const pid_t child = fork();
        if (child == 0) {
            const int rc = run_all(seeds, progress);
            (void)fflush(stdout);
            free(seeds->item);
            exit(rc);
        }
        if (child < 0 || waitpid(child, &status, 0) != child ||
            (WIFEXITED(status) && WEXITSTATUS(status) == 2)) {
            return false;
        }
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            (void)printf("seed %" PRIu64 " failed: %s\n", seeds->item[progress->at],
                         WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "the process ended");
            progress->failed++;
            progress->at++;
        }
    }
    return true;
}

static int run_seeds(const char *text)
{
    struct seeds seeds = {0};
    struct err err = {0};
    if (read_seeds(text, &seeds, &err) != 0) {
        (void)fprintf(stderr, "sim: %s\n", err.text);
        free(seeds.item);
        return 2;
    }
    struct progress *progress =
        mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED) {
        free(seeds.item);
        return 2;
    }
    const bool ran = run_in_children(&seeds, progress);
    (void)printf("%zu jobs: %zu succeeded, %zu failed, %zu cancelled; %zu generations, %d at most "
                 "by one failure, %" PRIu64 " events\n",
                 progress->jobs, progress->succeeded, progress->job_failed, progress->cancelled,
                 progress->generations, progress->repeats, progress->events);
    (void)printf("%zu passed, %zu failed\n", progress->passed, progress->failed);
    const int status = !ran ? 2 : progress->failed > 0;
    free(seeds.item);
    (void)munmap(progress, sizeof(*progress));
    return status;
}

static int run_one(const char *text, bool traced)
{
    struct models models;
    struct sim_result result;
    struct trace trace = {.out = stdout};
    struct err err = {0};
    int64_t seed = 0;
    int rc = parse_i64(text, 0, INT64_MAX, &seed, &err);
    rc = rc ? rc : sim_models_new(&models, &err);
    if (rc != 0) {
        (void)fprintf(stderr, "sim: %s\n", err.text);
        return 2;
    }
    rc = sim_run((uint64_t)seed, &models, traced ? &trace : NULL, &result, &err);
    sim_models_free(&models);
    if (rc != 0) {
        (void)fprintf(stderr, "sim: %s\n", err.text);
        return 2;
    }
    (void)printf(
        "seed %" PRId64
        ": %zu jobs, %zu succeeded, %zu failed, %zu cancelled after %.1f s of virtual time\n",
        seed, result.jobs, result.succeeded, result.failed, result.cancelled,
        (double)result.virtual_us / 1e6);
    if (result.failure[0] != '\0') {
        (void)printf("seed %" PRId64 " failed: %s\n", seed, result.failure);
        return 1;
    }
    return 0;
}

int main(int count, char **argument)
{
    /* The core's tables are large and mostly untouched: pages of the kernel are zero already. */
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    if (count == 3 && strcmp(argument[1], "--seeds") == 0) {
        return run_seeds(argument[2]);
    }
    if ((count == 3 || (count == 4 && strcmp(argument[3], "--trace") == 0)) &&
        strcmp(argument[1], "--seed") == 0) {
        return run_one(argument[2], count == 4);
    }
    (void)fputs(usage, stderr);
    return 2;
}
