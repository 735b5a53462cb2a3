/* The speed of devices and links for the planner: measured values, or predictions from the probe if
 * there are none. */
#include "coordinator/core/profile.h"

#include <math.h>

#include "coordinator/core/planning.h"
#include "coordinator/core/state.h"

#define UNIT_SECONDS_MIN 1e-12
#define UNIT_SECONDS_MAX 1e6
#define UNMEASURED_WEIGHT 0.2 /* of the other devices' measurements, in parts of the model */
#define GFLOPS_MIN 1e-3       /* of a probe without values */
#define BYTES_PER_SECOND_MIN 1e6

/* ---- reports ---- */

static bool is_seconds(double value)
{
    return value >= UNIT_SECONDS_MIN && value < UNIT_SECONDS_MAX;
}

/* Transfers to a device that could not be reached in between say nothing about the link. */
static bool in_trouble(const struct device_slot *device, const struct device_id *other)
{
    for (size_t i = 0; i < device->challenge.trouble_count; i++) {
        if (id_equal(device->challenge.trouble[i].device.text, other->text)) {
            return true;
        }
    }
    return false;
}

static void take_link(struct device_slot *device, const struct link_report *report)
{
    if (report->kind != LINK_TENSOR || in_trouble(device, &report->device)) {
        return;
    }
    const double sums[] = {report->seconds_sum, report->bytes_sum, report->bytes_squared_sum,
                           report->bytes_seconds_sum};
    bool valid = report->count > 0 && report->count < 1000000000;
    for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
        valid = valid && isfinite(sums[i]) && sums[i] >= 0;
    }
    if (!valid) {
        return;
    }
    size_t at = 0;
    while (at < LINKS_MAX && !id_equal(device->profile.link[at].device.text, report->device.text)) {
        at++;
    }
    if (at == LINKS_MAX) {
        at = device->profile.next_link;
        device->profile.next_link = (device->profile.next_link + 1) % LINKS_MAX;
        device->profile.link[at] = (struct measured_link){.device = report->device};
    }
    const struct link_sums more = {.count = (double)report->count,
                                   .seconds = report->seconds_sum,
                                   .bytes = report->bytes_sum,
                                   .bytes_squared = report->bytes_squared_sum,
                                   .bytes_seconds = report->bytes_seconds_sum};
    link_add(&device->profile.link[at].sums, &more);
}

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

static uint64_t trained_bytes(struct core *core, const struct job_slot *job,
                              const struct plan_stage *stage)
{
    uint64_t bytes = 0;
    cost_count(job->model, core->planning->cost);
    for (int64_t u = stage->first; u < stage->end; u++) {
        bytes += core->planning->cost[u].trained_bytes;
    }
    return bytes;
}

void profile_take(struct core *core, struct job_slot *job, struct device_slot *device,
                  const struct heartbeat *heartbeat)
{
    static const struct device_profile none;
    struct device_profile *profile = &device->profile.units;
    struct plan_stage *stage = &job->plan.stage[device->stage];
    if (!id_equal(profile->job.text, job->job.id.text)) {
        *profile = none;
        profile->job = job->job.id;
    }
    for (size_t i = 0; i < heartbeat->link_count; i++) {
        take_link(device, &heartbeat->link[i]);
    }
    for (size_t i = 0; i < heartbeat->unit_seconds_count; i++) {
        const struct unit_seconds *seconds =
            &heartbeat->unit_seconds[i]; /* backward: none in front of the first trained */
        if (seconds->unit >= stage->first && seconds->unit < stage->end &&
            is_seconds(seconds->forward_seconds) && seconds->backward_seconds >= 0 &&
            seconds->backward_seconds < UNIT_SECONDS_MAX) {
            profile->forward_seconds[seconds->unit] = seconds->forward_seconds;
            profile->backward_seconds[seconds->unit] = seconds->backward_seconds;
        }
    }
    if (heartbeat->unit_seconds_count > 0) {
        stage->measured_forward_seconds = stage->measured_backward_seconds = 0;
        for (int64_t u = stage->first; u < stage->end; u++) {
            stage->measured_forward_seconds += profile->forward_seconds[u];
            stage->measured_backward_seconds += profile->backward_seconds[u];
        }
    }
    if (is_seconds(heartbeat->update_seconds)) {
        uint64_t bytes = trained_bytes(core, job, stage);
        profile->update_seconds_per_byte =
            bytes > 0 ? heartbeat->update_seconds / (double)bytes : 0;
    }
}

/* ---- predictions ---- */

/* The longer of computing and moving: whichever the device is short of. */
static double predict(const struct device_probe *probe, double flops, double bytes, double samples)
{
    double rate = fmax(probe->gemm_gflops, GFLOPS_MIN) * 1e9;
    double bandwidth = fmax(probe->memory_bytes_per_second, BYTES_PER_SECOND_MIN);
    return samples * fmax(flops / rate, bytes / bandwidth);
}

/* Of the units that were measured, and predicted of the whole model. */
struct ratio {
    double measured, predicted, whole;
};

