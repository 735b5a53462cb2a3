/* ways.h: the ways to choose segments beside the optimal one, for the benchmarks. */
#ifndef BENCH_SEGMENTS_WAYS_H
#define BENCH_SEGMENTS_WAYS_H

#include <stddef.h>

#include "libtrain/model/segments.h"

#define WAYS 8

struct way {
    const char *name;
    enum segments_transfers transfers;
    double bytes; /* of SEGMENTS_FIXED */
};
extern const struct way ways[WAYS];

/* Return the seconds of a direction. end: scratch of problem->count. */
double way_seconds(const struct segments_problem *problem, const struct way *way,
                   struct segments_scratch *scratch, size_t *end);

#endif
