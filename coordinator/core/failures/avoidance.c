/* A job excludes a device for a while after a failure charged to it: one end of a broken link, a
 * slow stage, a device that failed by itself. Without exclusion the next plan would fail in the
 * same way. Each failure in a row doubles the time, so a bad device costs less and less, and a
 * repaired one returns. */
#include "coordinator/core/failures/avoidance.h"

#include <string.h>

#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"

/* Length of the first exclusion, in leases; docs/protocol.md, "Deadlines". */
#define AVOID_LEASES 6
#define AVOID_SHIFT_MAX 7
/* Doublings for a joining device that has cost a running job a generation: the job must not stop
 * for it again soon. */
#define JOINER_SHIFT 5

static struct avoided *find(struct job_slot *job, const struct device_slot *device)
{
    size_t at = 0;
    while (at < AVOIDED_MAX && !id_equal(job->avoided[at].device.text, device->device.id.text)) {
        at++;
    }
    return at < AVOIDED_MAX ? &job->avoided[at] : NULL;
}

/* The entry of the device, or a place for it: the entry whose exclusion ends first. */
static struct avoided *take(struct job_slot *job, const struct device_slot *device)
{
    struct avoided *entry = find(job, device);
    if (!entry) {
        entry = &job->avoided[0];
        for (size_t i = 1; i < AVOIDED_MAX; i++) {
            entry = job->avoided[i].until_ms < entry->until_ms ? &job->avoided[i] : entry;
        }
        *entry = (struct avoided){.device = device->device.id};
    }
    return entry;
}

/* Whether the device has not failed for the length of its last exclusion plus one phase. */
static bool is_forgiven(const struct core *core, const struct job_slot *job,
                        const struct avoided *entry)
{
    return core->now_ms - entry->until_ms > entry->for_ms + job->job.deadlines.prepare_ms;
}

void avoidance_add(struct core *core, struct job_slot *job, const struct device_slot *device,
                   enum avoidance why)
{
    struct avoided *entry = take(job, device);
    /* After a restart, the coordinator does not know which devices had joined. */
    const bool known = job->previous.stage_count > 0;
    const bool joined =
        known && job->plan.reason == PLAN_DEVICE_JOINED && !states_plan_has(&job->previous, device);
    if (is_forgiven(core, job, entry)) {
        entry->count = 0;
    }
    int shift = entry->count + (why == AVOID_FAILED && joined ? JOINER_SHIFT : 0);
    shift = shift < AVOID_SHIFT_MAX ? shift : AVOID_SHIFT_MAX;
    int64_t for_ms = (AVOID_LEASES * core->config.lease_ms) << shift;
    if (why == AVOID_LOST) {
        for_ms /= 2;
    }
    if (entry->count == 0 && (why == AVOID_LOST || why == AVOID_DAMAGE)) {
        for_ms = 0; /* the first time does not count */
    }
    entry->count++;
    entry->failed = why == AVOID_FAILED || why == AVOID_DAMAGE;
    entry->for_ms = for_ms;
    entry->until_ms = core->now_ms + for_ms;
}

bool avoidance_has(const struct core *core, const struct job_slot *job,
                   const struct device_slot *device, enum avoid_level level)
{
    for (size_t i = 0; level != AVOID_NONE && i < AVOIDED_MAX; i++) {
        const struct avoided *entry = &job->avoided[i];
        if (entry->until_ms > core->now_ms && (entry->failed || level == AVOID_ALL) &&
            id_equal(entry->device.text, device->device.id.text)) {
            return true;
        }
    }
    return false;
}

int64_t avoidance_until_ms(const struct core *core, const struct job_slot *job)
{
    int64_t until_ms = NEVER;
    for (size_t i = 0; i < AVOIDED_MAX; i++) {
        int64_t ms = job->avoided[i].until_ms;
        until_ms = ms > core->now_ms && ms < until_ms ? ms : until_ms;
    }
    return until_ms;
}

void avoidance_clear(struct job_slot *job)
{
    memset(job->avoided, 0, sizeof(job->avoided));
}

void avoidance_wait(struct core *core, struct job_slot *job)
{
    int64_t avoided_ms = avoidance_until_ms(core, job), cool_ms = job->drift.cool_ms;
    job->timer_ms[TIMER_JOIN] =
        cool_ms > core->now_ms && cool_ms < avoided_ms ? cool_ms : avoided_ms;
}

void avoidance_watch(struct core *core, struct job_slot *job)
{
    avoidance_wait(core, job);
    core->joinable = true;
}
