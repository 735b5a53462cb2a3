/* The snapshots of a job are listed once, sorted by version and unit. Then one pass over the list
 * answers each question, such as the newest version without some devices. */
#include "coordinator/core/copies/held.h"

#include <string.h>

#include "base/sort.h"
#include "coordinator/core/copies/holdings.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"

static int compare(const void *left, const void *right)
{
    const struct held_item *a = left, *b = right;
    if (a->version != b->version) {
        return a->version > b->version ? -1 : 1; /* the newest first */
    }
    if (a->unit != b->unit) {
        return a->unit < b->unit ? -1 : 1;
    }
    return a->order < b->order ? -1 : a->order > b->order;
}

size_t held_list(const struct core *core, const struct job_slot *job, const struct absent *absent,
                 int64_t only)
{
    size_t count = 0;
    for (size_t d = 0; d < core->devices.count; d++) {
        struct device_slot *device = slots_device_at(core, d);
        if (device->holdings.first == 0 || !device_reachable(device) ||
            device_absent(absent, device)) {
            continue;
        }
        for (uint32_t i = device->holdings.first; i != 0; i = core->holding[i].next) {
            const struct holding *holding = &core->holding[i].holding;
            bool wanted = only >= 0 ? holding->version == only
                                    : holding->version > job->job.version &&
                                          holding->version <= job->total_steps &&
                                          job_has_judged(&job->job, holding->version);
            if (wanted && holding->unit < (int64_t)job->unit_count &&
                holdings_usable(job, &core->holding[i])) {
                core->held[count] = (struct held_item){.version = holding->version,
                                                       .unit = (uint32_t)holding->unit,
                                                       .order = (uint32_t)count,
                                                       .item = i,
                                                       .device = device};
                count++;
            }
        }
    }
    if (count > 0) {
        sort_in_place(core->held, count, sizeof(core->held[0]), compare);
    }
    return count;
}

/* Whether the items of one version, without the absent devices, cover every unit with one hash for
 * each unit. */
static bool is_whole(const struct core *core, const struct job_slot *job,
                     const struct held_item *item, size_t count, const struct absent *absent)
{
    size_t units = 0;
    const char *sha256 = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct holding *holding = &core->holding[item[i].item].holding;
        if (device_absent(absent, item[i].device)) {
            continue;
        }
        if (item[i].unit == units) {
            units++;
            sha256 = holding->sha256;
        } else if (item[i].unit > units || strcmp(sha256, holding->sha256) != 0) {
            return false;
        }
    }
    return units == job->unit_count;
}

static size_t version_end(const struct core *core, size_t first, size_t count)
{
    size_t end = first;
    while (end < count && core->held[end].version == core->held[first].version) {
        end++;
    }
    return end;
}

size_t held_covered(const struct core *core, const struct job_slot *job, size_t count)
{
    size_t kept = 0;
    for (size_t first = 0, end; first < count; first = end) {
        end = version_end(core, first, count);
        size_t units = 0;
        for (size_t i = first; i < end; i++) {
            units += i == first || core->held[i].unit != core->held[i - 1].unit;
        }
        if (units == job->unit_count) {
            memmove(&core->held[kept], &core->held[first], (end - first) * sizeof(core->held[0]));
            kept += end - first;
        }
    }
    return kept;
}

int64_t held_newest(const struct core *core, const struct job_slot *job, size_t count,
                    const struct absent *absent, int64_t below, struct cut *out)
{
    for (size_t first = 0, end; first < count; first = end) {
        end = version_end(core, first, count);
        if (core->held[first].version >= below ||
            !is_whole(core, job, &core->held[first], end - first, absent)) {
            continue;
        }
        for (size_t i = first; out && i < end; i++) {
            const struct holding *holding = &core->holding[core->held[i].item].holding;
            if (!device_absent(absent, core->held[i].device) &&
                out->unit[holding->unit].sha256[0] == '\0') {
                memcpy(out->unit[holding->unit].sha256, holding->sha256, SHA256_SIZE);
                out->unit[holding->unit].bytes = holding->bytes;
            }
        }
        if (out) {
            out->version = core->held[first].version;
        }
        return core->held[first].version;
    }
    return 0;
}
