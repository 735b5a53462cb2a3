/* class_problems.h: divisions of classes and channels for tests: devices of different speeds, and a
 * slice whose layers narrow on one side and on both. */
#ifndef TESTS_UNIT_COORDINATOR_CORE_CLASS_PROBLEMS_H
#define TESTS_UNIT_COORDINATOR_CORE_CLASS_PROBLEMS_H

#include "coordinator/core/submodel/class_groups.h"

#define CLASS_PROBLEM_WIDTH_MIN 0.02

struct class_setting {
    const int64_t *samples; /* [classes] */
    size_t classes;
    const double *speed;     /* [groups] of the group's device; with replicas twice as many */
    const double *width_max; /* [groups] that the device has memory for; NULL: all */
    size_t groups, replicas;
    struct slice_cost cost[GROUPS_MAX]; /* out */
};
/* Negatives 1. The problem points into the setting. */
struct class_problem class_problem_of(struct class_setting *setting);
/* The load of a group. */
double class_problem_load(const struct class_problem *problem, const struct class_groups *groups,
                          size_t group);
/* The largest load. */
double class_problem_slowest(const struct class_problem *problem,
                             const struct class_groups *groups);

#endif
