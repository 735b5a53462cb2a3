#include "coordinator/core/submodel/submodel_plan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "coordinator/core/state/planning.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/submodel/class_groups.h"
#include "coordinator/core/submodel/class_preferences.h"
#include "coordinator/core/submodel/slice_loads.h"
#include "coordinator/core/submodel/submodel_divide.h"
#include "coordinator/core/submodel/submodel_local.h"
#include "coordinator/core/submodel/submodel_parts.h"
#include "libtrain/model/slim.h"

#define FITTINGS_MAX 4 /* numbers of groups that are tried until all devices hold a slice */

void submodel_take_classes(struct parent_slot *parent, const struct event_classes *classes)
{
    struct parent *row = &parent->parent;
    memcpy(row->class_samples, classes->samples, classes->count * sizeof(classes->samples[0]));
    row->class_count = classes->count;
    if (classes->groups) {
        row->groups = *classes->groups;
    }
    if (classes->joint) {
        memcpy(row->joint_samples, classes->joint, classes->count * sizeof(classes->joint[0]));
        row->joint_class_count = classes->count;
    }
}

/* List the devices that are online or, if there are none, all known devices. Return whether they
 * are online. */
static bool list_present(struct core *core, const struct parent_slot *parent,
                         const struct plan_question *question)
{
    const struct job_spec *spec = &parent->job.spec;
    submodel_fill_devices(core, spec, parent->model, CANDIDATES_ONLINE, question);
    const bool online = core->planning->device_count > 0;
    if (!online) {
        submodel_fill_devices(core, spec, parent->model, CANDIDATES_KNOWN, question);
    }
    return online;
}

/* The number of groups that serve all classes. */
static size_t count_groups(const struct parent_slot *parent, const struct class_problem *problem,
                           size_t devices)
{
    const size_t wanted = (size_t)parent->job.spec.submodel.group_count;
    const size_t count = class_groups_count(parent->parent.class_count, devices);
    const size_t most = class_widths_most(problem->width_min) / problem->replicas;
    return wanted > 0     ? wanted
           : count > most ? most /* the narrowest layer allows no more groups */
                          : count;
}

/* Keep the devices that have memory for a slice, in the order of their speed. */
static int keep_fitting(struct dividing *dividing, struct err *err)
{
    const size_t listed = dividing->device_count;
    int rc = 0;
    dividing->device_count = 0;
    for (size_t i = 0; rc == 0 && i < listed; i++) {
        const size_t at = dividing->device_count;
        double width;
        rc = submodel_width_max(dividing, dividing->order[i], &width, err);
        if (rc == 0 && width > 0) {
            dividing->order[at] = dividing->order[i];
            dividing->speed[at] = dividing->speed[i];
            dividing->device_count++;
        }
    }
    return rc;
}

/* Choose the number of groups by that of the devices, unless it is given, and leave out the devices
 * that have memory for no slice. Fewer groups have more classes each, and larger slices. */
static int choose_devices(struct dividing *dividing, size_t given, struct err *err)
{
    struct class_problem *problem = &dividing->problem;
    const size_t all = dividing->core->planning->device_count;
    size_t before = 0;
    int rc = 0;
    dividing->device_count = all;
    problem->group_count = given > 0 ? given : count_groups(dividing->parent, problem, all);
    for (int i = 0; rc == 0 && problem->group_count != before && i < FITTINGS_MAX; i++) {
        before = problem->group_count;
        rc = keep_fitting(dividing, err);
        if (given == 0 && dividing->device_count > 0) {
            problem->group_count = count_groups(dividing->parent, problem, dividing->device_count);
        }
        memset(dividing->memory, 0, sizeof(dividing->memory));
    }
    return rc;
}

/* Divide without regard to devices. This is the check of a submission, and the fallback if a
 * division by speed makes groups that are too small. */
static int divide_equally(const struct model *target, const struct job_spec *spec,
                          const struct class_problem *problem, struct class_groups *groups,
                          struct err *err)
{
    struct slice_cost cost[GROUPS_MAX];
    struct class_problem alike = *problem;
    if (problem->group_count < 2) {
        return class_groups_solve(problem, groups, err); /* it fails and sets err */
    }
    const struct slice_loads loads = submodel_loads(target, &spec->submodel, problem);
    int rc = submodel_operations(&loads, problem->group_count * problem->replicas, cost, err);
    alike.cost = cost;
    alike.device = NULL;
    rc = rc ? rc
            : submodel_fit(target, (size_t)spec->submodel.stem, &alike, class_groups_solve, groups,
                           err);
    return rc ? rc : submodel_check_epochs(problem, groups, spec->batch, err);
}

