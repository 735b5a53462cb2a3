#include "coordinator/core/submodel_plan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "coordinator/core/candidates.h"
#include "coordinator/core/class_groups.h"
#include "coordinator/core/class_preferences.h"
#include "coordinator/core/planning.h"
#include "coordinator/core/slice_loads.h"
#include "coordinator/core/slots.h"
#include "coordinator/core/state.h"
#include "coordinator/core/submodel_parts.h"
#include "libtrain/model/slim.h"

/* Units of slices that are predicted within the step, of all devices and widths: about 20 ms. */
#define TIMES_MAX 8192
#define WIDTHS_MIN 4
#define CORRECTIONS 4

void submodel_take_classes(struct parent_slot *parent, const struct event_classes *classes)
{
    struct parent *row = &parent->parent;
    memcpy(row->class_samples, classes->samples, classes->count * sizeof(classes->samples[0]));
    row->class_count = classes->count;
    if (classes->groups) {
        row->groups = *classes->groups;
    }
}

/* The devices that may train groups, as values in core->planning: those that are online, else all
 * that are known. Returns whether they are online. */
static bool ask_devices(struct core *core, const struct parent_slot *parent,
                        const struct plan_question *question)
{
    struct job_spec spec = parent->job.spec;
    struct placement_request request = {.spec = &spec,
                                        .model = parent->model,
                                        .candidates = CANDIDATES_ONLINE,
                                        .question = question};
    spec.strategy = STRATEGY_PIPELINE;
    spec.has_view = true; /* agents have to know it */
    if (question) {
        request.without =
            (struct absent){.device = question->without, .count = question->without_count};
    }
    candidates_fill(core, &request, core->planning);
    const bool online = core->planning->device_count > 0;
    if (!online) {
        request.candidates = CANDIDATES_KNOWN;
        candidates_fill(core, &request, core->planning);
    }
    return online;
}

/* The devices of the planning, the fastest first. */
static void list_devices(const struct planning *planning, size_t stem, size_t *order, double *speed)
{
    for (size_t d = 0; d < planning->device_count; d++) {
        const double own = planning_speed(planning, d, stem);
        size_t at = d;
        while (at > 0 && speed[at - 1] < own) {
            speed[at] = speed[at - 1];
            order[at] = order[at - 1];
            at--;
        }
        speed[at] = own;
        order[at] = d;
    }
}

/* The number of groups that serve all classes. */
static size_t count_groups(const struct parent_slot *parent, const struct class_problem *problem,
                           size_t devices)
{
    const size_t wanted = (size_t)parent->job.spec.submodel.group_count;
    const size_t count = class_groups_count(parent->parent.class_count, devices);
    const double most = floor(1 / problem->width_min / (double)problem->replicas);
    return wanted > 0             ? wanted
           : (double)count > most ? (size_t)most /* the narrowest layer allows no more */
                                  : count;
}

/* ---- loads ---- */

/* The least share of the channels. */
static int find_width_min(const struct model *model, size_t stem, struct class_problem *problem,
                          struct err *err)
{
    uint32_t least = 0;
    int rc = slim_least_channels(model, stem, &least, err);
    if (rc == 0) {
        problem->width_min = (double)SLIM_CHANNELS_MIN / (double)least;
    }
    return rc;
}

static struct slice_loads loads_of(const struct model *target,
                                   const struct submodel_options *options,
                                   const struct class_problem *problem)
{
    return (struct slice_loads){.target = target,
                                .stem = (size_t)options->stem,
                                .classes = problem->class_count / problem->group_count,
                                .width_min = problem->width_min};
}

/* The same operations for all groups. cost[groups]: out. */
static int list_operations(const struct slice_loads *loads, size_t groups, struct slice_cost *cost,
                           struct err *err)
{
    int rc = slice_loads_list(loads, 0, SLICE_WIDTHS_MAX, &cost[0], err);
    for (size_t g = 1; g < groups; g++) {
        cost[g] = cost[0];
    }
    return rc;
}

