/* submodel_divide.h: divides the channels of a model among groups of classes: by operations, or by
 * the seconds that the slices take on given devices. Used by submodel_plan.h and submodel_local.h,
 * which choose classes and devices. */
#ifndef COORDINATOR_CORE_SUBMODEL_SUBMODEL_DIVIDE_H
#define COORDINATOR_CORE_SUBMODEL_SUBMODEL_DIVIDE_H

#include "coordinator/core/state/planning.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/submodel/class_groups.h"
#include "coordinator/core/submodel/slice_memory.h"

/* Write the least share of the channels that a group may have. ERR_INVALID as slim_check. */
NODISCARD int submodel_width_min(const struct model *model, size_t stem,
                                 struct class_problem *problem, struct err *err);
/* Return the loads of slices in operations. */
struct slice_loads submodel_loads(const struct model *target,
                                  const struct submodel_options *options,
                                  const struct class_problem *problem);
/* List the same operations for all groups. cost[groups]: out. */
NODISCARD int submodel_operations(const struct slice_loads *loads, size_t groups,
                                  struct slice_cost *cost, struct err *err);

/* class_groups_solve, or class_widths_choose for given groups. */
typedef int (*submodel_choose_fn)(const struct class_problem *problem, struct class_groups *groups,
                                  struct err *err);
/* Choose groups for whose slices the model has enough channels. ERR_INVALID. */
NODISCARD int submodel_fit(const struct model *target, size_t stem, struct class_problem *problem,
                           submodel_choose_fn choose, struct class_groups *groups, struct err *err);

/* Write the devices that may train groups into core->planning. question: of a user, or NULL. */
void submodel_fill_devices(struct core *core, const struct job_spec *spec,
                           const struct model *model, enum candidates candidates,
                           const struct plan_question *question);
/* List the devices of the planning, the fastest first. order, speed: out, [PLANNING_DEVICES_MAX].
 */
void submodel_list_devices(const struct planning *planning, size_t stem, size_t *order,
                           double *speed);

/* The state of a search for a division among devices. Devices are in the order of their speed. */
struct dividing {
    struct core *core;
    const struct parent_slot *parent;
    const struct plan_question *question;
    struct class_problem problem;
    size_t order[PLANNING_DEVICES_MAX];          /* indices of the planning's devices */
    size_t device_count;                         /* in the order */
    double speed[PLANNING_DEVICES_MAX];          /* with the whole target */
    double ratio[PLANNING_DEVICES_MAX];          /* by the planning's device, as in slice_place */
    struct slice_memory memory[CONV2D_BACKENDS]; /* count 0: not known yet */
    bool any_memory;                             /* slices need not fit on their devices */
    struct slice_cost seconds[GROUPS_MAX];
    size_t timed; /* devices whose seconds are known */
    size_t place[GROUPS_MAX], among[GROUPS_MAX];
    struct slice_cost cost[GROUPS_MAX];
};

/* Write about the greatest width of a slice that fits on a device of the planning; 0: none fits; 1:
 * all do. ERR_INVALID as slim_check. */
NODISCARD int submodel_width_max(struct dividing *dividing, size_t device, double *out,
                                 struct err *err);
/* Return whether the group's slice fits on a device of the planning. */
bool submodel_fits(struct dividing *dividing, const struct class_groups *groups, size_t group,
                   size_t device);
/* Find the seconds of slices on the first devices of the order, and which fit. ERR_INVALID as
 * slim_check. */
NODISCARD int submodel_time_devices(struct dividing *dividing, size_t count, struct err *err);
/* Choose groups by dividing->cost, correct the costs by the resulting slices, and choose the widths
 * again. Keep the best division of slices that fit. groups: in, for class_widths_choose.
 * ERR_INVALID; ERR_MEMORY: the devices have too little memory. */
NODISCARD int submodel_divide(struct dividing *dividing, submodel_choose_fn choose,
                              struct class_groups *groups, struct err *err);
/* Exchange classes of groups without replicas, whose widths are whole numbers of channels and so
 * cannot make all devices equally busy. Keep what makes the slowest device faster. ERR_INVALID. */
NODISCARD int submodel_exchange(struct dividing *dividing, struct class_groups *groups,
                                struct err *err);
/* The measured seconds of a sample of a group on a device. */
struct slice_seconds {
    struct device_id device;
    size_t group;
    double seconds;
};
/* Set the ratios of the devices by what their slices take. Devices without a slice get the mean of
 * the others. ERR_INVALID as slim_check, or if a device is not a candidate. */
NODISCARD int submodel_compare(struct dividing *dividing, const struct class_groups *groups,
                               const struct slice_seconds *measured, size_t count, struct err *err);
/* Write the seconds of an epoch of all groups, each on its own device: those of the device that
 * takes longest. part[groups]: the part of an epoch that each group trains; NULL: all of it.
 * ERR_INVALID as slim_check, or if the device of a group is not a candidate. */
NODISCARD int submodel_epoch_seconds(const struct dividing *dividing,
                                     const struct class_groups *groups, const double *part,
                                     double *out, struct err *err);

#endif