static bool is_measured(const struct device_slot *device, const struct job_slot *job, size_t unit)
{
    return job && id_equal(device->profile.units.job.text, job->job.id.text) &&
           device->profile.units.forward_seconds[unit] > 0;
}

/* Predictions everywhere first, and how measured values compare with them. */
static void predict_device(const struct core *core, const struct job_slot *job,
                           struct planning *planning, size_t d, struct ratio *ratio)
{
    const struct device_slot *device = core->candidate[d];
    size_t units = planning->model->unit_count;
    int64_t samples = planning->spec.batch / planning->spec.micro_batches;
    double again = planning->spec.recompute == RECOMPUTE_UNIT ? 1 : 0;
    double update_passes = (double)optimizer_update_passes(&planning->spec.optimizer);
    *ratio = (struct ratio){0};
    for (size_t u = 0; u < units; u++) {
        const struct unit_cost *cost = &planning->cost[u];
        const struct device_probe *probe = &device->device.probe;
        double forward = predict(probe, cost->forward_flops, cost->forward_bytes, (double)samples);
        double backward =
            predict(probe, cost->backward_flops + again * cost->again_flops,
                    cost->backward_bytes + again * cost->again_bytes, (double)samples);
        planning->forward_seconds[d * units + u] = forward;
        planning->backward_seconds[d * units + u] = backward;
        planning->update_seconds[d * units + u] =
            predict(probe, 0, (double)cost->trained_bytes, update_passes);
        ratio->whole += forward + backward;
        if (is_measured(device, job, u)) {
            ratio->measured += device->profile.units.forward_seconds[u] +
                               device->profile.units.backward_seconds[u];
            ratio->predicted += forward + backward;
        }
    }
}

/* By how much a device's predictions are off: as far as it was measured by itself, for the rest as
 * all devices are. The time of one small unit predicts the others badly: it may fit a cache, or end
 * before a quota limits it. */
static double scale_of(const struct ratio *own, double common)
{
    const double unknown = UNMEASURED_WEIGHT * own->whole;
    return own->predicted + unknown > 0
               ? (own->measured + unknown * common) / (own->predicted + unknown)
               : common;
}

/* A measured unit takes its value; the others are scaled. */
static void correct_device(const struct core *core, const struct job_slot *job,
                           struct planning *planning, size_t d, double scale)
{
    const struct device_slot *device = core->candidate[d];
    size_t units = planning->model->unit_count;
    for (size_t u = 0; u < units; u++) {
        double *forward = &planning->forward_seconds[d * units + u];
        double *backward = &planning->backward_seconds[d * units + u];
        double *update = &planning->update_seconds[d * units + u];
        bool measured = is_measured(device, job, u);
        *forward = measured ? device->profile.units.forward_seconds[u] : *forward * scale;
        *backward = measured ? device->profile.units.backward_seconds[u] : *backward * scale;
        bool known = job && id_equal(device->profile.units.job.text, job->job.id.text) &&
                     device->profile.units.update_seconds_per_byte > 0;
        *update = known ? device->profile.units.update_seconds_per_byte *
                              (double)planning->cost[u].trained_bytes
                        : *update * scale;
    }
}

static void add_sums(const struct device_slot *from, const struct device_slot *to,
                     struct link_sums *sums)
{
    for (size_t i = 0; i < LINKS_MAX; i++) {
        if (id_equal(from->profile.link[i].device.text, to->device.id.text)) {
            link_add(sums, &from->profile.link[i].sums);
        }
    }
}

/* A link has equal properties in both directions, so the sizes of both give a better estimate. */
struct partition_link profile_link(const struct device_slot *a, const struct device_slot *b)
{
    struct link_sums sums = {0};
    add_sums(a, b, &sums);
    add_sums(b, a, &sums);
    return link_estimate(&sums);
}

static void fill_links(const struct core *core, struct planning *planning, size_t d)
{
    const struct device_slot *device = core->candidate[d];
    struct planning_device *out = &planning->device[d];
    out->link_count = 0;
    for (size_t i = 0; i < LINKS_MAX; i++) {
        const char *id = device->profile.link[i].device.text;
        size_t other = id[0] != '\0' ? planning_find(planning, id) : planning->device_count;
        if (other < planning->device_count) {
            out->link[out->link_count++] = (struct planning_link){
                .other = other, .link = profile_link(device, core->candidate[other])};
        }
    }
}

void profile_times(const struct core *core, const struct job_slot *job, struct planning *planning)
{
    struct ratio ratio[PLANNING_DEVICES_MAX], all = {0};
    cost_count(planning->model, planning->cost);
    for (size_t d = 0; d < planning->device_count; d++) {
        predict_device(core, job, planning, d, &ratio[d]);
        all.measured += ratio[d].measured;
        all.predicted += ratio[d].predicted;
        fill_links(core, planning, d);
    }
    const double common = all.predicted > 0 ? all.measured / all.predicted : 1;
    for (size_t d = 0; d < planning->device_count; d++) {
        correct_device(core, job, planning, d, scale_of(&ratio[d], common));
    }
}