/* ---- one division ---- */

static void list_widths(const struct class_groups *groups, struct slim_group group[GROUPS_MAX])
{
    for (size_t g = 0; g < groups->count; g++) {
        group[g] = (struct slim_group){.classes = (uint32_t)groups->group[g].class_count,
                                       .width = groups->group[g].width};
    }
}

static int check_groups(const struct model *target, size_t stem, const struct class_groups *groups,
                        struct err *err)
{
    struct slim_group group[GROUPS_MAX];
    list_widths(groups, group);
    const struct slim_split split = {
        .target = target, .stem = stem, .group = group, .group_count = groups->count};
    return slim_check(&split, err);
}

typedef int (*choose_fn)(const struct class_problem *problem, struct class_groups *groups,
                         struct err *err);

/* Channels are divided at whole numbers: a group of the least width may get one channel less. */
static int fit(const struct model *target, size_t stem, struct class_problem *problem,
               choose_fn choose, struct class_groups *groups, struct err *err)
{
    const double one = problem->width_min / SLIM_CHANNELS_MIN;
    int rc = choose(problem, groups, err);
    if (rc == 0 && check_groups(target, stem, groups, err) != 0) {
        problem->width_min += one;
        rc = choose(problem, groups, err);
        rc = rc ? rc : check_groups(target, stem, groups, err);
    }
    return rc;
}

/* ---- batches ---- */

/* A group trains whole batches: it needs one in an epoch. */
static int check_epochs(const struct class_groups *groups, const struct event_classes *classes,
                        const struct job_spec *spec, struct err *err)
{
    for (size_t g = 0; g < groups->count; g++) {
        struct view view;
        struct view_sizes sizes;
        submodel_group_view(groups, g, classes, spec->submodel.negatives, &view, &sizes);
        if ((int64_t)view_epoch(&sizes) < spec->batch) {
            return err_set(err, ERR_INVALID,
                           "one of %zu groups would have %" PRIu64
                           " training samples in an epoch, fewer than a batch of %" PRId64,
                           groups->count, view_epoch(&sizes), spec->batch);
        }
    }
    return 0;
}

/* Without regard to devices: what a submission is checked by, and what is left where unequal groups
 * are too small. */
static int divide_equally(const struct model *target, const struct job_spec *spec,
                          const struct class_problem *problem, struct class_groups *groups,
                          struct err *err)
{
    struct slice_cost cost[GROUPS_MAX];
    struct class_problem alike = *problem;
    const struct event_classes classes = {.samples = problem->samples,
                                          .count = problem->class_count};
    if (problem->group_count < 2) {
        return class_groups_solve(problem, groups, err); /* which says so */
    }
    const struct slice_loads loads = loads_of(target, &spec->submodel, problem);
    int rc = list_operations(&loads, problem->group_count * problem->replicas, cost, err);
    alike.cost = cost;
    rc =
        rc ? rc : fit(target, (size_t)spec->submodel.stem, &alike, class_groups_solve, groups, err);
    return rc ? rc : check_epochs(groups, &classes, spec, err);
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
    int rc = find_width_min(target, (size_t)options->stem, &problem, err);
    return rc ? rc : divide_equally(target, spec, &problem, &groups, err);
}

/* ---- devices ---- */

/* How the groups are divided among devices, while it is searched for. Devices are in the order of
 * their speed. */
struct dividing {
    const struct core *core;
    const struct parent_slot *parent;
    const struct plan_question *question;
    struct class_problem problem;
    size_t order[PLANNING_DEVICES_MAX]; /* of the planning */
    double speed[PLANNING_DEVICES_MAX]; /* with the whole target */
    struct slice_cost seconds[GROUPS_MAX];
    size_t timed; /* devices whose seconds are known */
    size_t place[GROUPS_MAX], among[GROUPS_MAX];
    struct slice_cost cost[GROUPS_MAX];
};

