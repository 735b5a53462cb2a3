#include "coordinator/core/submodel_plan.h"

#include <math.h>
#include <string.h>

#include "coordinator/core/candidates.h"
#include "coordinator/core/class_groups.h"
#include "coordinator/core/class_preferences.h"
#include "coordinator/core/device.h"
#include "coordinator/core/matching.h"
#include "coordinator/core/planning.h"
#include "coordinator/core/slots.h"
#include "coordinator/core/state.h"
#include "libtrain/model/slim.h"

#define SECONDS_MIN 1e-9 /* of a micro-batch: predictions are above */

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
 * that are known. */
static void ask_devices(struct core *core, const struct parent_slot *parent,
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
    if (core->planning->device_count == 0) {
        request.candidates = CANDIDATES_KNOWN;
        candidates_fill(core, &request, core->planning);
    }
}

/* Micro-batches a second of a model of which the stem is frozen, by what was measured of its units
 * and else predicted. */
static double speed_of(const struct planning *planning, size_t device, size_t stem)
{
    const size_t units = planning->model->unit_count, row = device * units;
    double seconds = planning->device[device].overhead_seconds;
    for (size_t u = 0; u < units; u++) {
        seconds += planning->expected_forward_seconds[row + u];
        seconds += u >= stem ? planning->expected_backward_seconds[row + u] : 0;
    }
    return planning->device[device].processor_share / fmax(seconds, SECONDS_MIN);
}