int submodel_plan_check(const struct model *target, const struct job_spec *spec,
                        const struct event_classes *classes, struct err *err)
{
    static const size_t least = 2;
    const struct submodel_options *options = &spec->submodel;
    struct class_groups groups;
    struct class_problem problem = {
        .samples = classes->samples,
        .class_count = classes->count,
        .group_count = options->group_count > 0 ? (size_t)options->group_count : least,
        .negatives = options->negatives,
        .replicas = (size_t)options->replicas};
    int rc = submodel_width_min(target, (size_t)options->stem, &problem, err);
    return rc ? rc : divide_equally(target, spec, &problem, &groups, err);
}

/* ---- devices ---- */

/* Keep the groups if others would not have a batch each. */
static int exchange_classes(struct dividing *dividing, struct class_groups *groups, struct err *err)
{
    const int64_t batch = dividing->parent->job.spec.batch;
    struct class_groups found = *groups;
    struct err ignored = {0};
    int rc = submodel_exchange(dividing, &found, err);
    if (rc == 0 && submodel_check_epochs(&dividing->problem, &found, batch, &ignored) == 0) {
        *groups = found;
    }
    return rc;
}

static int divide_by_speed(struct dividing *dividing, struct class_groups *groups, struct err *err)
{
    struct class_problem *problem = &dividing->problem;
    const size_t devices = dividing->device_count, count = problem->group_count * problem->replicas;
    if (devices == 0 || problem->group_count < 2 || count > GROUPS_MAX) {
        return ERR_INVALID;
    }
    int rc = submodel_time_devices(dividing, devices < count ? devices : count, err);
    if (rc) {
        return rc;
    }
    class_groups_queue(dividing->speed, devices, count, dividing->place, dividing->among);
    for (size_t g = 0; g < count; g++) {
        dividing->cost[g] = dividing->seconds[dividing->place[g]];
        for (size_t i = 0; i < dividing->cost[g].count; i++) {
            dividing->cost[g].load[i] *= (double)dividing->among[g];
        }
    }
    problem->cost = dividing->cost;
    problem->device = problem->replicas == 1 ? dividing->place : NULL;
    rc = submodel_divide(dividing, class_groups_solve, groups, err);
    return rc == 0 && problem->device ? exchange_classes(dividing, groups, err) : rc;
}

/* The greatest number of groups that a plan may have. */
static size_t most_groups(const struct class_problem *problem)
{
    const size_t by_width = class_widths_most(problem->width_min) / problem->replicas;
    const size_t by_class = class_groups_count(problem->class_count, GROUPS_MAX);
    return by_width < by_class ? by_width : by_class;
}

/* If the devices have too little memory for as many slices as there are devices, make more groups:
 * their slices are narrower, and devices train several of them one after the other. */
static int divide_by_memory(struct dividing *dividing, struct class_groups *groups, struct err *err)
{
    struct class_problem *problem = &dividing->problem;
    const size_t first = problem->group_count, most = most_groups(problem);
    const double width_min = problem->width_min;
    int rc = divide_by_speed(dividing, groups, err);
    while (rc == ERR_MEMORY && dividing->parent->job.spec.submodel.group_count == 0 &&
           problem->group_count < most) {
        problem->group_count++;
        problem->width_min = width_min;
        rc = divide_by_speed(dividing, groups, err);
    }
    problem->group_count = rc == ERR_MEMORY ? first : problem->group_count;
    problem->width_min = rc == ERR_MEMORY ? width_min : problem->width_min;
    return rc;
}

/* Leave out the device that has memory for the narrowest slices. */
static int leave_out_least(struct dividing *dividing, struct err *err)
{
    size_t least = 0;
    double least_width = INFINITY;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < dividing->device_count; i++) {
        double width;
        rc = submodel_width_max(dividing, dividing->order[i], &width, err);
        if (rc == 0 && width < least_width) {
            least = i;
            least_width = width;
        }
    }
    dividing->device_count--;
    for (size_t i = least; i < dividing->device_count; i++) {
        dividing->order[i] = dividing->order[i + 1];
        dividing->speed[i] = dividing->speed[i + 1];
    }
    dividing->timed = least < dividing->timed ? least : dividing->timed;
    return rc;
}

/* If no number of groups fits, leave out devices: a device with little memory gets as many groups
 * as its speed says. The last device alone may hold what all together cannot. */