/* Narrow layers compute fewer operations a second than wide ones, by another factor on each device:
 * slices are compared by their seconds. */
static int time_devices(struct dividing *dividing, size_t count, struct err *err)
{
    const struct model *target = dividing->parent->model;
    struct slice_loads loads =
        loads_of(target, &dividing->parent->job.spec.submodel, &dividing->problem);
    const size_t most = TIMES_MAX / (count * target->unit_count);
    const size_t widths = most < WIDTHS_MIN         ? WIDTHS_MIN
                          : most < SLICE_WIDTHS_MAX ? most
                                                    : SLICE_WIDTHS_MAX;
    int rc = 0;
    loads.core = dividing->core;
    loads.question = dividing->question;
    for (; rc == 0 && dividing->timed < count; dividing->timed++) {
        rc = slice_loads_list(&loads, dividing->order[dividing->timed], widths,
                              &dividing->seconds[dividing->timed], err);
    }
    return rc;
}

/* Channels are whole numbers, so the slices of a division differ from those of the known widths:
 * multiply their loads by what each slice takes. Returns the largest load; below 0: an error. */
static double correct(struct dividing *dividing, const struct class_groups *groups, struct err *err)
{
    struct slim_group group[GROUPS_MAX];
    const struct slim_split split = {.target = dividing->parent->model,
                                     .stem = (size_t)dividing->parent->job.spec.submodel.stem,
                                     .group = group,
                                     .group_count = groups->count};
    double largest = 0;
    list_widths(groups, group);
    for (size_t g = 0; g < groups->count; g++) {
        struct slice_cost *cost = &dividing->cost[g];
        const double own = class_groups_own(&dividing->problem, groups, g);
        const double samples = class_groups_samples(&dividing->problem, own);
        const double expected =
            class_groups_load(&dividing->problem, g, own, groups->group[g].width) / samples;
        const struct slice_place place = {
            .split = &split, .group = g, .device = dividing->order[dividing->place[g]]};
        double seconds;
        if (slice_loads_sample(dividing->core, dividing->question, &place, &seconds, err) != 0) {
            return -1;
        }
        seconds *= (double)dividing->among[g];
        largest = fmax(largest, seconds * samples);
        for (size_t i = 0; i < cost->count; i++) {
            cost->load[i] *= seconds / expected;
        }
    }
    return largest;
}

/* Divide, and the widths again by the slices that this gives; the best counts. */
static int come_closer(struct dividing *dividing, struct class_groups *groups, struct err *err)
{
    const struct model *target = dividing->parent->model;
    const size_t stem = (size_t)dividing->parent->job.spec.submodel.stem;
    struct class_groups found;
    double best = INFINITY;
    int rc = fit(target, stem, &dividing->problem, class_groups_solve, &found, err);
    for (int i = 0; rc == 0 && i < CORRECTIONS; i++) {
        const double largest = correct(dividing, &found, err);
        if (largest < 0) {
            return ERR_INVALID;
        }
        if (largest < best) {
            best = largest;
            *groups = found;
        }
        rc = fit(target, stem, &dividing->problem, class_groups_widths, &found, err);
    }
    return rc;
}

static int divide_by_speed(struct dividing *dividing, struct class_groups *groups, struct err *err)
{
    struct class_problem *problem = &dividing->problem;
    const size_t devices = dividing->core->planning->device_count,
                 count = problem->group_count * problem->replicas;
    if (devices == 0 || problem->group_count < 2 || count > GROUPS_MAX) {
        return ERR_INVALID;
    }
    int rc = time_devices(dividing, devices < count ? devices : count, err);
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
    return come_closer(dividing, groups, err);
}

