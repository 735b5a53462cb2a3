/* A stage takes its units from its own snapshots, else from the device that can deliver first, else
 * from the center. */
#include "coordinator/core/copies/sources.h"

#include <string.h>

#include "base/assert.h"
#include "coordinator/core/capacity/traffic.h"
#include "coordinator/core/copies/held.h"
#include "coordinator/core/failures/links.h"
#include "coordinator/core/failures/recovery.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/keepers.h"
#include "coordinator/core/state/layout.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "schema/job_check.h"

/* A source that has not answered a challenge, is unreachable or may be switched off is used only if
 * no other source exists. */
#define SILENT_SECONDS 1e9

/* The items of core->held for one unit. */
struct holders {
    const struct held_item *item;
    size_t count;
};

static bool may_fail(const struct core *core, const struct job_slot *job,
                     const struct device_slot *from, const struct device_slot *to)
{
    return from->device.drained || links_is_bad(core, job, from, to);
}

static double cost_seconds(const struct core *core, const struct job_slot *job,
                           const struct device_slot *from, const struct device_slot *to,
                           int64_t bytes)
{
    const double seconds =
        link_transfer_seconds(traffic_link(core, from, to), (double)(from->asked_bytes + bytes));
    const bool last = from->challenge.silent || may_fail(core, job, from, to);
    return seconds + (last ? SILENT_SECONDS : 0);
}

/* The holder that would finish first, including its earlier requests; ties in the order of ids. */
static struct device_slot *cheapest_holder(const struct core *core, const struct job_slot *job,
                                           struct holders holders, const struct device_slot *to,
                                           int64_t unit)
{
    struct device_slot *best = NULL;
    double least = 0;
    for (size_t i = 0; i < holders.count; i++) {
        struct device_slot *device = holders.item[i].device;
        const struct holding *holding = &core->holding[holders.item[i].item].holding;
        if (strcmp(holding->sha256, sources_hash(job, unit)) != 0) {
            continue;
        }
        double cost = cost_seconds(core, job, device, to, holding->bytes);
        if (!best || cost < least) {
            best = device;
            least = cost;
        }
    }
    return best;
}

static bool holds(const struct core *core, const struct job_slot *job, struct holders holders,
                  const struct device_slot *device, int64_t unit)
{
    for (size_t i = 0; i < holders.count; i++) {
        const struct holding *holding = &core->holding[holders.item[i].item].holding;
        if (holders.item[i].device == device &&
            strcmp(holding->sha256, sources_hash(job, unit)) == 0) {
            return true;
        }
    }
    return false;
}

const char *sources_hash(const struct job_slot *job, int64_t unit)
{
    int64_t version = job->plan.resume_version;
    const struct center_version *whole = &job->center.version[job->center.whole];
    return version == 0                  ? ""
           : job->cut.version == version ? job->cut.unit[unit].sha256
           : whole->version == version   ? whole->unit[unit].sha256
                                         : "";
}

int64_t sources_bytes(const struct job_slot *job, int64_t unit)
{
    int64_t version = job->plan.resume_version;
    const struct center_version *whole = &job->center.version[job->center.whole];
    return version == 0                  ? 0
           : job->cut.version == version ? job->cut.unit[unit].bytes
           : whole->version == version   ? whole->unit[unit].bytes
                                         : 0;
}

static bool is_from(const struct unit_source *source, const struct device_slot *device)
{
    return source->from == SOURCE_DEVICE && id_equal(source->device.text, device->device.id.text);
}

bool sources_is(const struct job_slot *job, int64_t unit, const struct device_slot *device)
{
    return is_from(&job->sources.unit[unit], device);
}

static bool keeps(const struct plan_stage *stage, int64_t unit)
{
    return unit >= stage->first && unit < stage->end;
}

struct unit_source sources_of(const struct job_slot *job, size_t stage, int64_t unit)
{
    const struct plan *plan = &job->plan;
    struct unit_source source = job->sources.unit[unit];
    size_t keeper = keepers_first(plan);
    while (!keeps(&plan->stage[keeper], unit)) {
        keeper = keepers_next(plan, keeper);
    }
    if (stage != keeper && source.from == SOURCE_SELF) {
        return (struct unit_source){.from = SOURCE_DEVICE, .device = plan->stage[keeper].device};
    }
    if (source.from == SOURCE_DEVICE &&
        id_equal(source.device.text, plan->stage[stage].device.text)) {
        return (struct unit_source){.from = SOURCE_SELF};
    }
    return source;
}

