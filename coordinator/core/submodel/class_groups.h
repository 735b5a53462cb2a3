/* class_groups.h: which group trains which classes, and which share of the channels it has, so that
 * the slowest device is fastest. Pure; nothing of the core's state. */
#ifndef COORDINATOR_CORE_SUBMODEL_CLASS_GROUPS_H
#define COORDINATOR_CORE_SUBMODEL_CLASS_GROUPS_H

#include "coordinator/core/submodel/class_widths.h"

#define GROUP_CLASSES_MIN 2

/* Return the number of groups for a job that does not state it: one for each device, with at least
 * two classes in each group. 0: too few classes for two groups. */
size_t class_groups_count(size_t class_count, size_t device_count);
/* Choose a device for each group if a device trains several groups one after the other. A device
 * that trains n groups counts as n devices with an n-th of its speed. Groups are in the order in
 * which they begin. Groups that take the same seconds at these speeds end together on all devices.
 * device[device_count]: speeds, the fastest first; at least one. place[group_count]: out, the
 * device of each group. among[group_count]: out, n. docs/adr/0095. */
void class_groups_queue(const double *device, size_t device_count, size_t group_count,
                        size_t *place, size_t *among);
/* Divide the classes of `samples` among the groups, and the channels, so that the largest load is
 * least. Labels stay empty. ERR_INVALID: fewer than two classes for a group, or too narrow groups.
 * ERR_MEMORY: their devices have memory for a part of the channels only.
 * Largest class first, then moves and swaps while the slowest device gets faster: not always
 * optimal. */
NODISCARD int class_groups_solve(const struct class_problem *problem, struct class_groups *out,
                                 struct err *err);
/* Move and swap classes of groups without replicas at their widths, while the slowest device gets
 * faster. Return whether a class has another group. */
bool class_groups_exchange(const struct class_problem *problem, struct class_groups *groups);

#endif
