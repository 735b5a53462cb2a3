#include "coordinator/core/submodel/submodel_divide.h"

#include <math.h>

#include "base/sort.h"
#include "coordinator/core/placement/candidates.h"
#include "coordinator/core/submodel/submodel_parts.h"

/* Most units of slices that are predicted within a step, over all devices and widths: about 20 ms.
 */
#define TIMES_MAX 8192
#define WIDTHS_MIN 4
#define CORRECTIONS 4
#define FITTINGS_MAX 8 /* divisions that are tried until all slices fit on their devices */
#define NARROWER 0.9   /* of the width of a slice that does not fit: the next one to try */

/* ---- loads ---- */

int submodel_width_min(const struct model *model, size_t stem, struct class_problem *problem,
                       struct err *err)
{
    uint32_t least = 0;
    int rc = slim_least_channels(model, stem, &least, err);
    if (rc == 0) {
        problem->width_min = (double)SLIM_CHANNELS_MIN / (double)least;
    }
    return rc;
}

struct slice_loads submodel_loads(const struct model *target,
                                  const struct submodel_options *options,
                                  const struct class_problem *problem)
{
    return (struct slice_loads){.target = target,
                                .stem = (size_t)options->stem,
                                .classes = problem->class_count / problem->group_count,
                                .width_min = problem->width_min};
}

int submodel_operations(const struct slice_loads *loads, size_t groups, struct slice_cost *cost,
                        struct err *err)
{
    int rc = slice_loads_list(loads, 0, SLICE_WIDTHS_MAX, &cost[0], err);
    for (size_t g = 1; g < groups; g++) {
        cost[g] = cost[0];
    }
    return rc;
}

/* ---- one division ---- */

static struct slim_split split_of(const struct dividing *dividing,
                                  const struct class_groups *groups,
                                  struct slim_group group[GROUPS_MAX])
{
    return submodel_split(dividing->parent->model, (size_t)dividing->parent->job.spec.submodel.stem,
                          groups, group);
}

static int check_groups(const struct model *target, size_t stem, const struct class_groups *groups,
                        struct err *err)
{
    struct slim_group group[GROUPS_MAX];
    const struct slim_split split = submodel_split(target, stem, groups, group);
    return slim_check(&split, err);
}

/* Channels are whole numbers, so a group of the least width may get one channel too few. */
int submodel_fit(const struct model *target, size_t stem, struct class_problem *problem,
                 submodel_choose_fn choose, struct class_groups *groups, struct err *err)
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

/* ---- among devices ---- */

void submodel_fill_devices(struct core *core, const struct job_spec *spec,
                           const struct model *model, enum candidates candidates,
                           const struct plan_question *question)
{
    struct job_spec asked = *spec;
    struct placement_request request = {
        .spec = &asked, .model = model, .candidates = candidates, .question = question};
    asked.strategy = STRATEGY_PIPELINE;
    asked.has_view = true; /* only agents that know views may train groups */
    if (question) {
        request.without =
            (struct absent){.device = question->without, .count = question->without_count};
    }
    candidates_fill(core, &request, core->planning);
}

void submodel_list_devices(const struct planning *planning, size_t stem, size_t *order,
                           double *speed)
{
    for (size_t d = 0; d < planning->device_count; d++) {
        sort_insert(order, speed, d, planning_speed(planning, d, stem));
    }
}

static struct slice_loads loads_of(const struct dividing *dividing)
{
    struct slice_loads loads = submodel_loads(
        dividing->parent->model, &dividing->parent->job.spec.submodel, &dividing->problem);
    loads.core = dividing->core;
    loads.question = dividing->question;
    loads.ratio = dividing->ratio;
    return loads;
}

/* The widths at which the slices of so many devices are known. */
static size_t count_widths(const struct dividing *dividing, size_t devices)
{
    const size_t most = TIMES_MAX / (devices * dividing->parent->model->unit_count);
    return most < WIDTHS_MIN ? WIDTHS_MIN : most < SLICE_WIDTHS_MAX ? most : SLICE_WIDTHS_MAX;
}

