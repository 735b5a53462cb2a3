#include "coordinator/core/capacity/measured.h"

#include <math.h>
#include <string.h>

#include "coordinator/core/capacity/capacity_rows.h"
#include "coordinator/core/capacity/traffic.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/ids.h"
#include "coordinator/core/state/keepers.h"
#include "coordinator/core/state/layout.h"
#include "coordinator/core/state/state.h"

#define UNIT_SECONDS_MIN 1e-12
#define UNIT_SECONDS_MAX 1e6
/* The time of a step that units do not explain counts as overhead up to their own time plus this
 * much per micro-batch. A longer time means that the units take longer than the device reports. */
#define OVERHEAD_SECONDS_MAX 0.02
/* The parts of a step are means over different windows, so their sum may exceed the step. */
#define STEP_SLACK 1.25
#define STORE_MS 60000 /* interval at which a device's measurements are stored */
#define PROBE_AGE_MAX_MS 120000
/* Heartbeats repeat a probe. A probe taken at most this much later is the same one: agents wait
 * 30 s between probes. */
#define PROBE_SAME_MS 5000
#define LINK_MEMORY 64.0 /* transfers over which the time of a plan's link is averaged */

/* ---- checks ---- */

static bool is_seconds(double value)
{
    return value >= UNIT_SECONDS_MIN && value < UNIT_SECONDS_MAX;
}

static bool is_unit(const struct stage_work *computed, const struct unit_seconds *seconds)
{
    return seconds->unit >= computed->first && seconds->unit < computed->end &&
           is_seconds(seconds->forward_seconds) && seconds->backward_seconds >= 0 &&
           seconds->backward_seconds < UNIT_SECONDS_MAX;
}

static double waits_of(const struct stage_seconds *stage)
{
    return stage->wait_input + stage->wait_gradient + stage->wait_room;
}

/* A stage cannot wait for longer than its step takes. */
static bool is_step(const struct stage_seconds *stage)
{
    return is_seconds(stage->step) && stage->wait_input >= 0 && stage->wait_gradient >= 0 &&
           stage->wait_room >= 0 && waits_of(stage) <= STEP_SLACK * stage->step &&
           stage->stopped >= 0 && stage->stopped <= (1 - SHARE_MIN) * stage->compute &&
           stage->compute <= STEP_SLACK * stage->step;
}

/* The processor time of the device in its steps. */
static struct stage_load load_of(const struct job_slot *job, const struct stage_seconds *stage)
{
    struct stage_load load = {.plan = capacity_key(job->plan.id.text), .granted = -1, .used = -1};
    if (is_step(stage) && stage->compute > 0) {
        load.granted = 1 - stage->stopped / stage->compute;
        load.used = (stage->compute - stage->stopped) / stage->step;
    }
    return load;
}

/* An update cannot take longer than its step. */
static bool is_update(const struct heartbeat *heartbeat)
{
    const struct stage_seconds *stage = &heartbeat->stage_seconds;
    return is_seconds(heartbeat->update_seconds) &&
           (!is_step(stage) || heartbeat->update_seconds <= STEP_SLACK * stage->step);
}

/* Whether one device could not reach the other: their transfers then do not measure the link. */
static bool in_trouble(const struct device_slot *device, const struct device_id *other)
{
    for (size_t i = 0; i < device->challenge.trouble_count; i++) {
        if (id_equal(device->challenge.trouble[i].device.text, other->text)) {
            return true;
        }
    }
    return false;
}

/* Activations go to the next stage, gradients to the preceding one. Tensors of an evaluation have
 * no codec. */
static void take_tensors(struct plan *plan, size_t stage, const struct link_report *report)
{
    for (size_t s = stage > 0 ? stage - 1 : 0; s <= stage && s < plan->link_count; s++) {
        const struct plan_stage *other = &plan->stage[s == stage ? s + 1 : s];
        struct plan_link *link = &plan->link[s];
        const char *codec = link->codec == CODEC_NONE ? "" : codec_names[link->codec];
        if (report->kind != LINK_TENSOR || strcmp(report->codec, codec) != 0 ||
            !id_equal(report->device.text, other->device.text)) {
            continue;
        }
        const double seconds = report->seconds_sum / (double)report->count;
        const double share = fmin((double)report->count / LINK_MEMORY, 1);
        link->measured_seconds +=
            link->measured_seconds > 0 ? (seconds - link->measured_seconds) * share : seconds;
    }
}

