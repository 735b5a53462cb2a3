#include "coordinator/core/submodel/slice_loads.h"

#include <math.h>

#include "coordinator/core/capacity/capacity.h"
#include "coordinator/core/capacity/capacity_units.h"
#include "coordinator/core/state/planning.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "libtrain/kernels/op_workspace.h"

#define WIDTH_EPSILON 1e-9 /* keeps the number of channels if a width was rounded down */

struct listing {
    const struct planning *planning;
    enum conv2d_backend backend;
    bool predicted;         /* without the times that devices measured for units of these shapes */
    struct unit_work *work; /* by the unit's index */
};

struct unit slice_loads_unit(const struct unit *unit, struct op op[MODEL_UNIT_OPS_MAX])
{
    struct unit own = *unit;
    own.op = op;
    for (size_t i = 0; i < unit->op_count; i++) {
        op[i] = unit->op[i];
        if (op[i].type == OP_CONV2D) {
            op[i].kernels = op_slice_kernels(&op[i]);
        }
    }
    return own;
}

static void list_unit(void *arg, size_t index, const struct unit *unit,
                      const struct unit_cost *cost)
{
    const struct listing *listing = arg;
    const struct job_spec *spec = &listing->planning->spec;
    struct op op[MODEL_UNIT_OPS_MAX];
    struct unit own = slice_loads_unit(unit, op);
    const struct model alone = {.unit = &own, .unit_count = 1};
    const struct unit_setting setting = {.model = &alone,
                                         .cost = cost,
                                         .samples = spec->batch / spec->micro_batches,
                                         .recompute = (enum recompute)spec->recompute,
                                         .backend = listing->backend};
    unit_work_of(&setting, 0, &listing->work[index]);
    if (listing->predicted) {
        listing->work[index].shape = UNIT_SHAPE_NONE;
    }
}

/* Predict the times of units on a real or hypothetical device. Return the factor by which the
 * device is faster than these times. */
static double predict(const struct core *core, const struct plan_question *question,
                      const struct device_id *id, const struct unit_work *work, size_t count,
                      double update_passes, struct capacity_unit *out)
{
    const struct what_if_device *assumed = question ? what_if_device(question, id->text) : NULL;
    const char *like = assumed ? assumed->like.text : id->text;
    const struct device_slot *device = slots_device(core, like);
    if (device) {
        /* Two equal devices run different units of the stem. Their own regressions can then differ
         * by half on a slice that neither has run. */
        capacity_fleet_units(core, device, work, count, update_passes, out);
    } else {
        capacity_probed_units(core, assumed->gflops * 1e9, assumed->memory_bytes_per_second, work,
                              count, update_passes, out);
    }
    return assumed && assumed->speed > 0 ? assumed->speed : 1;
}

/* The stem has only a forward pass, as in the target. */
int slice_loads_sample(const struct core *core, const struct plan_question *question,
                       const struct slice_place *place, double *out, struct err *err)
{
    const struct planning *planning = core->planning;
    struct capacity_unit unit[UNITS_MAX];
    const struct planning_device *device = &planning->device[place->device];
    const struct job_spec *spec = &planning->spec;
    const struct model *target = place->split->target;
    const size_t stem = place->split->stem, count = target->unit_count - stem;
    struct listing listing = {.planning = planning,
                              .backend = conv2d_backend_of(device->numeric_class),
                              .predicted = place->ratio > 0,
                              .work = core->capacity->work};
    int rc = slim_visit(place->split, place->group, list_unit, &listing, err);
    if (rc) {
        return rc;
    }
    const double speed = predict(core, question, &device->id, listing.work + stem, count,
                                 (double)optimizer_update_passes(&spec->optimizer), unit);
    double micro_batch = 0, update = 0;
    for (size_t u = 0; u < count; u++) {
        micro_batch += unit[u].seconds[UNIT_FORWARD] + unit[u].seconds[UNIT_BACKWARD];
        update += unit[u].update_seconds;
    }
    micro_batch = micro_batch / speed + device->overhead_seconds;
    for (size_t u = 0; u < stem; u++) {
        micro_batch += planning->expected_forward_seconds[place->device * target->unit_count + u];
    }
    *out = (micro_batch * (double)spec->micro_batches + update / speed) / (double)spec->batch /
           device->processor_share;
    *out *= place->ratio > 0 ? place->ratio : 1;
    return 0;
}

/* ---- by width ---- */

struct slim_split slice_loads_split(const struct slice_loads *loads, size_t i, size_t count,
                                    struct slim_group group[2], double *width)
{
    const double factor = 1 / loads->width_min;
    *width = i + 1 == count ? 1 : loads->width_min * pow(factor, (double)i / (double)(count - 1));
    const double most = *width + WIDTH_EPSILON;
    const bool whole = 1 - most < loads->width_min; /* the rest is too narrow for a slice */
    const uint32_t classes = (uint32_t)loads->classes;
    group[0] = (struct slim_group){.classes = classes, .width = whole ? 1 : most};
    group[1] = (struct slim_group){.classes = classes, .width = 1 - most};
    return (struct slim_split){
        .target = loads->target, .stem = loads->stem, .group = group, .group_count = whole ? 1 : 2};
}

static int find_load(const struct slice_loads *loads, const struct slim_split *split, size_t device,
                     double *out, struct err *err)
{
    struct slim_cost cost;
    if (loads->core) {
        const struct slice_place place = {
            .split = split, .device = device, .ratio = loads->ratio[device]};
        return slice_loads_sample(loads->core, loads->question, &place, out, err);
    }
    int rc = slim_cost(split, 0, &cost, err);
    *out = rc ? 0 : slim_load(&cost);
    return rc;
}

int slice_loads_list(const struct slice_loads *loads, size_t device, size_t count,
                     struct slice_cost *out, struct err *err)
{
    int rc = 0;
    *out = (struct slice_cost){.count = count};
    for (size_t i = 0; rc == 0 && i < count; i++) {
        struct slim_group group[2];
        const struct slim_split split = slice_loads_split(loads, i, count, group, &out->width[i]);
        rc = find_load(loads, &split, device, &out->load[i], err);
    }
    return rc;
}
