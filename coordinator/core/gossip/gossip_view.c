/* What users see of groups that train apart. */
#include <math.h>

#include "coordinator/core/core.h"
#include "coordinator/core/gossip/gossip_groups.h"
#include "coordinator/core/gossip/gossip_job.h"
#include "coordinator/core/parts/groups.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "schema/groups_view.h"

void core_fill_groups(const struct core *core, const char *job_id, struct groups_view *out)
{
    const struct parent_slot *parent = slots_parent(core, job_id);
    for (size_t g = 0; parent && g < parent->parent.gossip.member_count; g++) {
        const struct gossip *gossip = &parent->mixes.gossip;
        const struct gossip_group_work *work = &parent->mixes.group[g];
        const struct job_slot *job = groups_job(core, &parent->parent.part[g]);
        struct group_mixes *view = &out->group[g].mixes;
        view->steps = parent->parent.gossip.member[g].steps + work->claims.reached;
        if (job && work->incarnation > 0) {
            view->device = job->plan.stage[0].device;
            view->every = work->every;
            view->slows = work->slows;
            view->mixes = work->mixes;
            view->missed_periods = gossip_missed_periods(gossip, g, core->now_ms);
            view->averages = gossip->phase == GOSSIP_COMPUTES && gossip->averager == g;
            view->mix_seconds = work->watch.mix_seconds;
            view->gap_seconds = work->watch.gap_seconds;
            view->loss = job->job.progress.loss;
            view->has_loss = job->job.progress.has_loss;
            view->samples_per_second = gossip_measured_speed(parent, job);
            view->distance = work->distance;
            view->has_distance = work->has_distance;
        }
    }
}

struct core_gossip core_gossip_counts(const struct core *core)
{
    struct core_gossip counts = core->gossip;
    for (size_t p = 0; p < core->parents.count; p++) {
        const struct parent_slot *parent = slots_parent_at(core, p);
        for (size_t g = 0; g < parent->parent.gossip.member_count; g++) {
            const struct gossip_group_work *work = &parent->mixes.group[g];
            const bool trains = work->incarnation > 0;
            counts.training += trains;
            counts.gap_seconds =
                trains ? fmax(counts.gap_seconds, work->watch.gap_seconds) : counts.gap_seconds;
        }
    }
    return counts;
}
