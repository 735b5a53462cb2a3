/* submodel_plan.h: divides classes and channels of a job of sub-models among its groups. */
#ifndef COORDINATOR_CORE_SUBMODEL_SUBMODEL_PLAN_H
#define COORDINATOR_CORE_SUBMODEL_SUBMODEL_PLAN_H

#include "coordinator/core/core.h"
#include "coordinator/core/submodel/submodel_divide.h"

struct parent_slot;
struct plan_question;

/* Copy the classes of the training data, and given groups, into the row. */
void submodel_take_classes(struct parent_slot *parent, const struct event_classes *classes);
/* Choose the widths of given groups that have none, by their loads: the same on any devices.
 * samples[class_count]: training samples of each class. ERR_INVALID. */
NODISCARD int submodel_plan_widths(const struct model *target,
                                   const struct submodel_options *options, const int64_t *samples,
                                   size_t class_count, struct class_groups *groups,
                                   struct err *err);
/* Check a job whose groups are planned later. As many groups as it requests, or two, must have
 * enough channels and a batch each. Such groups are then possible on any devices. ERR_INVALID. */
NODISCARD int submodel_plan_check(const struct model *target, const struct job_spec *spec,
                                  const struct event_classes *classes, struct err *err);
/* Choose the groups for the present devices, or for those of a user's question (NULL: none). For
 * given groups, choose only missing widths. Speeds are the expected speeds of devices on the
 * slices. Overwrites core->planning. ERR_INVALID. */
NODISCARD int submodel_plan(struct core *core, struct parent_slot *parent,
                            const struct plan_question *question, struct err *err);

/* What the first steps of planned groups have shown. */
struct division_trial {
    struct slice_seconds slice[GROUPS_MAX]; /* one for each device of a group */
    size_t count;
    double left[GROUPS_MAX]; /* the part of its steps that a group has not done yet */
};
/* Another division. */
struct division {
    struct class_groups groups;
    double present_seconds; /* until the phase of groups ends, with the present division */
    double seconds;         /* the same with this one, from its begin */
};
/* Divide planned groups again by the seconds that their slices take. Overwrites core->planning.
 * ERR_INVALID. */
NODISCARD int submodel_plan_again(struct core *core, const struct parent_slot *parent,
                                  const struct division_trial *trial, struct division *out,
                                  struct err *err);

#endif