bool sources_stage_is(const struct job_slot *job, size_t stage, const struct device_slot *device)
{
    const struct stage_work loads = layout_loads(job, stage);
    for (int64_t u = loads.first; u < loads.end; u++) {
        const struct unit_source source = sources_of(job, stage, u);
        if (is_from(&source, device)) {
            return true;
        }
    }
    return false;
}

bool sources_serves(const struct job_slot *job, const struct device_slot *device)
{
    if (!job->sources.from_peers || states_phase(job) != PHASE_PREPARE) {
        return false;
    }
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        if (!job->report[s].ready && sources_stage_is(job, s, device)) {
            return true;
        }
    }
    return false;
}

static void choose_source(struct core *core, struct job_slot *job, struct holders holders,
                          const struct device_slot *device, int64_t unit)
{
    struct unit_source *source = &job->sources.unit[unit];
    int64_t version = job->plan.resume_version, bytes = sources_bytes(job, unit);
    if (version == 0) {
        bool taken = job_from_checkpoint(&job->job.spec, job->model->unit[unit].name);
        *source = (struct unit_source){.from = taken ? SOURCE_CHECKPOINT : SOURCE_SEED};
        return;
    }
    *source = (struct unit_source){0};
    if (holds(core, job, holders, device, unit)) {
        source->from = SOURCE_SELF;
        return;
    }
    struct device_slot *holder = cheapest_holder(core, job, holders, device, unit);
    bool in_center = recovery_center(job) == version;
    ASSERT(holder || in_center);
    source->from = SOURCE_CENTER;
    job->sources.moving_bytes += bytes;
    if (holder && !(in_center && may_fail(core, job, holder, device))) {
        source->from = SOURCE_DEVICE;
        source->device = holder->device.id;
        holder->asked_bytes += bytes;
        job->sources.from_peers = true;
        job->plan.bytes_moved += bytes;
    }
}

/* Count the units that stages load and do not keep. */
static void count_loaded(struct job_slot *job)
{
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        const struct stage_work loads = layout_loads(job, s);
        for (int64_t u = loads.first; u < loads.end; u++) {
            const struct unit_source source = sources_of(job, s, u);
            const bool peer = source.from == SOURCE_DEVICE;
            if (keeps(&job->plan.stage[s], u) || !(peer || source.from == SOURCE_CENTER)) {
                continue;
            }
            job->sources.moving_bytes += sources_bytes(job, u);
            job->sources.from_peers = job->sources.from_peers || peer;
            job->plan.bytes_moved += peer ? sources_bytes(job, u) : 0;
        }
    }
}

/* Sources in order of preference: the stage itself, the cheapest live device, the center, an
 * unreachable device. Version 0 comes from the seed or the checkpoint. */
void sources_choose(struct core *core, struct job_slot *job)
{
    /* The pause allowed every device to drop the center's version. Some devices may have dropped it
     * and not reported this yet. */
    const int64_t version = job->plan.resume_version;
    const bool dropped = job->plan.reason == PLAN_RESUMED && version <= job->job.version;
    size_t count = dropped ? 0 : held_list(core, job, &device_all_present, version), at = 0;
    job->sources.from_peers = false;
    job->plan.bytes_moved = job->sources.moving_bytes = 0;
    if (version == 0) {
        job->sources.moving_bytes = job->job.data.checkpoint_bytes;
    }
    for (size_t i = 0; i < count; i++) {
        core->held[i].device->asked_bytes = 0;
    }
    const struct plan *plan = &job->plan;
    for (size_t s = keepers_first(plan); s < plan->stage_count; s = keepers_next(plan, s)) {
        const struct device_slot *device = slots_stage_device(core, job, s);
        for (int64_t u = plan->stage[s].first; u < plan->stage[s].end; u++) {
            struct holders holders = {.item = &core->held[at]};
            for (; at < count && core->held[at].unit == u; at++) {
                holders.count++;
            }
            choose_source(core, job, holders, device, u);
        }
    }
    count_loaded(job);
}
