#include "coordinator/core/profile.h"

#include <stdio.h>

#include "coordinator/core/planning.h"
#include "coordinator/core/slots.h"
#include "coordinator/core/state.h"
#include "schema/prediction.h"

_Static_assert(PLANNING_LINKS_MAX >= TRAFFIC_MAX, "a question has room for all measured links");
_Static_assert(PLANNING_ESTIMATES_MAX *(PLANNING_ESTIMATES_MAX - 1) / 2 + PLANNING_LINKS_MAX <=
                   PARTITION_PAIRS_MAX,
               "a problem has room for all links");

uint64_t profile_parameter_bytes(struct core *core, const struct job_slot *job, int64_t first,
                                 int64_t end)
{
    uint64_t bytes = 0;
    cost_count(job->model, core->planning->cost);
    for (int64_t u = first; u < end; u++) {
        bytes += core->planning->cost[u].parameter_bytes;
    }
    return bytes;
}

static double careful(const struct capacity_unit *unit, enum unit_pass pass)
{
    return unit->seconds[pass] + (unit->measured ? 0 : unit->sd_seconds[pass]);
}

static void fill_units(const struct core *core, struct planning *planning, size_t d,
                       const struct unit_work *work)
{
    struct capacity_unit unit[UNITS_MAX];
    const size_t units = planning->model->unit_count;
    capacity_units(core, core->candidate[d], work, units,
                   (double)optimizer_update_passes(&planning->spec.optimizer), unit);
    for (size_t u = 0; u < units; u++) {
        planning->forward_seconds[d * units + u] = careful(&unit[u], UNIT_FORWARD);
        planning->backward_seconds[d * units + u] = careful(&unit[u], UNIT_BACKWARD);
        planning->update_seconds[d * units + u] = unit[u].update_seconds;
    }
}

/* Whether the pair is the last one listed or shortly before: the store has the rows of a pair
 * beside each other. */
static bool is_listed(const struct planning *planning, size_t a, size_t b)
{
    for (size_t i = planning->measured_count; i > 0 && i + TRAFFIC_WAYS > planning->measured_count;
         i--) {
        const struct partition_pair *pair = &planning->measured[i - 1];
        if (pair->a == a && pair->b == b) {
            return true;
        }
    }
    return false;
}

static void fill_links(const struct core *core, struct planning *planning)
{
    const struct link_row *row;
    size_t at = 0;
    planning->measured_count = 0;
    while ((row = traffic_next(core, &at)) != NULL) {
        const size_t from = planning_find(planning, row->from.text);
        const size_t to = planning_find(planning, row->to.text);
        const size_t a = from < to ? from : to, b = from < to ? to : from;
        if (b < planning->device_count && !is_listed(planning, a, b)) {
            planning->measured[planning->measured_count++] = (struct partition_pair){
                .a = a, .b = b, .link = traffic_link(core, core->candidate[a], core->candidate[b])};
        }
    }
}

static void fill_device(const struct core *core, struct planning *planning, size_t d)
{
    struct planning_device *device = &planning->device[d];
    const struct capacity_overhead overhead = capacity_overhead(core, core->candidate[d]);
    device->overhead_seconds = overhead.seconds;
    device->overhead_seconds_per_byte = overhead.seconds_per_byte;
    device->has_link = traffic_device_link(core, core->candidate[d], &device->link);
}

void profile_times(const struct core *core, struct planning *planning)
{
    struct unit_work *work = core->capacity->work;
    enum conv2d_backend last = CONV2D_BACKEND_OWN;
    cost_count(planning->model, planning->cost);
    for (size_t d = 0; d < planning->device_count; d++) {
        const enum conv2d_backend backend =
            conv2d_backend_of(core->candidate[d]->device.numeric_class);
        if (d == 0 || backend != last) {
            capacity_work(core, planning->model, &planning->spec, backend, 0,
                          planning->model->unit_count, work);
            last = backend;
        }
        fill_units(core, planning, d, work);
        fill_device(core, planning, d);
    }
    fill_links(core, planning);
}

/* ---- for users ---- */

bool core_predict(const struct core *core, const char *device_id, const struct model *model,
                  const struct job_spec *spec, struct prediction *out)
{
    const struct device_slot *device = slots_device(core, device_id);
    struct unit_work *work = core->capacity->work;
    struct capacity_unit unit[UNITS_MAX];
    if (!device) {
        return false;
    }
    const struct capacity_overhead overhead = capacity_overhead(core, device);
    capacity_work(core, model, spec, conv2d_backend_of(device->device.numeric_class), 0,
                  model->unit_count, work);
    capacity_units(core, device, work, model->unit_count,
                   (double)optimizer_update_passes(&spec->optimizer), unit);
    for (size_t u = 0; u < model->unit_count; u++) {
        out->unit[u] =
            (struct prediction_unit){.forward_seconds = unit[u].seconds[UNIT_FORWARD],
                                     .forward_sd_seconds = unit[u].sd_seconds[UNIT_FORWARD],
                                     .backward_seconds = unit[u].seconds[UNIT_BACKWARD],
                                     .backward_sd_seconds = unit[u].sd_seconds[UNIT_BACKWARD],
                                     .update_seconds = unit[u].update_seconds,
                                     .measured = unit[u].measured};
        (void)snprintf(out->unit[u].name, sizeof(out->unit[u].name), "%s", model->unit[u].name);
    }
    out->device = device->device.id;
    out->unit_count = model->unit_count;
    out->overhead_seconds = overhead.seconds;
    out->overhead_seconds_per_byte = overhead.seconds_per_byte;
    return true;
}
