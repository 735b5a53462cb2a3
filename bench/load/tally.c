#include "bench/load/tally.h"

#include <stdlib.h>

#define FIRST_CAPACITY 4096

void tally_add(struct tally *tally, double seconds)
{
    if (tally->count == tally->capacity) {
        tally->capacity = tally->capacity ? 2 * tally->capacity : FIRST_CAPACITY;
        tally->seconds = realloc(tally->seconds, tally->capacity * sizeof(*tally->seconds));
        if (!tally->seconds) {
            perror("tally");
            exit(1);
        }
    }
    tally->seconds[tally->count++] = seconds;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const struct tally *tally, double share)
{
    return tally->count > 0 ? tally->seconds[(size_t)(share * (double)(tally->count - 1))] : 0;
}

void tally_print(struct tally *tally, FILE *out)
{
    if (tally->count > 0) {
        qsort(tally->seconds, tally->count, sizeof(*tally->seconds), compare_doubles);
    }
    (void)fprintf(out,
                  "{\"count\": %zu, \"failed\": %zu, \"p50\": %.6f, \"p99\": %.6f, \"max\": %.6f}",
                  tally->count, tally->failed, quantile(tally, 0.5), quantile(tally, 0.99),
                  quantile(tally, 1));
    tally->count = tally->failed = 0;
}
