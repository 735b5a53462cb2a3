/* bound.h: lower bounds of the step of any plan. Within a step, stage i starts once the first
 * micro-batch has passed the stages and links before it, works on all micro-batches, and its last
 * gradient passes the stages back. A step is thus never shorter than the time before the stage
 * (once forward and back) plus micro_batches times the stage's own work. The same holds for a link.
 * The time before is a sum over the stages, so a recurrence from the last stage to the first finds
 * the best split by this bound: over (first unit, device) for a given order, over (first unit,
 * device, devices used) for any order.
 *
 * A second bound: one micro-batch passes all stages and links, and the stage or link with the
 * longest pass repeats that pass for all other micro-batches. The longest pass of a plan is a
 * maximum, which a recurrence cannot add up. So plans are bounded by intervals of their longest
 * pass (struct bound_passes), in which it is a constant after the last stage. For coordinator/plan/
 * only. Pure. */
#ifndef COORDINATOR_PLAN_BOUND_H
#define COORDINATOR_PLAN_BOUND_H

#include "coordinator/plan/stages.h"

/* Work of one stage's bound, relative to a micro-batch played on the stage. */
#define BOUND_WORK 0.05
#define BOUND_ENTRIES_MAX 1500000
#define BOUND_STATES_MAX 65536

/* Plans whose longest pass, forward or backward, of a stage or a link is in [least, most]. */
struct bound_passes {
    double least, most;
};

/* The time that stages on a group add to a step, as differences of prefix sums by unit. */
struct bound_sums {
    double alone_from[PARTITION_UNITS_MAX + 1], alone_to[PARTITION_UNITS_MAX + 1];
    double trip_from[PARTITION_UNITS_MAX + 1], trip_to[PARTITION_UNITS_MAX + 1];
    uint16_t longest[PARTITION_UNITS_MAX + 1]; /* the last end within the limits */
};

/* Lower bounds of the rest of a plan: the least time that a stage on a group from a unit on, and
 * all stages after it, add to a step, by the groups used so far. INFINITY: they cannot run. */
struct bound {
    const struct kinds *kinds;
    size_t stages_min, stages_max;
    size_t states;
    size_t stride[KINDS_GROUPS_MAX], count[KINDS_GROUPS_MAX]; /* by group: of devices */
    /* Seconds of a boundary's tensors, by groups: of one pass, and of the way forward and back. */
    double crossing[KINDS_GROUPS_MAX][KINDS_GROUPS_MAX][PARTITION_UNITS_MAX + 1];
    double trip[KINDS_GROUPS_MAX][KINDS_GROUPS_MAX][PARTITION_UNITS_MAX + 1];
    double replica_seconds[KINDS_GROUPS_MAX]; /* per byte and micro-batch, on the best link */
    struct bound_sums sums[KINDS_GROUPS_MAX];
    struct bound_passes passes;
    double limit_seconds; /* only faster plans count */
    /* For plans within the limit: the least time before each unit, and the furthest unit for each
     * state. */
    double before[PARTITION_UNITS_MAX + 1];
    uint16_t reach[BOUND_STATES_MAX];
    double rest[BOUND_ENTRIES_MAX];
    double work;
};

/* The possible ends of a stage that begins at a unit. */
struct bound_ends {
    size_t least, most; /* none: least > most */
};

/* Return the possible ends of a stage that begins at `first` on a row, by memory and by given
 * boundaries. */
struct bound_ends bound_ends(const struct kinds *kinds, size_t row, size_t first);
/* Return the most states for which the tables of unit_count units are small enough. */
size_t bound_states_max(size_t unit_count, double work_max);
/* Prepare tables for plans of [stages_min, stages_max] stages; kinds must be grouped. */
void bound_init(struct bound *bound, const struct kinds *kinds, size_t stages_min,
                size_t stages_max);
/* Fill the tables for plans with these passes. Other plans count as INFINITY; plans of
 * limit_seconds or longer may. */
void bound_fill(struct bound *bound, struct bound_passes passes, double limit_seconds);
/* Return the least longest pass of any plan: each unit runs on some device. */
double bound_least_pass(const struct kinds *kinds);
/* Return whether the passes of a stage's units are short enough. */
bool bound_passes_fit(const struct kinds *kinds, size_t row, size_t first, size_t end,
                      struct bound_passes passes);
/* Return the state after the use of a device of a group; state 0: no device used. */
size_t bound_state(const struct bound *bound, size_t state, size_t group);
/* Return the least time from unit `first` on if the next stage is on group `group` and `state`
 * includes it. */
double bound_rest(const struct bound *bound, size_t state, size_t group, size_t first);
/* Return the bound of all plans; INFINITY: no plan fits. */
double bound_root(const struct bound *bound);
/* Write the plan that attains the bound, with groups as kinds. It need not exist for devices. */
void bound_path(struct bound *bound, struct layout *out);

/* Return the least crossing of a boundary over a link. The shortest time and the least latency may
 * be of different codecs, because a bound may take the best of each. */
struct crossing bound_crossing(const struct kinds *kinds, const struct link_speed *link,
                               size_t first, size_t end);
/* Return the bound of the last stage: the larger of all its micro-batches, and one micro-batch plus
 * the longest pass for each of the others. */
double bound_last(const struct partition_problem *problem, struct stage_cost cost,
                  struct bound_passes passes);

#endif
