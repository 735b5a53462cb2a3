/* kinds.h: the devices of a problem as kinds. Interchangeable devices form one kind, so that
 * symmetry costs the search nothing. For a lower bound, similar kinds can be merged into a few
 * groups, each at least as good as its members. For coordinator/plan/ only. Pure. */
#ifndef COORDINATOR_PLAN_KINDS_H
#define COORDINATOR_PLAN_KINDS_H

#include "coordinator/plan/partition.h"

/* Plans whose times differ by a smaller share are equally fast: the difference is rounding. */
#define KINDS_EQUAL 1e-12
#define KINDS_GROUPS_MAX 10
/* Rows: first the kinds, then the groups. */
#define KINDS_ROWS_MAX (PARTITION_DEVICES_MAX + KINDS_GROUPS_MAX)

struct kind {
    size_t count;  /* of devices */
    size_t device; /* the first of them */
    uint64_t cap_bytes;
    double processor_share; /* all times are divided by it */
    double overhead_seconds, overhead_seconds_per_byte;
    double total_seconds; /* of all units */
};

/* Prefix sums: over the units before u. */
struct kind_sums {
    double forward[PARTITION_UNITS_MAX + 1], backward[PARTITION_UNITS_MAX + 1],
        update[PARTITION_UNITS_MAX + 1];
};

struct kinds {
    const struct partition_problem *problem;
    size_t count, group_count;
    struct kind kind[KINDS_ROWS_MAX];
    struct kind_sums sums[KINDS_ROWS_MAX];
    uint16_t fits_end[KINDS_ROWS_MAX][PARTITION_UNITS_MAX + 1]; /* the longest stage that fits */
    uint16_t kind_of[PARTITION_DEVICES_MAX];
    uint16_t group_of[PARTITION_DEVICES_MAX]; /* by kind: the row of its group */
    uint16_t by_speed[PARTITION_DEVICES_MAX]; /* kinds, fastest first */
    struct link_speed group_link[KINDS_GROUPS_MAX][KINDS_GROUPS_MAX]; /* the best */
    double replica_sum[PARTITION_UNITS_MAX + 1];
    double wire_bytes[PARTITION_UNITS_MAX + 1]; /* before unit u with the smallest codec */
    uint16_t pair_of[PARTITION_DEVICES_MAX * PARTITION_DEVICES_MAX]; /* 0: usual, else index + 1 */
};

/* Fill the kinds with their sums, fastest first, and the longest stages that fit. The problem must
 * be valid and outlive `kinds`. */
void kinds_init(struct kinds *kinds, const struct partition_problem *problem);
/* Merge kinds into groups until the product of (count + 1) over the groups, times their number, is
 * at most states_max. Counts above stages_max count as stages_max. */
void kinds_group(struct kinds *kinds, size_t stages_max, size_t states_max);
/* Return whether all groups are single kinds. */
bool kinds_exact(const struct kinds *kinds);
/* Return the link between a device of kind a and another one of kind b. */
const struct link_speed *kinds_link(const struct kinds *kinds, size_t a, size_t b);
/* Return whether the search is cancelled. */
bool kinds_cancelled(const struct kinds *kinds);
/* Return `work`; if the search is cancelled, more work than any bound allows. */
double kinds_work(const struct kinds *kinds, double work);
/* Return whether stage_memory has used less than `share` of its allowed work. */
bool kinds_may_ask(const struct kinds *kinds, double share);

#endif
