/* servers_sample.h: small random problems of a parameter server, and the answer of trying
 * everything. */
#ifndef TESTS_UNIT_COORDINATOR_PLAN_SERVERS_SAMPLE_H
#define TESTS_UNIT_COORDINATOR_PLAN_SERVERS_SAMPLE_H

#include "coordinator/plan/servers_step.h"
#include "tests/unit/coordinator_plan/sample.h"

#define SERVERS_SAMPLE_DEVICES 4
#define SERVERS_SAMPLE_UNITS 8
#define SERVERS_SAMPLE_LAYERS 12
#define SERVERS_SAMPLE_MICRO_BATCHES 8

struct servers_sample {
    struct servers_problem problem;
    size_t layer_unit[SERVERS_SAMPLE_LAYERS];
    double layer_bytes[SERVERS_SAMPLE_LAYERS];
    double forward[SERVERS_SAMPLE_DEVICES * SERVERS_SAMPLE_LAYERS];
    double backward[SERVERS_SAMPLE_DEVICES * SERVERS_SAMPLE_LAYERS];
    double update[SERVERS_SAMPLE_DEVICES * SERVERS_SAMPLE_UNITS];
    double add[SERVERS_SAMPLE_DEVICES * SERVERS_SAMPLE_UNITS];
    double rate[SERVERS_SAMPLE_DEVICES];
    struct partition_pair pair[SERVERS_SAMPLE_DEVICES * SERVERS_SAMPLE_DEVICES];
    uint64_t cap[SERVERS_SAMPLE_DEVICES];
    bool may_serve[SERVERS_SAMPLE_DEVICES], may_work[SERVERS_SAMPLE_DEVICES];
};

/* One layer per unit of 100 bytes; forward 1, backward 2; rate 1000, no latency, no memory caps. */
void servers_sample_init(struct servers_sample *sample, size_t units, size_t devices,
                         size_t micro_batches);
/* Unequal units, devices and links; every fourth problem is short of memory. Less than the bounds
 * above, or all of them. */
void servers_sample_draw(struct servers_sample *sample, struct draws *draws, bool largest);

/* Fail unless the plan is complete and its parts add up. */
void servers_sample_check(const struct servers_sample *sample, const struct servers_plan *plan);

/* The fastest step of every order of servers, their boundaries, and every share of every order of
 * workers; INFINITY if none fits. *plans: how many there are. */
double servers_sample_brute_force(const struct servers_sample *sample, size_t *plans);

#endif
