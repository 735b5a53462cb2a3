/* class_preferences.h: which classes the devices prefer (the label `classes` of an agent), and how
 * planned groups follow. Pure; nothing of the core's state. */
#ifndef COORDINATOR_CORE_SUBMODEL_CLASS_PREFERENCES_H
#define COORDINATOR_CORE_SUBMODEL_CLASS_PREFERENCES_H

#include <stdbool.h>

#include "coordinator/core/submodel/class_groups.h"
#include "schema/class_ranges.h"

#define CLASS_PREFERENCES_SLACK 0.1 /* by which the load of a group may rise */

/* Read the label and drop the classes from class_count on. Return whether it has the form of
 * class_ranges.h and names a class below class_count. */
bool class_preferences_read(const char *text, size_t class_count, struct class_ranges *out);
/* Swap classes between groups so that groups get classes that they prefer, as long as no load rises
 * by more than the slack. preference[groups->count]: NULL: the group has no preference. A class
 * that two groups prefer is not moved. Numbers of classes and widths do not change. */
void class_preferences_follow(const struct class_problem *problem,
                              const struct class_ranges *const *preference,
                              struct class_groups *groups);

#endif
