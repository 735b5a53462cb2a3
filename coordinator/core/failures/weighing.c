/* Decides whether a job starts from an older version than the newest one that its devices hold. It
 * does if the plan cannot get the newest version, or its devices cannot load it, and waiting has
 * cost as much as retraining. */
#include "coordinator/core/failures/weighing.h"

#include "coordinator/core/copies/held.h"
#include "coordinator/core/failures/incidents.h"
#include "coordinator/core/failures/links.h"
#include "coordinator/core/failures/recovery.h"
#include "coordinator/core/placement/strategy.h"
#include "coordinator/core/state/deadlines.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"

#define OLDER_MAX 8 /* versions to search for a reachable version */
#define STUCK_MIN 2 /* failures to load a version before an older one is considered */

/* ---- obstacles to a version ---- */

static struct stage_list stages_of(const struct planned *planned, const struct job_slot *job)
{
    return (struct stage_list){planned->stage, planned->stage_count, job->job.spec.micro_batches};
}

/* Whether a device has bad links to all holders of one of its units. */
static bool is_out_of_reach(struct core *core, const struct job_slot *job, int64_t version)
{
    const struct stage_list stages = stages_of(core->planned, job);
    size_t count = held_list(core, job, &device_all_present, version), at = 0;
    for (int64_t unit = 0; unit < (int64_t)job->unit_count; unit++) {
        const size_t first = at;
        while (at < count && core->held[at].unit == unit) {
            at++;
        }
        for (size_t s = 0; s < stages.count; s++) {
            const struct stage_work loads = strategy_loads(job->strategy, &stages, s);
            const struct device_slot *device = slots_device(core, stages.stage[s].device.text);
            bool reached = unit < loads.first || unit >= loads.end;
            for (size_t i = first; i < at && !reached; i++) {
                const struct device_slot *holder = core->held[i].device;
                reached = holder == device || !links_is_bad(core, job, holder, device);
            }
            if (!reached) {
                return true;
            }
        }
    }
    return false;
}

/* An older version helps only if the plan uses no bad link. */
static bool is_behind_link(struct core *core, const struct job_slot *job, int64_t version)
{
    const struct stage_list stages = stages_of(core->planned, job);
    return job->links.failures > 0 && !links_break(core, job, &stages) &&
           is_out_of_reach(core, job, version);
}

static bool is_stuck(const struct job_slot *job, int64_t version)
{
    return job->charges.stuck.count >= STUCK_MIN && job->charges.stuck.version == version;
}

/* ---- the choice ---- */

/* The newest version below `below` that the plan can load without a bad link, and its hashes: a
 * held version, or the center's. 0: none. */
static int64_t version_within_reach(struct core *core, const struct job_slot *job, int64_t below,
                                    struct cut *out)
{
    static const struct cut none;
    for (int i = 0; i < OLDER_MAX && below > 0; i++) {
        *out = none;
        below = held_newest(core, job, recovery_list(core, job, &device_all_present),
                            &device_all_present, below, out);
        if (below > 0 && !is_out_of_reach(core, job, below)) {
            return below;
        }
    }
    *out = none;
    return recovery_center(job);
}

/* The time of one more attempt to load the newer version. */
static int64_t attempt_ms(const struct core *core, const struct job_slot *job,
                          const struct weighing *weighing)
{
    return weighing->by_link ? job->job.deadlines.link_ms + links_pause_ms(core, job)
                             : weighing->waited_ms / job->charges.stuck.count;
}

int64_t weighing_start(struct core *core, struct job_slot *job, int64_t start)
{
    if (start <= recovery_center(job)) {
        return start;
    }
    bool by_link = is_behind_link(core, job, start);
    if (!by_link && !is_stuck(job, start)) {
        return start;
    }
    struct cut cut;
    int64_t older = version_within_reach(core, job, start, &cut);
    if (older == 0) {
        return start;
    }
    int64_t since_ms = by_link ? job->links.since_ms : job->charges.stuck.since_ms;
    const struct weighing weighing = {.newer = start,
                                      .older = older,
                                      .waited_ms = core->now_ms - since_ms,
                                      .retrain_ms = deadlines_redo_ms(job, start - older),
                                      .by_link = by_link};
    bool waits = weighing.waited_ms + attempt_ms(core, job, &weighing) < weighing.retrain_ms;
    incidents_weighed(core, job, &weighing, waits);
    if (waits) {
        return start;
    }
    job->cut = cut;
    return older;
}