static struct link_users users_of(const struct job_slot *job, const struct device_slot *device,
                                  const struct link_report *report)
{
    const struct plan *plan = &job->plan;
    size_t other = 0;
    while (other < plan->stage_count &&
           !id_equal(plan->stage[other].device.text, report->device.text)) {
        other++;
    }
    return report->kind == LINK_TENSOR && job->strategy->link_users && other < plan->stage_count
               ? job->strategy->link_users(job, device->stage, other)
               : (struct link_users){1, 1};
}

static void take_links(struct core *core, struct job_slot *job, const struct device_slot *device,
                       const struct heartbeat *heartbeat)
{
    for (size_t i = 0; i < heartbeat->link_count; i++) {
        const struct link_report *report = &heartbeat->link[i];
        if (in_trouble(device, &report->device)) {
            continue;
        }
        if (traffic_take(core, device, report, users_of(job, device, report))) {
            take_tensors(&job->plan, device->stage, report);
        } else {
            core->capacity->refused++;
        }
    }
}

/* ---- steps ---- */

/* The parts of a stage's step. */
struct account {
    double scale;       /* of the units' times: above 1 if its steps take longer */
    double unexplained; /* seconds per micro-batch */
    bool known;
};

/* If a stage never waits, its step time is its capacity, even if the times of its units differ. */
static struct account account_of(const struct heartbeat *heartbeat, double unit_seconds,
                                 double micro_batches)
{
    const struct stage_seconds *stage = &heartbeat->stage_seconds;
    struct account account = {.scale = 1};
    if (!is_step(stage) || !(unit_seconds > 0)) {
        return account;
    }
    const double update = is_update(heartbeat) ? heartbeat->update_seconds : 0;
    const double most = unit_seconds + OVERHEAD_SECONDS_MAX;
    double rest =
        (stage->step - waits_of(stage) - stage->stopped - update) / micro_batches - unit_seconds;
    if (rest > most) {
        account.scale = (unit_seconds + rest - most) / unit_seconds;
        rest = most;
    }
    account.unexplained = fmax(rest, 0);
    account.known = true;
    return account;
}

/* ---- storing ---- */

static void store(struct core *core, const struct job_slot *job, const struct device_slot *device,
                  const struct stage_work *computed, const struct heartbeat *heartbeat)
{
    struct capacity *capacity = core->capacity;
    struct measured_units *measured = &capacity->measured;
    struct capacity_change *change = &capacity->change;
    struct device_capacity *mine = &capacity->device[table_slot(&core->devices, device)];
    if (core->now_ms - mine->stored_ms < STORE_MS || !act_room(core)) {
        return;
    }
    mine->stored_ms = core->now_ms;
    measured->device = device->device.id;
    measured->job = job->job.id;
    measured->wall_ms = core->wall_ms;
    measured->unit_count = change->unit_count = change->link_count = 0;
    for (size_t i = 0; i < heartbeat->unit_seconds_count; i++) {
        const struct unit_seconds *seconds = &heartbeat->unit_seconds[i];
        if (is_unit(computed, seconds)) {
            measured->unit[measured->unit_count++] = *seconds;
            change->unit_count += capacity_rows_write_unit(
                core, device, &capacity->work[seconds->unit], &change->unit[change->unit_count]);
        }
    }
    for (size_t i = 0; i < heartbeat->link_count; i++) {
        change->link_count += traffic_write(core, device, &heartbeat->link[i],
                                            users_of(job, device, &heartbeat->link[i]),
                                            &change->link[change->link_count]);
    }
    capacity_rows_write(core, device, &change->device);
    capacity_rows_write(core, NULL, &change->fleet);
    act_measured(core, measured);
    act_capacity(core, change);
}

/* ---- heartbeats ---- */

/* Bytes of the boundary tensors of a plan's stage per micro-batch, as transferred: in and out, both
 * passes. */
static double border_bytes(const struct core *core, const struct job_slot *job,
                           const struct plan_stage *stage, const struct stage_work *computed)
{
    const struct unit_cost *cost = core->capacity->cost;
    const uint64_t samples = (uint64_t)(job->job.spec.batch / job->job.spec.micro_batches);
    uint64_t bytes = 0;
    if (computed->first > 0) {
        const enum codec codec = (enum codec)stage[-1].codec;
        bytes +=
            codec_bytes(codec, samples * cost[computed->first - 1].output_bytes / sizeof(float));
    }
    if (computed->end < (int64_t)job->unit_count) {
        const enum codec codec = (enum codec)stage->codec;
        bytes += codec_bytes(codec, samples * cost[computed->end - 1].output_bytes / sizeof(float));
    }
    return 2 * (double)bytes;
}