/* As many groups as there are devices, or fewer if they would not have a batch each. */
static int divide(struct dividing *dividing, struct class_groups *groups, struct err *err)
{
    const struct parent_slot *parent = dividing->parent;
    const struct job_spec *spec = &parent->job.spec;
    const struct event_classes classes = {.samples = dividing->problem.samples,
                                          .count = dividing->problem.class_count};
    struct class_problem *problem = &dividing->problem;
    const double width_min = problem->width_min;
    for (;; problem->group_count--) {
        int rc = divide_by_speed(dividing, groups, err);
        rc = rc ? rc : check_epochs(groups, &classes, spec, err);
        problem->width_min = width_min;
        rc = rc == 0 ? 0 : divide_equally(parent->model, spec, problem, groups, err);
        if (rc == 0 || spec->submodel.group_count > 0 || problem->group_count <= 2) {
            return rc;
        }
    }
}

/* ---- preferences of devices ---- */

/* A hypothetical device prefers what the one prefers that it is like. */
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
                            struct class_preference *out)
{
    for (size_t i = 0; device && i < device->label_count; i++) {
        if (strcmp(device->label[i].key, CLASS_PREFERENCES_LABEL) == 0) {
            return class_preferences_read(device->label[i].value, class_count, out);
        }
    }
    return false;
}

/* The group that is planned for the device, or the next one that no other such device has: its
 * first, for a device that is too slow to have one the last. */
static size_t group_for(const struct dividing *dividing, size_t place, size_t group_count,
                        const struct class_preference *const *taken)
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

/* Unless a group would then have less than a batch. */
static void follow_preferences(const struct dividing *dividing, struct class_groups *groups)
{
    const struct class_problem *problem = &dividing->problem;
    const struct event_classes classes = {.samples = problem->samples,
                                          .count = problem->class_count};
    struct class_preference read[GROUPS_MAX];
    const struct class_preference *preference[GROUPS_MAX] = {NULL};
    struct class_groups followed = *groups;
    struct err err = {0};
    size_t count = 0;
    for (size_t i = 0; i < dividing->core->planning->device_count && count < groups->count; i++) {
        const size_t d = dividing->order[i];
        if (read_preference(device_of(dividing, d), problem->class_count, &read[count])) {
            const size_t group = group_for(dividing, i, groups->count, preference);
            preference[group] = &read[count++];
            followed.group[group].device = dividing->core->planning->device[d].id;
        }
    }
    class_preferences_follow(problem, preference, &followed);
    if (count > 0 && check_epochs(&followed, &classes, &dividing->parent->job.spec, &err) == 0) {
        *groups = followed;
    }
}

/* ---- all of it ---- */

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
    int rc = find_width_min(target, (size_t)options->stem, &problem, err);
    const struct slice_loads loads = loads_of(target, options, &problem);
    rc = rc ? rc : list_operations(&loads, groups->count, cost, err);
    return rc ? rc : fit(target, (size_t)options->stem, &problem, class_groups_widths, groups, err);
}

int submodel_plan(struct core *core, struct parent_slot *parent,
                  const struct plan_question *question, struct err *err)
{
    struct parent *row = &parent->parent;
    const struct submodel_options *options = &parent->job.spec.submodel;
    const size_t stem = (size_t)options->stem;
    struct dividing dividing = {.core = core,
                                .parent = parent,
                                .question = question,
                                .problem = {.samples = row->class_samples,
                                            .class_count = row->class_count,
                                            .negatives = options->negatives,
                                            .replicas = (size_t)options->replicas}};
    if (row->groups.count > 0) {
        return submodel_plan_widths(parent->model, options, row->class_samples, row->class_count,
                                    &row->groups, err);
    }
    int rc = find_width_min(parent->model, stem, &dividing.problem, err);
    if (rc) {
        return rc;
    }
    const bool present = ask_devices(core, parent, question);
    list_devices(core->planning, stem, dividing.order, dividing.speed);
    dividing.problem.group_count =
        count_groups(parent, &dividing.problem, core->planning->device_count);
    rc = divide(&dividing, &row->groups, err);
    if (rc == 0 && present) {
        follow_preferences(&dividing, &row->groups);
    }
    return rc;
}
