#include "coordinator/core/submodel_plan.h"

#include <math.h>
#include <string.h>

#include "coordinator/core/class_groups.h"
#include "coordinator/core/device.h"
#include "coordinator/core/matching.h"
#include "coordinator/core/slots.h"
#include "coordinator/core/state.h"
#include "libtrain/model/slim.h"

static size_t list_speeds(const struct core *core, const struct job_spec *spec, bool ready,
                          double speed[DEVICES_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < core->devices.count; i++) {
        const struct device_slot *device = slots_device_at(core, i);
        const double own = device->device.probe.gemm_gflops;
        size_t at = count;
        if (!matching_labels(spec, &device->device) || !matching_class(spec, &device->device) ||
            (ready && !device_ready(device)) || own <= 0) {
            continue;
        }
        while (at > 0 && speed[at - 1] < own) {
            speed[at] = speed[at - 1];
            at--;
        }
        speed[at] = own;
        count++;
    }
    return count;
}

/* The speeds of the devices that groups get, the fastest first. With more groups than devices,
 * groups queue, and equal ones keep the devices busy. */
static size_t choose_speeds(const struct core *core, const struct parent_slot *parent,
                            double speed[GROUPS_MAX])
{
    static const double unknown = 1;
    double all[DEVICES_MAX];
    const struct job_spec *spec = &parent->job.spec;
    size_t devices = list_speeds(core, spec, true, all);
    devices = devices > 0 ? devices : list_speeds(core, spec, false, all);
    const size_t groups = spec->submodel.group_count > 0
                              ? (size_t)spec->submodel.group_count
                              : class_groups_count(parent->parent.class_count, devices);
    for (size_t g = 0; g < groups; g++) {
        speed[g] = groups <= devices ? all[g] : unknown;
    }
    return groups;
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

static int check_groups(const struct parent_slot *parent, struct err *err)
{
    const struct class_groups *groups = &parent->parent.groups;
    struct slim_group group[GROUPS_MAX];
    for (size_t g = 0; g < groups->count; g++) {
        group[g] = (struct slim_group){.classes = (uint32_t)groups->group[g].class_count,
                                       .width = groups->group[g].width};
    }
    const struct slim_split split = {.target = parent->model,
                                     .stem = (size_t)parent->job.spec.submodel.stem,
                                     .group = group,
                                     .group_count = groups->count};
    return slim_check(&split, err);
}

/* Channels are divided at whole numbers: a group of the least width may get one channel less. */
static int solve(struct parent_slot *parent, struct class_problem *problem, struct err *err)
{
    const double one = problem->width_min / SLIM_CHANNELS_MIN;
    int rc = class_groups_solve(problem, &parent->parent.groups, err);
    if (rc == 0 && check_groups(parent, err) != 0) {
        problem->width_min += one;
        rc = class_groups_solve(problem, &parent->parent.groups, err);
        rc = rc ? rc : check_groups(parent, err);
    }
    return rc;
}

int submodel_plan(const struct core *core, struct parent_slot *parent, struct err *err)
{
    double speed[GROUPS_MAX];
    struct parent *row = &parent->parent;
    struct class_problem problem = {.samples = row->class_samples,
                                    .class_count = row->class_count,
                                    .speed = speed,
                                    .negatives = parent->job.spec.submodel.negatives,
                                    .replicas = (size_t)parent->job.spec.submodel.replicas};
    int rc = count_costs(parent->model, (size_t)parent->job.spec.submodel.stem, &problem, err);
    if (rc) {
        return rc;
    }
    if (row->groups.count == 0) {
        problem.group_count = choose_speeds(core, parent, speed);
        const double most = floor(1 / problem.width_min / (double)problem.replicas);
        if (parent->job.spec.submodel.group_count == 0 && (double)problem.group_count > most) {
            problem.group_count = (size_t)most; /* the narrowest layer allows no more */
        }
        return solve(parent, &problem, err);
    }
    for (size_t g = 0; g < row->groups.count; g++) {
        speed[g] = 1;
    }
    problem.group_count = row->groups.count;
    return row->groups.group[0].width > 0 ? 0 : class_groups_widths(&problem, &row->groups, err);
}
