/* From which version a job goes on, and where each unit of it comes from. */
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/core_private.h"

/* A source that left a challenge without an answer, or that is out of reach, is taken when there is
 * no other. */
#define SILENT_SECONDS 1e9

/* ---- the line ---- */

/* A generation that starts from `first` cuts off every version above it of the generations before:
 * those of the generations before the oldest start that is still known cannot be told from them,
 * and neither can those of generations that the rows never knew (restored from a backup). */
bool line_holds(const struct job *job, int64_t generation, int64_t version)
{
    if (version == 0) {
        return true;
    }
    if (generation > job->generation ||
        (job->line_count == LINE_STARTS_MAX && generation < job->line[0].generation)) {
        return false;
    }
    for (size_t i = 0; i < job->line_count; i++) {
        if (job->line[i].generation > generation) {
            return version <= job->line[i].first;
        }
    }
    return true;
}

void line_push(struct job *job, int64_t generation, int64_t first)
{
    while (job->line_count > 0 && job->line[job->line_count - 1].first >= first) {
        job->line_count--;
    }
    if (job->line_count == LINE_STARTS_MAX) {
        memmove(job->line, job->line + 1, (LINE_STARTS_MAX - 1) * sizeof(job->line[0]));
        job->line_count--;
    }
    job->line[job->line_count++] = (struct line_start){.generation = generation, .first = first};
}

/* ---- the newest version that is whole ---- */

bool absent_has(const struct absent *absent, const struct device_slot *device)
{
    for (size_t i = 0; i < absent->count; i++) {
        if (strcmp(absent->device[i].text, device->device.id.text) == 0) {
            return true;
        }
    }
    return false;
}

int64_t recovery_center(const struct job_slot *job)
{
    const struct center_version *whole = &job->center[job->whole];
    return whole->version > 0 && whole->count == job->unit_count ? whole->version : 0;
}

size_t recovery_list(const struct core *core, const struct job_slot *job,
                     const struct absent *absent)
{
    /* After a pause, whoever still holds something was told to drop it. */
    return job->job.state != JOB_QUEUED ? held_list(core, job, absent, -1) : 0;
}

int64_t recovery_without(const struct core *core, const struct job_slot *job, size_t count,
                         const struct absent *absent)
{
    int64_t version = held_newest(core, job, count, absent, NEVER, NULL);
    return version > 0 ? version : recovery_center(job);
}

int64_t recovery_start(const struct core *core, const struct job_slot *job,
                       const struct absent *absent, struct cut *out)
{
    static const struct cut none;
    *out = none;
    int64_t version = held_newest(core, job, recovery_list(core, job, absent), absent, NEVER, out);
    return version > 0 ? version : recovery_center(job);
}

/* The newest version that the job is known to have had: committed, or its last start. */
static int64_t newest_had(const struct job_slot *job)
{
    return job->job.neighbor_version > job->plan.resume_version ? job->job.neighbor_version
                                                                : job->plan.resume_version;
}

int64_t recovery_patience_ms(const struct core *core, const struct job_slot *job, int64_t start)
{
    int64_t had = newest_had(job);
    bool away = false;
    for (size_t s = 0; job->has_plan && !away && s < job->plan.stage_count; s++) {
        const struct device_slot *device = stage_device(core, job, s);
        away = device && !device_reachable(device);
    }
    bool older = had > start && job->job.state != JOB_QUEUED;
    int64_t redo = redo_ms(job, had - start);
    return !older || !away ? 0 : redo < core->config.lease_ms ? redo : core->config.lease_ms;
}

/* A device that has just come back may hold what is missing: its first report says so. */
bool recovery_must_gather(struct core *core, const struct job_slot *job)
{
    const struct absent nobody = {0};
    int64_t had = newest_had(job);
    bool unknown = false;
    for (size_t i = 0; i < core->devices.count && !unknown; i++) {
        const struct device_slot *device = device_slot_at(core, i);
        unknown = device_reachable(device) && !device->holdings_known;
    }
    struct cut cut;
    return unknown && had > job->job.version && recovery_start(core, job, &nobody, &cut) < had;
}

