/* class_loads.h: the samples and the load of a group of classes. Pure; nothing of the core's state.
 */
#ifndef COORDINATOR_CORE_SUBMODEL_CLASS_LOADS_H
#define COORDINATOR_CORE_SUBMODEL_CLASS_LOADS_H

#include "base/err.h"
#include "schema/submodel.h"

#define SLICE_WIDTHS_MAX 32 /* widths at which the load of a slice is known */

/* The load of a training sample in a slice by its width: at these widths, the least first, and
 * linear between them. Seconds on the group's device, or operations. It may fall with the width:
 * some kernels need a least number of channels. */
struct slice_cost {
    double width[SLICE_WIDTHS_MAX], load[SLICE_WIDTHS_MAX];
    size_t count;
    double width_max; /* the device has memory for no greater one; 0: for all */
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
    /* [group_count] below GROUPS_MAX: groups with the same number are trained one after the other
     * on one device, so their loads are parts of one. NULL: each has a device of its own. */
    const size_t *device;
    double negatives; /* samples of other classes for each own one */
    size_t replicas;  /* 1 or 2 */
    double width_min; /* the least share of the channels that a group may have */
};

/* Return the samples that a group may train on. */
struct class_samples class_loads_data(const struct class_problem *problem, size_t group);
/* Return the training samples of a group's own classes. */
double class_loads_own(const struct class_problem *problem, const struct class_groups *groups,
                       size_t group);
/* Return the training samples of a group: its own and the negatives that are drawn for them. */
double class_loads_samples(const struct class_problem *problem, size_t group, double own);
/* Return the load of a group with `own` own samples and this width. */
double class_loads_of(const struct class_problem *problem, size_t group, double own, double width);

/* The load of a group of fixed width by its own samples, for searches that ask for it often. */
struct group_load {
    double all;    /* samples of own and other classes together */
    double sample; /* load of a sample */
    double negatives;
};

/* Return what the load of a group of this width follows from. */
struct group_load class_loads_fixed(const struct class_problem *problem, size_t group,
                                    double width);
/* Return the load of the group with `own` own samples. */
double group_load_of(const struct group_load *load, double own);

#endif
