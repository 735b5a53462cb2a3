/* Whether a job starts from an older version than the newest that its devices hold. It does if the
 * plan cannot get the newest one, or its devices cannot load it, and waiting has cost as much as
 * retraining. */
#include "coordinator/core/weighing.h"

#include "coordinator/core/deadlines.h"
#include "coordinator/core/device.h"
#include "coordinator/core/held.h"
#include "coordinator/core/incidents.h"
#include "coordinator/core/links.h"
#include "coordinator/core/recovery.h"
#include "coordinator/core/slots.h"
#include "coordinator/core/state.h"

#define OLDER_MAX 8 /* versions to search for a reachable one */
#define STUCK_MIN 2 /* failures to load a version before an older one is considered */

/* ---- obstacles to a version ---- */

/* Whether a device has bad links to all holders of one of its units. */
static bool is_out_of_reach(struct core *core, const struct job_slot *job, int64_t version)
{
    const struct planned *planned = core->planned;
    size_t count = held_list(core, job, &device_all_present, version), at = 0;
    for (size_t s = 0; s < planned->stage_count; s++) {
        const struct plan_stage *stage = &planned->stage[s];
        const struct device_slot *device = slots_device(core, stage->device.text);
        for (size_t unit = (size_t)stage->first; unit < (size_t)stage->end; unit++) {
            bool reached = false;
            for (; at < count && core->held[at].unit == unit; at++) {
                const struct device_slot *holder = core->held[at].device;
                reached = reached || holder == device || !links_is_bad(core, job, holder, device);
            }
            if (!reached) {
                return true;
            }
        }
    }
    return false;
}

/* An older version helps only if no neighbours in the plan have a bad link. */
static bool is_behind_link(struct core *core, const struct job_slot *job, int64_t version)
{
    const struct planned *planned = core->planned;
    struct device_slot *device[STAGES_MAX];
    for (size_t s = 0; s < planned->stage_count; s++) {
        device[s] = slots_device(core, planned->stage[s].device.text);
    }
    return job->links.failures > 0 && !links_break_ring(core, job, device, planned->stage_count) &&
           is_out_of_reach(core, job, version);
}

static bool is_stuck(const struct job_slot *job, int64_t version)
{
    return job->charges.stuck.count >= STUCK_MIN && job->charges.stuck.version == version;
}

/* ---- the choice ---- */

/* The newest version below it that the plan gets without a bad link, and its hashes: held, or the
 * center's. 0: none. */
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

/* How long one more attempt at the newer version takes. */
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