static int divide_to_fit(struct dividing *dividing, struct class_groups *groups, struct err *err)
{
    const struct dividing before = *dividing;
    int rc = divide_by_memory(dividing, groups, err);
    while (rc == ERR_MEMORY && dividing->device_count > 1) {
        rc = leave_out_least(dividing, err);
        rc = rc ? rc : divide_by_memory(dividing, groups, err);
    }
    if (rc == ERR_MEMORY) { /* all devices count again */
        *dividing = before;
        rc = divide_by_speed(dividing, groups, err);
    }
    return rc;
}

/* Make as many groups as there are devices, more if memory is scarce, or fewer if these would not
 * have a batch each. */
static int divide(struct dividing *dividing, struct class_groups *groups, struct err *err)
{
    const struct parent_slot *parent = dividing->parent;
    const struct job_spec *spec = &parent->job.spec;
    struct class_problem *problem = &dividing->problem;
    const double width_min = problem->width_min;
    int rc = divide_to_fit(dividing, groups, err);
    for (;; rc = divide_by_speed(dividing, groups, err)) {
        rc = rc ? rc : submodel_check_epochs(problem, groups, spec->batch, err);
        problem->width_min = width_min;
        rc = rc == 0 ? 0 : divide_equally(parent->model, spec, problem, groups, err);
        if (rc == 0 || spec->submodel.group_count > 0 || problem->group_count <= 2) {
            return rc;
        }
        problem->group_count--;
    }
}

/* ---- devices of groups ---- */

/* Each group prefers the device whose time it was planned for, if it fits there: equal groups are
 * made without regard to memory. */
static void bind_groups(struct dividing *dividing, struct class_groups *groups)
{
    const struct planning *planning = dividing->core->planning;
    class_groups_queue(dividing->speed, dividing->device_count, groups->count, dividing->place,
                       dividing->among);
    for (size_t g = 0; g < groups->count; g++) {
        const size_t device = dividing->order[dividing->place[g]];
        if (submodel_fits(dividing, groups, g, device)) {
            groups->group[g].device = planning->device[device].id;
        }
    }
}

/* A hypothetical device has the preferences of the device that it resembles. */
static const struct device *device_of(const struct dividing *dividing, size_t d)
{
    const struct device_id *id = &dividing->core->planning->device[d].id;
    const struct what_if_device *assumed =
        dividing->question ? what_if_device(dividing->question, id->text) : NULL;
    const struct device_slot *slot =
        slots_device(dividing->core, assumed ? assumed->like.text : id->text);
    return slot ? &slot->device : NULL;
}

static bool read_preference(const struct device *device, size_t class_count,
                            struct class_ranges *out)
{
    for (size_t i = 0; device && i < device->label_count; i++) {
        if (strcmp(device->label[i].key, CLASS_RANGES_LABEL) == 0) {
            return class_preferences_read(device->label[i].value, class_count, out);
        }
    }
    return false;
}

/* The first group planned for the device, or the last group if the device is too slow to have one.
 * If another device with a preference has that group, the next group without such a device. */
static size_t group_for(const struct dividing *dividing, size_t place, size_t group_count,
                        const struct class_ranges *const *taken)
{
    size_t at = 0;
    while (at < group_count && dividing->place[at] != place) {
        at++;
    }
    at = at < group_count ? at : group_count - 1;
    while (taken[at]) {
        at = (at + 1) % group_count;
    }
    return at;
}

/* Give the device to the group. The group that was planned for it gets the device of the other. */
static void exchange_device(struct class_groups *groups, size_t group,
                            const struct device_id *device)
{
    size_t planned = 0;
    while (planned < groups->count && !id_equal(groups->group[planned].device.text, device->text)) {
        planned++;
    }
    if (planned < groups->count) {
        groups->group[planned].device = groups->group[group].device;
    }
    groups->group[group].device = *device;
}

/* Follow the preferences of devices, unless a group would then have less than a batch. */
static void follow_preferences(struct dividing *dividing, struct class_groups *groups)
{
    const struct class_problem *problem = &dividing->problem;
    struct class_ranges read[GROUPS_MAX];
    const struct class_ranges *preference[GROUPS_MAX] = {NULL};
    struct class_groups followed = *groups;
    struct err err = {0};
    size_t count = 0;
    for (size_t i = 0; i < dividing->device_count && count < groups->count; i++) {
        const size_t d = dividing->order[i];
        const size_t group = group_for(dividing, i, groups->count, preference);
        if (read_preference(device_of(dividing, d), problem->class_count, &read[count]) &&
            submodel_fits(dividing, groups, group, d)) {
            preference[group] = &read[count++];
            exchange_device(&followed, group, &dividing->core->planning->device[d].id);
        }
    }
    class_preferences_follow(problem, preference, &followed);
    if (count > 0 &&
        submodel_check_epochs(problem, &followed, dividing->parent->job.spec.batch, &err) == 0) {
        *groups = followed;
    }
}