/* The fastest first. */
static void list_speeds(const struct planning *planning, size_t stem,
                        double speed[PLANNING_DEVICES_MAX])
{
    for (size_t d = 0; d < planning->device_count; d++) {
        const double own = speed_of(planning, d, stem);
        size_t at = d;
        while (at > 0 && speed[at - 1] < own) {
            speed[at] = speed[at - 1];
            at--;
        }
        speed[at] = own;
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

/* The forward operations of a slice with this share of the channels. */
static int slice_flops(const struct model *model, size_t stem, double width, struct slim_cost *out,
                       struct err *err)
{
    const struct slim_group group[] = {{.classes = model->classes, .width = width},
                                       {.classes = model->classes, .width = 1 - width}};
    const struct slim_split split = {
        .target = model, .stem = stem, .group = group, .group_count = width < 1 ? 2 : 1};
    return slim_cost(&split, 0, out, err);
}

/* The cost of a slice as a polynomial, through those of the whole and of the half. */
static int count_costs(const struct model *model, size_t stem, struct class_problem *problem,
                       struct err *err)
{
    struct slim_cost whole, half;
    uint32_t least = 0;
    int rc = slim_least_channels(model, stem, &least, err);
    rc = rc ? rc : slice_flops(model, stem, 1, &whole, err);
    rc = rc ? rc : slice_flops(model, stem, 0.5, &half, err);
    if (rc) {
        return rc;
    }
    const double square = 2 * (whole.forward_flops - 2 * half.forward_flops);
    problem->cost.stem = whole.stem_flops;
    problem->cost.square = square > 0 ? square : 0;
    problem->cost.linear = whole.forward_flops - problem->cost.square;
    problem->width_min = (double)SLIM_CHANNELS_MIN / (double)least;
    return 0;
}

int submodel_check_room(const struct event_job_submit *submit, struct err *err)
{
    const struct submodel_options *options = &submit->spec->submodel;
    const size_t set = options->group_count > 0 ? (size_t)options->group_count : GROUP_CLASSES_MIN;
    struct class_problem problem = {0};
    int rc = count_costs(submit->model, (size_t)options->stem, &problem, err);
    return rc ? rc : class_groups_room(&problem, set * (size_t)options->replicas, err);
}

static int check_groups(const struct model *target, size_t stem, const struct class_groups *groups,
                        struct err *err)
{
    struct slim_group group[GROUPS_MAX];
    for (size_t g = 0; g < groups->count; g++) {
        group[g] = (struct slim_group){.classes = (uint32_t)groups->group[g].class_count,
                                       .width = groups->group[g].width};
    }
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

/* ---- preferences of devices ---- */

static bool may_train(const struct parent_slot *parent, const struct device_slot *device)
{
    return device_ready(device) && matching_labels(&parent->job.spec, &device->device) &&
           matching_class(&parent->job.spec, &device->device);
}

static bool read_preference(const struct parent_slot *parent, const struct device *device,
                            struct class_preference *out)
{
    for (size_t i = 0; i < device->label_count; i++) {
        if (strcmp(device->label[i].key, CLASS_PREFERENCES_LABEL) == 0) {
            return class_preferences_read(device->label[i].value, parent->parent.class_count, out);
        }
    }
    return false;
}

/* How many devices are faster. */
static size_t rank_of(const struct core *core, const struct parent_slot *parent,
                      const struct device_slot *device)
{
    size_t rank = 0;
    for (size_t i = 0; i < core->devices.count; i++) {
        const struct device_slot *other = slots_device_at(core, i);
        rank += may_train(parent, other) &&
                other->device.probe.gemm_gflops > device->device.probe.gemm_gflops;
    }
    return rank;
}

/* Groups by their load, the largest first. */
static void sort_groups(const struct class_problem *problem, const struct class_groups *groups,
                        size_t order[GROUPS_MAX])
{
    double load[GROUPS_MAX];
    for (size_t g = 0; g < groups->count; g++) {
        const struct class_group *group = &groups->group[g];
        double own = 0;
        size_t at = g;
        for (int64_t c = 0; c < group->class_count; c++) {
            own += (double)problem->samples[groups->class_of[group->class_first + c]];
        }
        load[g] = class_groups_load(problem, own, group->width);
        while (at > 0 && load[order[at - 1]] < load[g]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = g;
    }
}

/* A device that prefers classes has the group that fits its speed, or the next one that no other
 * such device has. */
static void follow_preferences(const struct core *core, struct parent_slot *parent,
                               const struct class_problem *problem)
{
    struct class_groups *groups = &parent->parent.groups;
    struct class_preference read[GROUPS_MAX];
    const struct class_preference *preference[GROUPS_MAX] = {NULL};
    size_t order[GROUPS_MAX], count = 0;
    sort_groups(problem, groups, order);
    for (size_t i = 0; i < core->devices.count && count < groups->count; i++) {
        const struct device_slot *device = slots_device_at(core, i);
        if (!may_train(parent, device) || !read_preference(parent, &device->device, &read[count])) {
            continue;
        }
        size_t at = rank_of(core, parent, device);
        at = at < groups->count ? at : groups->count - 1;
        while (preference[order[at]]) {
            at = (at + 1) % groups->count;
        }
        preference[order[at]] = &read[count++];
        groups->group[order[at]].device = device->device.id;
    }
    if (count > 0) {
        class_preferences_follow(problem, preference, groups);
    }
}

int submodel_plan_widths(const struct model *target, const struct submodel_options *options,
                         const int64_t *samples, size_t class_count, struct class_groups *groups,
                         struct err *err)
{
    double speed[GROUPS_MAX];
    struct class_problem problem = {.samples = samples,
                                    .class_count = class_count,
                                    .speed = speed,
                                    .group_count = groups->count,
                                    .negatives = options->negatives,
                                    .replicas = (size_t)options->replicas};
    if (groups->group[0].width > 0) {
        return 0;
    }
    class_groups_queue(NULL, 0, groups->count, speed);
    int rc = count_costs(target, (size_t)options->stem, &problem, err);
    return rc ? rc : fit(target, (size_t)options->stem, &problem, class_groups_widths, groups, err);
}

int submodel_plan(struct core *core, struct parent_slot *parent,
                  const struct plan_question *question, struct err *err)
{
    double device[PLANNING_DEVICES_MAX], speed[GROUPS_MAX];
    struct parent *row = &parent->parent;
    const struct submodel_options *options = &parent->job.spec.submodel;
    const size_t stem = (size_t)options->stem;
    struct class_problem problem = {.samples = row->class_samples,
                                    .class_count = row->class_count,
                                    .speed = speed,
                                    .negatives = options->negatives,
                                    .replicas = (size_t)options->replicas};
    if (row->groups.count > 0) {
        return submodel_plan_widths(parent->model, options, row->class_samples, row->class_count,
                                    &row->groups, err);
    }
    int rc = count_costs(parent->model, stem, &problem, err);
    if (rc) {
        return rc;
    }
    ask_devices(core, parent, question);
    list_speeds(core->planning, stem, device);
    const size_t devices = core->planning->device_count;
    problem.group_count = count_groups(parent, &problem, devices);
    class_groups_queue(device, devices, problem.group_count * problem.replicas, speed);
    rc = fit(parent->model, stem, &problem, class_groups_solve, &row->groups, err);
    if (rc == 0 && !question) {
        follow_preferences(core, parent, &problem);
    }
    return rc;
}
