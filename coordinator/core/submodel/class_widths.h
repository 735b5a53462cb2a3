/* class_widths.h: which share of the channels each group has, so that the slowest group is fastest.
 * Pure; nothing of the core's state. */
#ifndef COORDINATOR_CORE_SUBMODEL_CLASS_WIDTHS_H
#define COORDINATOR_CORE_SUBMODEL_CLASS_WIDTHS_H

#include "coordinator/core/submodel/class_loads.h"

#define WIDTH_UNITS 1000 /* widths are multiples of 1 / WIDTH_UNITS */

/* Return the greatest number of groups, including replicas, with the least width. */
size_t class_widths_most(double width_min);
/* Check that `count` groups, including replicas, can have the least width, and that their devices
 * have memory for all channels together. ERR_INVALID; ERR_MEMORY. */
NODISCARD int class_widths_check(const struct class_problem *problem, size_t count,
                                 struct err *err);
/* Choose the widths of given groups, so that the largest load is least. Optimal up to their
 * rounding. Errors as class_widths_check. */
NODISCARD int class_widths_choose(const struct class_problem *problem, struct class_groups *groups,
                                  struct err *err);

#endif
