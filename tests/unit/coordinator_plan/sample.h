/* sample.h: small random problems of the planner, and the answer of trying everything. */
#ifndef TESTS_UNIT_COORDINATOR_PLAN_SAMPLE_H
#define TESTS_UNIT_COORDINATOR_PLAN_SAMPLE_H

#include "base/rng.h"
#include "coordinator/plan/partition.h"

#define SAMPLE_DEVICES 64
#define SAMPLE_PAIRS (SAMPLE_DEVICES * SAMPLE_DEVICES / 2)

/* A problem with its arrays; memory of a stage = units' bytes + in-flight activations. */
struct sample {
    struct partition_problem problem;
    double forward[SAMPLE_DEVICES * PARTITION_UNITS_MAX];
    double backward[SAMPLE_DEVICES * PARTITION_UNITS_MAX];
    double update[SAMPLE_DEVICES * PARTITION_UNITS_MAX];
    double overhead[SAMPLE_DEVICES], overhead_per_byte[SAMPLE_DEVICES];
    double replica_bytes[PARTITION_UNITS_MAX];
    uint64_t border[PARTITION_UNITS_MAX];
    struct partition_pair pair[SAMPLE_PAIRS];
    struct partition_codec codec[PARTITION_CODECS_MAX];
    uint64_t cap[SAMPLE_DEVICES];
    uint64_t unit_bytes[PARTITION_UNITS_MAX], activation_bytes[PARTITION_UNITS_MAX];
    size_t present_device[PARTITION_STAGES_MAX], present_end[PARTITION_STAGES_MAX];
    size_t memory_calls;
    double memory_work;
};

/* Random numbers by position in a stream. */
struct draws {
    struct rng_stream stream;
    uint64_t index;
};

struct draws draws_of(uint64_t seed, uint64_t purpose);
double draw_uniform(struct draws *draws, double low, double high);
size_t draw_below(struct draws *draws, size_t bound);

/* Equal devices and units, free links, no caps; any order and subset. */
void sample_init(struct sample *sample, size_t units, size_t devices, size_t micro_batches);
/* Unequal units; devices equal or not; links from invisible to dominant; every third problem is
 * short of memory. At most codecs_max codecs. */
void sample_draw(struct sample *sample, struct draws *draws, size_t units_max, size_t devices_max,
                 size_t micro_batches_max, size_t codecs_max);
/* The plays that sample_brute_force needs without caps; INFINITY if very many. */
double sample_plays(const struct sample *sample);

/* The fastest step of every order of every subset, with every cut, codec and in-flight limit.
 * least[k]: with k stages, INFINITY if none fits; [PARTITION_STAGES_MAX + 1]. */
struct sample_answer {
    double step_seconds;
    double least[PARTITION_STAGES_MAX + 1];
    size_t plays;
};
struct sample_answer sample_brute_force(const struct sample *sample);
/* All units take `times` as long on the device. */
void sample_slow_down(struct sample *sample, size_t device, double times);

#endif
