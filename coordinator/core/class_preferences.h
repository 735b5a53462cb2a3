/* class_preferences.h: which classes the devices prefer (the label `classes` of an agent), and how
 * planned groups follow. Pure; nothing of the core's state. */
#ifndef COORDINATOR_CORE_CLASS_PREFERENCES_H
#define COORDINATOR_CORE_CLASS_PREFERENCES_H

#include <stdbool.h>

#include "coordinator/core/class_groups.h"

#define CLASS_PREFERENCES_LABEL "classes"
#define CLASS_PREFERENCES_SLACK 0.1 /* by which the load of a group may rise */

/* By class number. */
struct class_preference {
    bool class[COUNTED_CLASSES_MAX];
};

/* Read "0-3_7": the classes 0 to 3, and 7. Return whether it is of this form and has a class below
 * class_count; larger ones are left out. */
bool class_preferences_read(const char *text, size_t class_count, struct class_preference *out);
/* Swap classes between groups for those that they prefer, as long as no load rises by more than the
 * slack. preference[groups->count]: NULL where there is none. A class that two groups prefer stays
 * where it is. Numbers of classes and widths stay. */
void class_preferences_follow(const struct class_problem *problem,
                              const struct class_preference *const *preference,
                              struct class_groups *groups);

#endif