/* ---- the whole plan ---- */

int submodel_plan_widths(const struct model *target, const struct submodel_options *options,
                         const int64_t *samples, size_t class_count, struct class_groups *groups,
                         struct err *err)
{
    struct slice_cost cost[GROUPS_MAX];
    struct class_problem problem = {.samples = samples,
                                    .class_count = class_count,
                                    .cost = cost,
                                    .group_count = groups->count,
                                    .negatives = options->negatives,
                                    .replicas = (size_t)options->replicas};
    if (groups->group[0].width > 0) {
        return 0;
    }
    int rc = submodel_width_min(target, (size_t)options->stem, &problem, err);
    const struct slice_loads loads = submodel_loads(target, options, &problem);
    rc = rc ? rc : submodel_operations(&loads, groups->count, cost, err);
    return rc ? rc
              : submodel_fit(target, (size_t)options->stem, &problem, class_widths_choose, groups,
                             err);
}

/* List the devices that have memory for a slice, the fastest first. group_count: 0: choose it by
 * the devices. present: out, whether they are online. */
static int begin(struct core *core, const struct parent_slot *parent,
                 const struct plan_question *question, size_t group_count,
                 struct dividing *dividing, bool *present, struct err *err)
{
    const struct parent *row = &parent->parent;
    const struct submodel_options *options = &parent->job.spec.submodel;
    const size_t stem = (size_t)options->stem;
    *dividing = (struct dividing){.core = core,
                                  .parent = parent,
                                  .question = question,
                                  .problem = {.samples = row->class_samples,
                                              .class_count = row->class_count,
                                              .negatives = options->negatives,
                                              .replicas = (size_t)options->replicas}};
    int rc = submodel_width_min(parent->model, stem, &dividing->problem, err);
    if (rc) {
        return rc;
    }
    *present = list_present(core, parent, question);
    submodel_list_devices(core->planning, stem, dividing->order, dividing->speed);
    rc = choose_devices(dividing, group_count, err);
    *present = *present && dividing->device_count > 0;
    return rc;
}

int submodel_plan(struct core *core, struct parent_slot *parent,
                  const struct plan_question *question, struct err *err)
{
    struct parent *row = &parent->parent;
    struct dividing dividing;
    bool present = false;
    if (job_is_local(&parent->job.spec)) {
        return row->groups.count > 0 ? 0 : submodel_local_plan(core, parent, question, err);
    }
    if (row->groups.count > 0) {
        return submodel_plan_widths(parent->model, &parent->job.spec.submodel, row->class_samples,
                                    row->class_count, &row->groups, err);
    }
    int rc = begin(core, parent, question, 0, &dividing, &present, err);
    rc = rc ? rc : divide(&dividing, &row->groups, err);
    if (rc == 0 && present) {
        bind_groups(&dividing, &row->groups);
        follow_preferences(&dividing, &row->groups);
    }
    row->divisions = rc == 0;
    return rc;
}

int submodel_plan_again(struct core *core, const struct parent_slot *parent,
                        const struct division_trial *trial, struct division *out, struct err *err)
{
    const struct parent *row = &parent->parent;
    const struct job_spec *spec = &parent->job.spec;
    double left, again;
    struct dividing dividing;
    bool present = false;
    int rc = begin(core, parent, NULL, row->groups.count / (size_t)spec->submodel.replicas,
                   &dividing, &present, err);
    rc = rc ? rc : submodel_compare(&dividing, &row->groups, trial->slice, trial->count, err);
    rc = rc ? rc : submodel_epoch_seconds(&dividing, &row->groups, trial->left, &left, err);
    rc = rc ? rc : divide_by_speed(&dividing, &out->groups, err);
    rc = rc ? rc : submodel_check_epochs(&dividing.problem, &out->groups, spec->batch, err);
    if (rc) {
        return rc;
    }
    bind_groups(&dividing, &out->groups);
    follow_preferences(&dividing, &out->groups);
    rc = submodel_epoch_seconds(&dividing, &out->groups, NULL, &again, err);
    if (rc == 0) {
        out->present_seconds = (double)spec->epochs * left;
        out->seconds = (double)spec->epochs * again;
    }
    return rc;
}
