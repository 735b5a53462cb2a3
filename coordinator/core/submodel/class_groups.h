/* class_groups.h: which group trains which classes, and which share of the channels it has, so that
 * the slowest group is fastest. Pure; nothing of the core's state. */
#ifndef COORDINATOR_CORE_SUBMODEL_CLASS_GROUPS_H
#define COORDINATOR_CORE_SUBMODEL_CLASS_GROUPS_H

#include "base/err.h"
#include "schema/submodel.h"

#define GROUP_CLASSES_MIN 2
#define WIDTH_UNITS 1000 /* widths are multiples of 1 / WIDTH_UNITS */

#define SLICE_WIDTHS_MAX 32 /* widths at which the load of a slice is known */

/* The load of a training sample in a slice by its width: at these widths, the least first, and
 * linear between them. Seconds on the group's device, or operations. It may fall with the width:
 * some kernels need a least number of channels. */
struct slice_cost {
    double width[SLICE_WIDTHS_MAX], load[SLICE_WIDTHS_MAX];
    size_t count;
};

/* Samples by class number. Classes from `count` on have no samples. */
struct class_samples {
    const int64_t *samples;
    size_t count;
};

/* Return the samples of a class. */
int64_t class_samples_of(const struct class_samples *data, size_t class);
/* Return the samples of all classes. */
int64_t class_samples_all(const struct class_samples *data);
/* Return the training samples of an epoch: the own ones and the negatives drawn for them from the
 * other classes. all: samples of own and other classes together. */
double class_samples_epoch(double own, double all, double negatives);

struct class_problem {
    const int64_t *samples; /* [class_count] training samples of each class */
    size_t class_count;
    const struct class_samples *data; /* [groups] samples of each group; NULL: all have `samples` */
    const struct slice_cost *cost;    /* [group_count * replicas] of each group; any unit */
    size_t group_count;               /* groups that together serve all classes */
    double negatives;                 /* samples of other classes for each own one */
    size_t replicas;                  /* 1 or 2 */
    double width_min;                 /* the least share of the channels that a group may have */
};

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
/* Return the samples that a group may train on. */
struct class_samples class_groups_data(const struct class_problem *problem, size_t group);
/* Return the training samples of a group's own classes. */
double class_groups_own(const struct class_problem *problem, const struct class_groups *groups,
                        size_t group);
/* Return the training samples of a group: its own and the negatives that are drawn for them. */
double class_groups_samples(const struct class_problem *problem, size_t group, double own);
/* Return the load of a group with `own` own samples and this width. */
double class_groups_load(const struct class_problem *problem, size_t group, double own,
                         double width);
/* Return the greatest number of groups, including replicas, with the least width. */
size_t class_groups_most(double width_min);
/* Check that `count` groups, including replicas, can have the least width. ERR_INVALID. */
NODISCARD int class_groups_room(const struct class_problem *problem, size_t count, struct err *err);
/* Divide the classes of `samples` among the groups, and the channels, so that the largest load is
 * least. Labels stay empty. ERR_INVALID: fewer than two classes for a group, or too narrow groups.
 * Largest class first, then moves and swaps while the slowest group gets faster: not always
 * optimal. */
NODISCARD int class_groups_solve(const struct class_problem *problem, struct class_groups *out,
                                 struct err *err);
/* Choose the widths of given groups, as above. Optimal up to their rounding. */
NODISCARD int class_groups_widths(const struct class_problem *problem, struct class_groups *groups,
                                  struct err *err);

#endif
