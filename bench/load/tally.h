/* tally.h: durations of many responses of one kind and their quantiles. One thread. */
#ifndef BENCH_LOAD_TALLY_H
#define BENCH_LOAD_TALLY_H

#include <stddef.h>
#include <stdio.h>

struct tally {
    double *seconds; /* [count] */
    size_t count, capacity;
    size_t failed; /* counted by the owner */
};

/* Ends the program without memory. */
void tally_add(struct tally *tally, double seconds);
/* Write a JSON object with count, failed, p50, p99 and max, and start again from nothing. */
void tally_print(struct tally *tally, FILE *out);

#endif
