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

/* Read "0-3_7": the classes 0 to 3, and 7. Return whether the text has this form and names a class
 * below class_count. Ignore larger classes. */
bool class_preferences_read(const char *text, size_t class_count, struct class_preference *out);
/* Swap classes between groups so that groups get classes that they prefer, as long as no load rises
 * by more than the slack. preference[groups->count]: NULL: the group has no preference. A class
 * that two groups prefer is not moved. Numbers of classes and widths do not change. */
void class_preferences_follow(const struct class_problem *problem,
                              const struct class_preference *const *preference,
                              struct class_groups *groups);

#endif
