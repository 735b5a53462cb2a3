/* bench.h: a parent in the core alone, with a given stem, so that its groups begin at once. One
 * thread. */
#ifndef TESTS_UNIT_COORDINATOR_CORE_BENCH_H
#define TESTS_UNIT_COORDINATOR_CORE_BENCH_H

#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "tests/unit/coordinator_core/world.h"

#define BENCH_CLASSES 10
#define BENCH_DEADLINE_MS 60000

struct bench {
    struct core *core;
    struct actions actions;
    struct model *model;
    struct job_spec spec;
    struct class_groups groups;
    int64_t samples[BENCH_CLASSES];
    int64_t now_ms;
    struct job_id job;
    size_t derives, harvests, most;
};

/* Submit a job of so many groups to a core with room for jobs_max live jobs. */
void bench_begin(struct bench *bench, size_t jobs_max, size_t groups);
void bench_end(struct bench *bench);
void bench_step(struct bench *bench, struct event *event);
/* Tick while the core wants it now, at most so often. Returns how many. */
size_t bench_tick(struct bench *bench, size_t most);
/* The edge describes the parts of the phase. */
void bench_derive(struct bench *bench, int phase, size_t count);
void bench_verb(struct bench *bench, enum job_verb wanted);
struct parent_slot *bench_parent(const struct bench *bench);

#endif
