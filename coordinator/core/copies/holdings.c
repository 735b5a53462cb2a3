/* The core relies on a snapshot only if a device has reported it, it belongs to the lineage, and no
 * assignment lets the device drop it. A device may drop a version as soon as it reads its
 * assignment. The core therefore stops relying on the snapshot in the step that writes the
 * assignment. */
#include "coordinator/core/copies/holdings.h"

#include <string.h>

#include "base/assert.h"
#include "base/sort.h"
#include "coordinator/core/state/keepers.h"
#include "coordinator/core/state/lineage.h"
#include "coordinator/core/state/mark.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"
#include "schema/job_check.h"

/* ---- holdings by device ---- */

static void put_item(struct core *core, uint32_t index)
{
    core->holding[index].next = core->holding_spare;
    core->holding_spare = index;
}

void holdings_clear(struct core *core, struct device_slot *device)
{
    while (device->holdings.first != 0) {
        uint32_t index = device->holdings.first;
        device->holdings.first = core->holding[index].next;
        put_item(core, index);
    }
    device->holdings.count = 0;
}

/* Keep the first `count` entries of the device's list, and remove the oldest versions. */
static void trim(struct core *core, struct device_slot *device, uint32_t count)
{
    uint32_t *link = &device->holdings.first;
    for (uint32_t i = 0; i < count; i++) {
        link = &core->holding[*link].next;
    }
    while (*link != 0) {
        uint32_t index = *link;
        *link = core->holding[index].next;
        put_item(core, index);
    }
    device->holdings.count = count;
    mark_device_touched(core, device); /* the drops of its assignment follow from the list */
}

/* When the pool is full, the device with the longest list loses its oldest entries, so that a
 * device with too many entries takes no room from the others. */
static bool make_room(struct core *core, const struct device_slot *device)
{
    struct device_slot *longest = NULL;
    for (size_t i = 0; i < core->devices.count; i++) {
        struct device_slot *other = slots_device_at(core, i);
        if (other != device && (!longest || other->holdings.count > longest->holdings.count)) {
            longest = other;
        }
    }
    if (!longest || longest->holdings.count <= device->holdings.count + 1) {
        return false;
    }
    trim(core, longest,
         longest->holdings.count - (longest->holdings.count - device->holdings.count) / 2);
    return true;
}

static uint32_t take_item(struct core *core, const struct device_slot *device)
{
    bool full = core->holding_spare == 0 && core->holding_fresh > HOLDINGS_POOL_MAX;
    if (full && !make_room(core, device)) {
        return 0;
    }
    uint32_t index = core->holding_spare;
    if (index != 0) {
        core->holding_spare = core->holding[index].next;
        return index;
    }
    return core->holding_fresh++;
}

/* ---- plausible reports ---- */

void holdings_add_members(struct core *core, struct job_slot *job)
{
    for (size_t s = 0; s < job->plan.stage_count; s++) {
        size_t slot = table_slot(&core->devices, slots_stage_device(core, job, s));
        job->members.bits[slot / 64] |= UINT64_C(1) << slot % 64;
    }
}

void holdings_forget_member(struct core *core, const struct device_slot *device)
{
    size_t slot = table_slot(&core->devices, device);
    for (size_t i = 0; i < core->jobs.count; i++) {
        slots_job_at(core, i)->members.bits[slot / 64] &= ~(UINT64_C(1) << slot % 64);
    }
}

bool holdings_has_member(const struct core *core, const struct job_slot *job,
                         const struct device_slot *device)
{
    size_t slot = table_slot(&core->devices, device);
    return !job->members.known || (job->members.bits[slot / 64] >> slot % 64 & 1) != 0;
}

/* A holding is valid only if its job can have this version, unit and size, and if a plan of the job
 * had the device. For a job that has ended, one holding per device suffices: the device drops all
 * of them. */
static bool plausible(const struct core *core, const struct device_slot *device,
                      const struct holding *holding)
{
    const struct job_slot *job = slots_job(core, holding->job.text);
    if (holding->version < 0 || holding->unit < 0 || holding->generation < 0 ||
        holding->bytes < 0 || holding->bytes > (int64_t)BLOB_BYTES_MAX) {
        return false;
    }
    return job ? holding->version <= job->total_steps && holding->unit < (int64_t)job->unit_count &&
                     holdings_has_member(core, job, device)
               : !holdings_of_job(core, device, holding->job.text);
}

