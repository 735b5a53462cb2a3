#include "coordinator/core/capacity/profile.h"

#include <math.h>
#include <stdio.h>

#include "coordinator/core/capacity/capacity.h"
#include "coordinator/core/capacity/capacity_units.h"
#include "coordinator/core/state/layout.h"
#include "coordinator/core/state/planning.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "schema/prediction.h"

_Static_assert(PLANNING_LINKS_MAX >= TRAFFIC_MAX + WHAT_IF_LINKS_MAX,
               "a question has room for all measured links");
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

/* Units with their measured times on the devices that run them for the job. */
struct ran {
    const struct device_slot *device[UNITS_MAX]; /* NULL: not measured */
    double seconds[UNITS_MAX][UNIT_PASSES];
};

static void list_ran(const struct core *core, const struct job_slot *job,
                     const struct planning *planning, struct unit_work *work, struct ran *out)
{
    struct capacity_unit unit[UNITS_MAX];
    for (size_t u = 0; u < planning->model->unit_count; u++) {
        out->device[u] = NULL;
    }
    if (!job) {
        return;
    }
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        const struct device_slot *device = slots_stage_device(core, job, s);
        const struct stage_work ran = layout_work(job, s);
        if (!device || ran.first == ran.end) {
            continue;
        }
        capacity_work(core, planning->model, &planning->spec,
                      conv2d_backend_of(device->device.numeric_class), (size_t)ran.first,
                      (size_t)ran.end, work);
        capacity_units(core, device, work + ran.first, (size_t)(ran.end - ran.first),
                       (double)optimizer_update_passes(&planning->spec.optimizer),
                       unit + ran.first);
        for (int64_t u = ran.first; u < ran.end; u++) {
            if (!unit[u].measured || out->device[u]) {
                continue; /* one device with a measured time is enough */
            }
            out->device[u] = device;
            out->seconds[u][UNIT_FORWARD] = unit[u].seconds[UNIT_FORWARD];
            out->seconds[u][UNIT_BACKWARD] = unit[u].seconds[UNIT_BACKWARD];
        }
    }
}

/* The predicted time of a unit that was never measured on a device may be wrong by a factor. It
 * could then cause one useless change of plan after another. The time on the device that runs the
 * unit is known: scaled by the ratio of both devices, it is a lower bound. A longer prediction
 * counts by half, as a logarithm. */
static double careful(const struct core *core, const struct device_slot *device,
                      const struct unit_work *work, const struct capacity_unit *unit,
                      const struct device_slot *runs_on, double seconds_there, enum unit_pass pass)
{
    if (unit->measured) {
        return unit->seconds[pass];
    }
    const double predicted = unit->seconds[pass] + unit->sd_seconds[pass];
    if (!runs_on) {
        return predicted;
    }
    const double there = seconds_there * capacity_ratio(core, device, runs_on, work, pass);
    return fmax(there, sqrt(predicted * there));
}

/* Write the times of a device, at `speed` times its speed. */
static void take_units(struct planning *planning, size_t d, const struct capacity_unit *unit,
                       double speed)
{
    const size_t units = planning->model->unit_count;
    for (size_t u = 0; u < units; u++) {
        const double *seconds = unit[u].seconds, *sd = unit[u].sd_seconds;
        const double share = unit[u].measured ? 0 : 1;
        planning->forward_seconds[d * units + u] =
            (seconds[UNIT_FORWARD] + share * sd[UNIT_FORWARD]) / speed;
        planning->backward_seconds[d * units + u] =
            (seconds[UNIT_BACKWARD] + share * sd[UNIT_BACKWARD]) / speed;
        planning->expected_forward_seconds[d * units + u] = seconds[UNIT_FORWARD] / speed;
        planning->expected_backward_seconds[d * units + u] = seconds[UNIT_BACKWARD] / speed;
        planning->update_seconds[d * units + u] = unit[u].update_seconds / speed;
    }
}

static void fill_units(const struct core *core, struct planning *planning, size_t d,
                       const struct unit_work *work, const struct ran *ran)
{
    struct capacity_unit unit[UNITS_MAX];
    const size_t units = planning->model->unit_count;
    const struct device_slot *device = core->candidate[d];
    capacity_units(core, device, work, units,
                   (double)optimizer_update_passes(&planning->spec.optimizer), unit);
    for (size_t u = 0; u < units; u++) {
        planning->forward_seconds[d * units + u] =
            careful(core, device, &work[u], &unit[u], ran->device[u], ran->seconds[u][UNIT_FORWARD],
                    UNIT_FORWARD);
        planning->backward_seconds[d * units + u] =
            careful(core, device, &work[u], &unit[u], ran->device[u],
                    ran->seconds[u][UNIT_BACKWARD], UNIT_BACKWARD);
        planning->expected_forward_seconds[d * units + u] = unit[u].seconds[UNIT_FORWARD];
        planning->expected_backward_seconds[d * units + u] = unit[u].seconds[UNIT_BACKWARD];
        planning->update_seconds[d * units + u] = unit[u].update_seconds;
    }
}