/* ---- sources ---- */

/* Those of core->held that are of one unit. */
struct holders {
    const struct held_item *item;
    size_t count;
};

static double cost_seconds(const struct core *core, const struct job_slot *job,
                           const struct device_slot *from, const struct device_slot *to,
                           int64_t bytes)
{
    struct partition_link link = profile_link(from, to);
    bool last = from->silent || link_is_bad(core, job, from, to);
    return link.latency_seconds + (double)(from->asked_bytes + bytes) / link.bytes_per_second +
           (last ? SILENT_SECONDS : 0);
}

/* The holder that would be through with it first, with what is asked of it already; ties in the
 * order of ids. */
static struct device_slot *cheapest_holder(const struct core *core, const struct job_slot *job,
                                           struct holders holders, const struct device_slot *to,
                                           int64_t unit)
{
    struct device_slot *best = NULL;
    double least = 0;
    for (size_t i = 0; i < holders.count; i++) {
        struct device_slot *device = holders.item[i].device;
        const struct holding *holding = &core->holding[holders.item[i].item].holding;
        if (strcmp(holding->sha256, source_hash(job, unit)) != 0) {
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
            strcmp(holding->sha256, source_hash(job, unit)) == 0) {
            return true;
        }
    }
    return false;
}

const char *source_hash(const struct job_slot *job, int64_t unit)
{
    int64_t version = job->plan.resume_version;
    const struct center_version *whole = &job->center[job->whole];
    return version == 0                  ? ""
           : job->cut.version == version ? job->cut.unit[unit].sha256
           : whole->version == version   ? whole->unit[unit].sha256
                                         : "";
}

int64_t source_bytes(const struct job_slot *job, int64_t unit)
{
    int64_t version = job->plan.resume_version;
    const struct center_version *whole = &job->center[job->whole];
    return version == 0                  ? 0
           : job->cut.version == version ? job->cut.unit[unit].bytes
           : whole->version == version   ? whole->unit[unit].bytes
                                         : 0;
}

bool source_is(const struct job_slot *job, int64_t unit, const struct device_slot *device)
{
    const struct unit_source *source = &job->source[unit];
    return source->from == SOURCE_DEVICE &&
           strcmp(source->device.text, device->device.id.text) == 0;
}

static void choose_source(struct core *core, struct job_slot *job, struct holders holders,
                          const struct device_slot *device, int64_t unit)
{
    struct unit_source *source = &job->source[unit];
    int64_t version = job->plan.resume_version, bytes = source_bytes(job, unit);
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
    job->moving_bytes += bytes;
    if (holder && !(in_center && link_is_bad(core, job, holder, device))) {
        source->from = SOURCE_DEVICE;
        source->device = holder->device.id;
        holder->asked_bytes += bytes;
        job->peer_sources = true;
        job->plan.bytes_moved += bytes;
    }
}

/* From itself, from the cheapest live device, from the center, in this order, and from the center
 * before a device that is out of reach; version 0 from the seed or the checkpoint. */
void sources_choose(struct core *core, struct job_slot *job)
{
    const struct absent nobody = {0};
    /* The pause told every device to let go of the version; some have, and have not said so yet. */
    bool held = job->plan.reason != PLAN_RESUMED && job->plan.resume_version > 0;
    size_t count = held ? held_list(core, job, &nobody, job->plan.resume_version) : 0, at = 0;
    job->peer_sources = false;
    job->plan.bytes_moved = job->moving_bytes = 0;
    if (job->plan.resume_version == 0) {
        job->moving_bytes = job->job.data.checkpoint_bytes;
    }
    for (size_t i = 0; i < count; i++) {
        core->held[i].device->asked_bytes = 0;
    }
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        const struct device_slot *device = stage_device(core, job, s);
        for (int64_t u = job->plan.stage[s].first; u < job->plan.stage[s].end; u++) {
            struct holders holders = {.item = &core->held[at]};
            for (; at < count && core->held[at].unit == u; at++) {
                holders.count++;
            }
            choose_source(core, job, holders, device, u);
        }
    }
}
