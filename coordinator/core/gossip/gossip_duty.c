/* The part of a group in the assignment of its device. */
#include <string.h>

#include "coordinator/core/gossip/gossip_groups.h"
#include "coordinator/core/gossip/gossip_job.h"
#include "coordinator/core/parts/groups.h"
#include "coordinator/core/placement/peers.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/states.h"

/* The job that trains a group now, or NULL. */
static const struct job_slot *running(const struct core *core, const struct parent_slot *parent,
                                      size_t group)
{
    const struct job_slot *job = groups_job(core, &parent->parent.part[group]);
    return job && parent->mixes.group[group].incarnation > 0 ? job : NULL;
}

static double weight_of(const struct parent_slot *parent, const struct mix_match *match, size_t at)
{
    const struct gossip *gossip = &parent->mixes.gossip;
    int64_t all = 0;
    if (match->kind != MIX_AVERAGE || gossip->rules.weights != LEVELS_SAMPLES) {
        return 0;
    }
    for (size_t i = 0; i < match->peer_count; i++) {
        all += gossip->group[match->peer[i].group].samples;
    }
    return (double)gossip->group[match->peer[at].group].samples / (double)all;
}

/* false: a peer of the match is gone. The averager may already have the copy of this peer, and it
 * uploads the average only as long as it has the order. So its order keeps the peer, with the
 * averager's own address, which has no copy of the peer. */
static bool fill_sources(const struct core *core, const struct parent_slot *parent,
                         const struct mix_match *match, struct mix_order *out)
{
    const struct job_slot *own = running(core, parent, (size_t)match->own.group);
    for (size_t i = 0; i < match->peer_count; i++) {
        const struct mix_member *peer = &match->peer[i];
        const struct job_slot *other = running(core, parent, (size_t)peer->group);
        const bool there =
            other && parent->mixes.group[peer->group].incarnation == peer->generation;
        const struct job_slot *job = there ? other : own;
        struct mix_source *source = &out->source[out->source_count++];
        if (!job || (!there && !match->averages)) {
            return false;
        }
        source->group = peer->group;
        source->generation = peer->generation;
        source->weight = weight_of(parent, match, i);
        source->job = job->job.id;
        source->job_generation = job->plan.generation;
        source->plan = job->plan.id;
        peers_fill(core, job, 0, CODEC_NONE, &source->peer);
        if (peer->group == match->own.group) {
            source->peer.url[0] = '\0';
        }
    }
    return true;
}

/* The averager keeps an expired order: it uploads the average only as long as it has the order. */
static void add_order(const struct core *core, const struct parent_slot *parent,
                      const struct mix_match *match, struct mix_duty *duty)
{
    const bool over = match->deadline_ms <= core->now_ms;
    if (match->xid.counter == 0 || match->own.generation != duty->generation ||
        (over && !match->averages)) {
        return;
    }
    struct mix_order *order = &duty->order[duty->order_count];
    *order = (struct mix_order){.xid = match->xid,
                                .kind = match->kind,
                                .averages = match->averages,
                                .alpha = match->alpha,
                                .statistics_alpha = match->statistics_alpha,
                                .rate_step = match->rate_step,
                                .left_ms = over ? 0 : match->deadline_ms - core->now_ms};
    if (fill_sources(core, parent, match, order)) {
        duty->order_count++;
    } else {
        memset(order, 0, sizeof(*order));
    }
}

static void allow_others(const struct core *core, const struct parent_slot *parent, size_t group,
                         const struct job_slot *job, struct assignment *out)
{
    for (size_t g = 0; g < parent->parent.gossip.member_count; g++) {
        const struct job_slot *other = g == group ? NULL : running(core, parent, g);
        if (other) {
            peers_allow(core, job, &other->plan.stage[0].device, out);
        }
    }
}

void gossip_fill_assignment(const struct core *core, const struct device_slot *device,
                            struct assignment *out)
{
    const struct job_slot *job = device->job;
    const struct parent_slot *parent =
        job->job.part == JOB_GROUP ? slots_parent(core, job->job.parent.text) : NULL;
    if (!parent || parent->job.spec.strategy != STRATEGY_GOSSIP) {
        return;
    }
    const size_t group = (size_t)job->job.group;
    const struct gossip_member *member = &parent->parent.gossip.member[group];
    const struct gossip_group_work *work = &parent->mixes.group[group];
    struct mix_duty *duty = &out->run.mix;
    out->run.has_mix = true;
    duty->group = job->job.group;
    duty->generation = member->incarnation;
    duty->groups = (int64_t)parent->parent.gossip.member_count;
    duty->every = work->every > 0 ? work->every : 1;
    duty->passed = work->passed;
    duty->probes = parent->job.spec.gossip.weights == WEIGHTS_ACCURACY;
    duty->holds = parent->job.spec.gossip.schedule == SCHEDULE_ROUNDS;
    duty->slows = work->slows;
    duty->rate_step = member->rate_step;
    duty->steps = gossip_steps_all(parent);
    for (size_t i = 0; i < MIX_ORDERS_MAX; i++) {
        add_order(core, parent, &work->order[i], duty);
    }
    allow_others(core, parent, group, job, out);
}