int submodel_width_max(struct dividing *dividing, size_t device, double *out, struct err *err)
{
    const struct planning *planning = dividing->core->planning;
    const enum conv2d_backend backend = conv2d_backend_of(planning->device[device].numeric_class);
    struct slice_memory *memory = &dividing->memory[backend];
    if (memory->count == 0) {
        const struct slice_loads loads = loads_of(dividing);
        int rc = slice_memory_list(&loads, backend, count_widths(dividing, 1), memory, err);
        if (rc) {
            return rc;
        }
    }
    *out = slice_memory_width(memory, planning, device);
    return 0;
}

/* Narrow layers compute fewer operations per second than wide ones, by a factor that depends on the
 * device. So slices are compared by their seconds. */
int submodel_time_devices(struct dividing *dividing, size_t count, struct err *err)
{
    const struct slice_loads loads = loads_of(dividing);
    int rc = 0;
    for (; rc == 0 && dividing->timed < count; dividing->timed++) {
        const size_t device = dividing->order[dividing->timed];
        struct slice_cost *seconds = &dividing->seconds[dividing->timed];
        rc = slice_loads_list(&loads, device, count_widths(dividing, count), seconds, err);
        if (rc == 0 && !dividing->any_memory) {
            rc = submodel_width_max(dividing, device, &seconds->width_max, err);
            seconds->width_max = fmax(seconds->width_max, dividing->problem.width_min);
        }
    }
    return rc;
}

bool submodel_fits(struct dividing *dividing, const struct class_groups *groups, size_t group,
                   size_t device)
{
    struct slim_group slim[GROUPS_MAX];
    const struct slim_split split = split_of(dividing, groups, slim);
    const struct slice_place place = {.split = &split, .group = group, .device = device};
    struct err ignored = {0};
    bool fits;
    return slice_memory_fits(dividing->core, &place, &fits, &ignored) == 0 && fits;
}

/* Whether the device holds slices of some widths only. */
static bool is_limited(const struct slice_cost *cost)
{
    return cost->width_max > 0 && cost->width_max < 1;
}

/* Whether narrower slices may be tried on the devices whose slices do not fit. */
static bool may_narrow(const struct dividing *dividing, size_t groups)
{
    bool may = true;
    for (size_t g = 0; g < groups; g++) {
        const struct slice_cost *cost = &dividing->cost[g];
        may = may && (!is_limited(cost) || cost->width_max >= dividing->problem.width_min);
    }
    return may;
}

/* What the slices of a division really take. */
struct outcome {
    double largest; /* seconds of the device that is busy longest */
    bool fits;      /* all slices fit on their devices */
};

/* Channels are whole numbers, so the slices of a division differ from those of the known widths.
 * Scale the loads of each group by the real time of its slice. A slice that does not fit has to be
 * narrower. */
static int correct(struct dividing *dividing, const struct class_groups *groups,
                   struct outcome *out, struct err *err)
{
    struct slim_group group[GROUPS_MAX];
    const struct slim_split split = split_of(dividing, groups, group);
    double busy[GROUPS_MAX] = {0};
    *out = (struct outcome){.fits = true};
    for (size_t g = 0; g < groups->count; g++) {
        struct slice_cost *cost = &dividing->cost[g];
        const double own = class_loads_own(&dividing->problem, groups, g);
        const double samples = class_loads_samples(&dividing->problem, g, own);
        const double expected =
            class_loads_of(&dividing->problem, g, own, groups->group[g].width) / samples;
        const size_t device = dividing->order[dividing->place[g]];
        const struct slice_place place = {
            .split = &split, .group = g, .device = device, .ratio = dividing->ratio[device]};
        double seconds;
        int rc = slice_loads_sample(dividing->core, dividing->question, &place, &seconds, err);
        if (rc) {
            return rc;
        }
        if (is_limited(cost) && !submodel_fits(dividing, groups, g, device)) {
            cost->width_max = NARROWER * groups->group[g].width;
            out->fits = false;
        }
        busy[dividing->place[g]] += seconds * samples;
        out->largest = fmax(out->largest, busy[dividing->place[g]]);
        seconds *= (double)dividing->among[g];
        for (size_t i = 0; i < cost->count; i++) {
            cost->load[i] *= seconds / expected;
        }
    }
    return 0;
}