static bool is_anywhere(const struct planning *planning, size_t a, size_t b)
{
    for (size_t i = 0; i < planning->measured_count; i++) {
        if (planning->measured[i].a == a && planning->measured[i].b == b) {
            return true;
        }
    }
    return false;
}

/* Add estimated links for pairs that need a relay and have no measurements through it. */
static void fill_relayed(const struct core *core, struct planning *planning)
{
    for (size_t d = 0; d < planning->device_count; d++) {
        const struct device *device = &core->candidate[d]->device;
        for (size_t i = 0; i < device->relayed_count; i++) {
            const size_t other = planning_find(planning, device->relayed[i].text);
            const size_t a = d < other ? d : other, b = d < other ? other : d;
            if (b < planning->device_count && a != b &&
                planning->measured_count < PLANNING_LINKS_MAX && !is_anywhere(planning, a, b)) {
                planning->measured[planning->measured_count++] = (struct partition_pair){
                    .a = a,
                    .b = b,
                    .link = traffic_link(core, core->candidate[a], core->candidate[b])};
            }
        }
    }
}

/* Whether the pair is among the last listed ones. This suffices, because the rows of a pair are
 * adjacent in the store. */
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
    fill_relayed(core, planning);
}

static void fill_device(const struct core *core, struct planning *planning, size_t d)
{
    struct planning_device *device = &planning->device[d];
    const struct overhead overhead = overhead_of(core, core->candidate[d]);
    device->processor_share = capacity_of(core, core->candidate[d])->share.value;
    device->overhead_seconds = overhead.seconds;
    device->overhead_seconds_per_byte = overhead.seconds_per_byte;
    device->has_link = traffic_device_link(core, core->candidate[d], &device->link);
}

void profile_times(const struct core *core, const struct job_slot *job, struct planning *planning)
{
    struct unit_work *work = core->capacity->work;
    struct ran ran;
    list_ran(core, job, planning, work, &ran);
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
        fill_units(core, planning, d, work, &ran);
        fill_device(core, planning, d);
    }
    fill_links(core, planning);
}

/* ---- hypothetical devices ---- */

static const struct unit_work *work_of(const struct core *core, const struct planning *planning,
                                       size_t d)
{
    capacity_work(core, planning->model, &planning->spec,
                  conv2d_backend_of(planning->device[d].numeric_class), 0,
                  planning->model->unit_count, core->capacity->work);
    return core->capacity->work;
}

void profile_like(const struct core *core, struct planning *planning, size_t d,
                  const struct device_slot *like, double speed)
{
    struct capacity_unit unit[UNITS_MAX];
    struct planning_device *device = &planning->device[d];
    const struct overhead overhead = overhead_of(core, like);
    capacity_units(core, like, work_of(core, planning, d), planning->model->unit_count,
                   (double)optimizer_update_passes(&planning->spec.optimizer), unit);
    take_units(planning, d, unit, speed);
    device->processor_share = capacity_of(core, like)->share.value;
    device->overhead_seconds = overhead.seconds / speed;
    device->overhead_seconds_per_byte = overhead.seconds_per_byte / speed;
    device->has_link = traffic_device_link(core, like, &device->link);
}

void profile_probed(const struct core *core, struct planning *planning, size_t d,
                    double flops_per_second, double bytes_per_second)
{
    struct capacity_unit unit[UNITS_MAX];
    capacity_probed_units(core, flops_per_second, bytes_per_second, work_of(core, planning, d),
                          planning->model->unit_count,
                          (double)optimizer_update_passes(&planning->spec.optimizer), unit);
    take_units(planning, d, unit, 1);
    planning->device[d].processor_share = 1;
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
    const struct overhead overhead = overhead_of(core, device);
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
    out->processor_share = capacity_of(core, device)->share.value;
    out->overhead_seconds = overhead.seconds;
    out->overhead_seconds_per_byte = overhead.seconds_per_byte;
    return true;
}