/* Whether the device wrote the report before it read the assignment that allows this drop. */
static bool still_dropped(const struct core *core, const struct device_slot *device,
                          const struct heartbeat *heartbeat, const struct holding *holding)
{
    bool dropped = false;
    if (heartbeat->revision >= device->holdings.drop_revision) {
        return false;
    }
    for (uint32_t i = device->holdings.first; i != 0 && !dropped; i = core->holding[i].next) {
        const struct holding *known = &core->holding[i].holding;
        dropped = core->holding[i].dropped && known->unit == holding->unit &&
                  known->version == holding->version &&
                  id_equal(known->job.text, holding->job.text);
    }
    return dropped;
}

/* A reported holding, for sorting: if there is no room for all, the newest versions stay. */
struct reported {
    int64_t version;
    uint32_t index;
    bool dropped;
};

static int compare_reported(const void *left, const void *right)
{
    const struct reported *a = left, *b = right;
    if (a->version != b->version) {
        return a->version > b->version ? -1 : 1;
    }
    return a->index < b->index ? -1 : a->index > b->index;
}

static void take_all(struct core *core, struct device_slot *device,
                     const struct heartbeat *heartbeat, const struct reported *reported)
{
    uint32_t *end = &device->holdings.first;
    for (size_t i = 0; i < heartbeat->holding_count; i++) {
        const struct holding *holding = &heartbeat->holding[reported[i].index];
        uint32_t index = plausible(core, device, holding) ? take_item(core, device) : 0;
        if (index != 0) {
            core->holding[index] =
                (struct holding_item){.holding = *holding, .dropped = reported[i].dropped};
            *end = index;
            end = &core->holding[index].next;
            device->holdings.count++;
        }
    }
}

void holdings_replace(struct core *core, struct device_slot *device,
                      const struct heartbeat *heartbeat)
{
    struct drop before[DROPS_MAX] = {0}, after[DROPS_MAX] = {0};
    size_t before_count = holdings_drops(core, device, before);
    struct reported reported[HOLDINGS_MAX];
    for (size_t i = 0; i < heartbeat->holding_count; i++) {
        reported[i] = (struct reported){
            .version = heartbeat->holding[i].version,
            .index = (uint32_t)i,
            .dropped = still_dropped(core, device, heartbeat, &heartbeat->holding[i])};
    }
    sort_in_place(reported, heartbeat->holding_count, sizeof(reported[0]), compare_reported);
    holdings_clear(core, device);
    core->schedule =
        core->schedule || !device->holdings.known; /* a job may have waited for this report */
    device->holdings.known = true;
    take_all(core, device, heartbeat, reported);
    if (holdings_drops(core, device, after) != before_count ||
        memcmp(before, after, sizeof(before)) != 0) {
        mark_device_touched(core, device);
    }
}

bool holdings_usable(const struct job_slot *job, const struct holding_item *item)
{
    return !item->dropped && id_equal(item->holding.job.text, job->job.id.text) &&
           lineage_holds(&job->job, item->holding.generation, item->holding.version);
}

const struct holding *holdings_find(const struct core *core, const struct device_slot *device,
                                    const struct job_slot *job, int64_t version, int64_t unit)
{
    for (uint32_t i = device->holdings.first; i != 0; i = core->holding[i].next) {
        const struct holding *holding = &core->holding[i].holding;
        if (holding->unit == unit && holding->version == version &&
            holdings_usable(job, &core->holding[i])) {
            return holding;
        }
    }
    return NULL;
}

bool holdings_of_job(const struct core *core, const struct device_slot *device, const char *job_id)
{
    for (uint32_t i = device->holdings.first; i != 0; i = core->holding[i].next) {
        if (id_equal(core->holding[i].holding.job.text, job_id)) {
            return true;
        }
    }
    return false;
}

void holdings_touch_job(struct core *core, struct job_slot *job)
{
    for (size_t i = 0; i < core->devices.count; i++) {
        struct device_slot *device = slots_device_at(core, i);
        if (device->job == job || holdings_of_job(core, device, job->job.id.text)) {
            mark_device_touched(core, device);
        }
    }
}

/* ---- drops ---- */

/* Number of starts since the last commit for which devices keep versions: more would fill their
 * memory. */
#define STARTS_KEPT 3

static bool replicates(const struct job_slot *job)
{
    return job_center_rounds(&job->job.spec) || job->job.spec.neighbor_every > 0;
}