static void take_units(struct core *core, struct job_slot *job, struct device_slot *device,
                       const struct stage_work *computed, const struct heartbeat *heartbeat)
{
    double seconds[UNITS_MAX][UNIT_PASSES] = {{0}}, forward = 0, backward = 0;
    struct plan_stage *stage = &job->plan.stage[device->stage];
    const struct unit_work *work = core->capacity->work;
    for (size_t i = 0; i < heartbeat->unit_seconds_count; i++) {
        const struct unit_seconds *unit = &heartbeat->unit_seconds[i];
        if (!is_unit(computed, unit) || seconds[unit->unit][UNIT_FORWARD] > 0) {
            core->capacity->refused++;
            continue;
        }
        seconds[unit->unit][UNIT_FORWARD] = unit->forward_seconds;
        seconds[unit->unit][UNIT_BACKWARD] = unit->backward_seconds;
        forward += unit->forward_seconds;
        backward += unit->backward_seconds;
    }
    const struct account account =
        account_of(heartbeat, forward + backward, (double)computed->micro_batches);
    for (int64_t u = computed->first; u < computed->end; u++) {
        seconds[u][UNIT_FORWARD] *= account.scale;
        seconds[u][UNIT_BACKWARD] *= account.scale;
    }
    const struct stage_load load = load_of(job, &heartbeat->stage_seconds);
    share_ran(&capacity_of(core, device)->share, &load, core->now_ms);
    capacity_ran(core, device, work + computed->first,
                 (const double(*)[UNIT_PASSES])seconds + computed->first,
                 (size_t)(computed->end - computed->first));
    if (account.known) {
        overhead_take(core, device, account.unexplained, border_bytes(core, job, stage, computed));
    }
    stage->measured_forward_seconds = forward * account.scale;
    stage->measured_backward_seconds = backward * account.scale;
}

static double trained_bytes(const struct core *core, const struct plan_stage *stage)
{
    double bytes = 0;
    for (int64_t u = stage->first; u < stage->end; u++) {
        bytes += core->capacity->work[u].trained_bytes;
    }
    return bytes;
}

void measured_take(struct core *core, struct job_slot *job, struct device_slot *device,
                   const struct heartbeat *heartbeat)
{
    const struct plan_stage *stage = &job->plan.stage[device->stage];
    const struct stage_work computed = layout_work(job, device->stage);
    const struct stage_work loads = layout_loads(job, device->stage);
    const struct stage_seconds *step = &heartbeat->stage_seconds;
    const bool computes = computed.micro_batches > 0 && heartbeat->unit_seconds_count > 0;
    const bool updates =
        keepers_has(stage) && is_update(heartbeat) && (computes || computed.micro_batches == 0);
    take_links(core, job, device, heartbeat);
    core->capacity->refused += (step->step != 0 || waits_of(step) != 0) && !is_step(step);
    core->capacity->refused += heartbeat->update_seconds != 0 && !is_update(heartbeat);
    if (!computes && !updates) {
        return;
    }
    capacity_work(core, job->model, &job->job.spec, conv2d_backend_of(device->device.numeric_class),
                  (size_t)loads.first, (size_t)loads.end, core->capacity->work);
    if (computes) {
        take_units(core, job, device, &computed, heartbeat);
    }
    if (updates) {
        capacity_updated(core, device, heartbeat->update_seconds, trained_bytes(core, stage));
    }
    store(core, job, device, &computed, heartbeat);
}

void measured_take_idle(struct core *core, struct device_slot *device,
                        const struct heartbeat *heartbeat)
{
    const struct idle_probe *probe = &heartbeat->probe;
    device->free_bytes = device->job ? heartbeat->free_memory_bytes : 0;
    if (!device->job && heartbeat->free_memory_bytes > 0) {
        device->device.probe.free_memory_bytes = heartbeat->free_memory_bytes;
    }
    if (!heartbeat->has_probe || device->job) {
        return;
    }
    if (probe->age_ms < 0 || probe->age_ms > PROBE_AGE_MAX_MS ||
        !is_seconds(1 / probe->gemm_gflops) || !is_seconds(1 / probe->memory_bytes_per_second)) {
        core->capacity->refused++;
        return;
    }
    struct device_capacity *mine = capacity_of(core, device);
    const int64_t taken_ms = core->now_ms - probe->age_ms;
    if (mine->probed && taken_ms < mine->probed_ms + PROBE_SAME_MS) {
        return;
    }
    mine->probed = true;
    mine->probed_ms = taken_ms;
    const struct capacity_probe taken = {.flops_per_second = probe->gemm_gflops * 1e9,
                                         .bytes_per_second = probe->memory_bytes_per_second,
                                         .processor_share = probe->processor_share};
    capacity_probed(core, device, &taken);
}