int submodel_divide(struct dividing *dividing, submodel_choose_fn choose,
                    struct class_groups *groups, struct err *err)
{
    const struct model *target = dividing->parent->model;
    const size_t stem = (size_t)dividing->parent->job.spec.submodel.stem;
    struct class_groups found = *groups;
    double best = INFINITY;
    int rc = submodel_fit(target, stem, &dividing->problem, choose, &found, err);
    for (int i = 0; rc == 0 && (i < CORRECTIONS || (best == INFINITY && i < FITTINGS_MAX)); i++) {
        struct outcome outcome;
        rc = correct(dividing, &found, &outcome, err);
        if (rc == 0 && outcome.fits && outcome.largest < best) {
            best = outcome.largest;
            *groups = found;
        }
        if (rc == 0 && !may_narrow(dividing, found.count)) {
            break;
        }
        rc = rc ? rc
                : submodel_fit(target, stem, &dividing->problem, class_widths_choose, &found, err);
    }
    if (best < INFINITY) {
        return 0;
    }
    return rc ? rc : err_set(err, ERR_MEMORY, "the slices do not fit on their devices");
}

int submodel_exchange(struct dividing *dividing, struct class_groups *groups, struct err *err)
{
    struct class_groups found = *groups;
    struct outcome before, after;
    int rc = correct(dividing, &found, &before, err);
    if (rc || !class_groups_exchange(&dividing->problem, &found)) {
        return rc;
    }
    rc = correct(dividing, &found, &after, err);
    if (rc == 0 && after.fits && after.largest < before.largest) {
        *groups = found;
    }
    return rc;
}

/* ---- by measured slices ---- */

static int find_device(const struct dividing *dividing, const struct device_id *id, size_t *out,
                       struct err *err)
{
    const struct planning *planning = dividing->core->planning;
    *out = planning_find(planning, id->text);
    return *out < planning->device_count
               ? 0
               : err_set(err, ERR_INVALID, "device '%s' is not a candidate", id->text);
}

int submodel_compare(struct dividing *dividing, const struct class_groups *groups,
                     const struct slice_seconds *measured, size_t count, struct err *err)
{
    struct slim_group group[GROUPS_MAX];
    const struct slim_split split = split_of(dividing, groups, group);
    double taken[PLANNING_DEVICES_MAX] = {0}, expected[PLANNING_DEVICES_MAX] = {0}, sum = 0;
    for (size_t i = 0; i < count; i++) {
        struct slice_place place = {.split = &split, .group = measured[i].group, .ratio = 1};
        double predicted;
        int rc = find_device(dividing, &measured[i].device, &place.device, err);
        rc = rc ? rc
                : slice_loads_sample(dividing->core, dividing->question, &place, &predicted, err);
        if (rc) {
            return rc;
        }
        taken[place.device] += measured[i].seconds;
        expected[place.device] += predicted;
        sum += measured[i].seconds / predicted;
    }
    for (size_t d = 0; d < dividing->core->planning->device_count; d++) {
        dividing->ratio[d] = expected[d] > 0 ? taken[d] / expected[d] : sum / (double)count;
    }
    return 0;
}

int submodel_epoch_seconds(const struct dividing *dividing, const struct class_groups *groups,
                           const double *part, double *out, struct err *err)
{
    struct slim_group group[GROUPS_MAX];
    const struct slim_split split = split_of(dividing, groups, group);
    double busy[PLANNING_DEVICES_MAX] = {0};
    *out = 0;
    for (size_t g = 0; g < groups->count; g++) {
        struct slice_place place = {.split = &split, .group = g};
        double seconds;
        int rc = find_device(dividing, &groups->group[g].device, &place.device, err);
        if (rc) {
            return rc;
        }
        place.ratio = dividing->ratio[place.device];
        rc = slice_loads_sample(dividing->core, dividing->question, &place, &seconds, err);
        if (rc) {
            return rc;
        }
        const double own = class_loads_own(&dividing->problem, groups, g);
        const double samples = class_loads_samples(&dividing->problem, g, own);
        busy[place.device] += seconds * samples * (part ? part[g] : 1);
        *out = fmax(*out, busy[place.device]);
    }
    return 0;
}