static size_t starts_since(const struct job *job, int64_t version)
{
    size_t count = 0;
    while (count < job->line_count && job->line[job->line_count - 1 - count].first > version) {
        count++;
    }
    return count;
}

/* Versions older than the newest committed one have no use. A stop leaves only one copy of each
 * unit, which a single loss may destroy. So devices keep the version committed before the stop
 * until the new plan commits one. Without replication there are no commits, and the start of the
 * plan counts instead. */
static int64_t pinned_version(const struct job_slot *job)
{
    const struct open_round *center = &job->round[ROUND_OF_CENTER];
    int64_t pin =
        job->job.neighbor_version > job->job.version ? job->job.neighbor_version : job->job.version;
    enum phase phase = states_phase(job);
    bool started = phase == PHASE_RUN || phase == PHASE_STOPPING || phase == PHASE_FINISHED;
    if (started && (!replicates(job) || starts_since(&job->job, pin) > STARTS_KEPT)) {
        pin = job->plan.resume_version > pin ? job->plan.resume_version : pin;
    }
    /* Devices still read the version that they upload to the center. */
    return center->version > 0 && center->version < pin ? center->version : pin;
}

/* The device needs no snapshots of the job below this version. */
static int64_t keep_from(const struct core *core, const char *job_id)
{
    const struct job_slot *job = slots_job(core, job_id);
    if (!job || job->mark.ended) {
        return INT64_MAX;
    }
    switch ((enum job_state)job->job.state) {
    case JOB_PAUSED:
        if (states_is_on_devices(job)) {
            break;
        }
        return INT64_MAX; /* the center has it */
    case JOB_QUEUED:
    case JOB_PLANNING:
    case JOB_CANCELLING: return INT64_MAX;
    case JOB_PREPARING:
    case JOB_RUNNING:
    case JOB_REPLANNING:
    case JOB_RECOVERING:
    case JOB_PAUSING:
    case JOB_WAITING_FOR_DEVICES: break;
    case JOB_SUCCEEDED:
    case JOB_FAILED:
    case JOB_CANCELLED: return INT64_MAX;
    }
    return pinned_version(job);
}

size_t holdings_drops(const struct core *core, const struct device_slot *device, struct drop *drop)
{
    size_t count = 0;
    for (uint32_t i = device->holdings.first; i != 0; i = core->holding[i].next) {
        const struct holding *holding = &core->holding[i].holding;
        size_t known = 0;
        while (known < count && !id_equal(drop[known].job.text, holding->job.text)) {
            known++;
        }
        if (known < count || count == DROPS_MAX) {
            continue;
        }
        int64_t below = keep_from(core, holding->job.text);
        if (holding->version < below) {
            drop[count++] = (struct drop){.job = holding->job, .below_version = below};
        }
    }
    return count;
}

void holdings_mark_drops(struct core *core, struct device_slot *device)
{
    struct drop drop[DROPS_MAX];
    size_t count = holdings_drops(core, device, drop);
    if (count == 0) {
        return;
    }
    device->holdings.drop_revision = device->assignment_revision;
    for (uint32_t i = device->holdings.first; i != 0; i = core->holding[i].next) {
        struct holding_item *item = &core->holding[i];
        for (size_t d = 0; d < count; d++) {
            item->dropped = item->dropped || (item->holding.version < drop[d].below_version &&
                                              id_equal(item->holding.job.text, drop[d].job.text));
        }
    }
}

/* ---- the cut ---- */

bool holdings_take_cut(const struct core *core, struct job_slot *job, int64_t version)
{
    static const struct cut none;
    const struct holding *found[UNITS_MAX] = {NULL};
    const struct plan *plan = &job->plan;
    for (size_t s = keepers_first(plan); s < plan->stage_count; s = keepers_next(plan, s)) {
        const struct plan_stage *stage = &plan->stage[s];
        const struct device_slot *device = slots_stage_device(core, job, s);
        for (int64_t u = stage->first; u < stage->end; u++) {
            found[u] = device ? holdings_find(core, device, job, version, u) : NULL;
            if (!found[u]) {
                return false;
            }
        }
    }
    job->cut = none;
    job->cut.version = version;
    for (size_t u = 0; u < job->unit_count; u++) {
        ASSERT(found[u]); /* the keepers cover all units */
        memcpy(job->cut.unit[u].sha256, found[u]->sha256, SHA256_SIZE);
        job->cut.unit[u].bytes = found[u]->bytes;
    }
    return true;
}
