#include "coordinator/core/gossip/gossip_form.h"

#include <inttypes.h>

#include "coordinator/core/gossip/gossip_parts.h"
#include "coordinator/core/parts/groups.h"
#include "coordinator/core/parts/local_groups.h"
#include "coordinator/core/placement/candidates.h"
#include "coordinator/core/placement/local_data.h"
#include "coordinator/core/placement/problem.h"
#include "coordinator/core/state/planning.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"
#include "libtrain/model/cost.h"
#include "libtrain/model/shards.h"
#include "schema/job_check.h"

/* ---- devices ---- */

/* Devices with enough memory, the fastest first. Return their number, at most that of the groups.
 */
static size_t list_recruits(struct core *core, const struct gossip_wanted *wanted,
                            struct recruit out[GROUPS_MAX])
{
    const struct plan_question *question = wanted->question;
    const size_t most = (size_t)wanted->spec->devices_max;
    const struct planning *planning = core->planning;
    struct job_spec spec;
    gossip_any_job(wanted->spec, &spec);
    struct placement_request request = {.spec = &spec,
                                        .model = wanted->model,
                                        .candidates = wanted->candidates,
                                        .question = question,
                                        .groups = most};
    if (question) {
        request.without =
            (struct absent){.device = question->without, .count = question->without_count};
    }
    const double micro_batch = (double)spec.batch / (double)spec.micro_batches;
    bool fits[PLANNING_DEVICES_MAX];
    size_t count = 0;
    candidates_fill(core, &request, core->planning);
    problem_fit_alone(core->planning, fits);
    for (size_t d = 0; d < planning->device_count; d++) {
        if (!fits[d]) {
            continue;
        }
        const struct recruit recruit = {.device = planning->device[d].id,
                                        .candidate = d,
                                        .speed = micro_batch * planning_speed(planning, d, 0)};
        size_t at = count < most ? count++ : count;
        while (at > 0 && out[at - 1].speed < recruit.speed) {
            if (at < most) {
                out[at] = out[at - 1];
            }
            at--;
        }
        if (at < most) {
            out[at] = recruit;
        }
    }
    return count;
}

size_t gossip_recruit(struct core *core, const struct gossip_wanted *wanted,
                      struct recruit out[GROUPS_MAX], size_t *there)
{
    const struct job_spec *spec = wanted->spec;
    const struct event_classes *classes = wanted->classes;
    double speed[GROUPS_MAX];
    struct err err = {0};
    size_t count = list_recruits(core, wanted, out);
    *there = count;
    for (size_t g = 0; g < count; g++) {
        speed[g] = out[g].speed;
    }
    /* Fewer groups have larger shards. */
    while (!job_is_local(spec) && count >= (size_t)spec->devices_min &&
           gossip_divide(spec, classes->samples, classes->count, speed, count, core->shard, &err)) {
        count--;
    }
    return count < (size_t)spec->devices_min ? 0 : count;
}

/* NULL: the data are uploaded. */
static const struct offer *offer_of(const struct core *core, const struct job_spec *spec,
                                    const struct model *model, const struct recruit *recruit)
{
    return job_is_local(spec) ? local_data_offer(core, spec, model, &recruit->device) : NULL;
}

int64_t gossip_recruit_samples(const struct core *core, const struct job_spec *spec,
                               const struct model *model, size_t class_count,
                               const struct recruit *recruit, size_t group)
{
    const struct offer *offer = offer_of(core, spec, model, recruit);
    return offer ? offer->samples - job_held(spec, offer)
                 : shards_size(core->shard, class_count, group);
}

static void wait_for_more(struct parent_slot *parent, size_t free)
{
    const struct job_spec *spec = &parent->job.spec;
    if (job_is_local(spec)) {
        text_set(parent->work.wait, sizeof(parent->work.wait),
                 "needs %" PRId64 " devices that offer '%.60s'; %zu are free%.150s",
                 spec->devices_min, spec->train_local.name, free, parent->work.note);
    } else {
        text_set(parent->work.wait, sizeof(parent->work.wait),
                 "needs %" PRId64 " devices; %zu are free", spec->devices_min, free);
    }
}

void gossip_prospect(const struct core *core, const struct job_spec *spec,
                     const struct recruit *recruit, size_t count, struct prospect *out)
{
    const struct planning *planning = core->planning;
    const double bytes = (double)cost_state_bytes(planning->model);
    size_t candidate[GROUPS_MAX];
    out->problem = (struct levels_problem){
        .count = count, .batch = spec->batch, .speed = out->speed, .seconds = out->seconds};
    for (size_t g = 0; g < count; g++) {
        out->speed[g] = recruit[g].speed;
        candidate[g] = recruit[g].candidate;
    }
    planning_copies(planning, candidate, count, bytes, out->seconds, out->rate);
}

/* The window of a group that does not train all of its samples between two averages; 0: it trains
 * all. The window never changes, nor do the samples: the log does not say how they are chosen. */
static int64_t window_of(const struct parent_slot *parent, const struct prospect *prospect,
                         size_t group, int64_t samples)
{
    const struct job_spec *spec = &parent->job.spec;
    if (spec->gossip.critical <= 0 || !spec->gossip.level) {
        return 0;
    }
    const int64_t steps =
        levels_steps(prospect->speed[group], levels_period(&prospect->problem), spec->batch);
    const int64_t mixes = gossip_average_every(&spec->gossip, prospect->problem.count);
    const double window = (double)steps * (double)mixes * (double)spec->batch;
    return window < (double)samples ? (int64_t)window : 0;
}

static int64_t held_by(const struct core *core, const struct parent_slot *parent,
                       const struct recruit *recruit)
{
    const struct job_spec *spec = &parent->job.spec;
    const struct offer *offer = offer_of(core, spec, parent->model, recruit);
    return offer ? job_held(spec, offer) : 0;
}

/* From here on the number of groups is fixed. */
void gossip_form(struct core *core, struct parent_slot *parent)
{
    struct parent *row = &parent->parent;
    struct recruit recruit[GROUPS_MAX];
    const struct event_classes classes = {.samples = row->class_samples, .count = row->class_count};
    size_t free;
    const struct gossip_wanted wanted = {.spec = &parent->job.spec,
                                         .model = parent->model,
                                         .classes = &classes,
                                         .candidates = CANDIDATES_FREE};
    const size_t count = gossip_recruit(core, &wanted, recruit, &free);
    if (count == 0) {
        local_groups_note(core, parent);
        wait_for_more(parent, free);
        return;
    }
    parent->work.wait[0] = '\0';
    row->groups.count = row->gossip.member_count = count;
    struct prospect prospect;
    int64_t sum = 0, held = 0;
    gossip_prospect(core, &parent->job.spec, recruit, count, &prospect);
    for (size_t g = 0; g < count; g++) {
        const int64_t samples = gossip_recruit_samples(core, &parent->job.spec, parent->model,
                                                       row->class_count, &recruit[g], g);
        row->gossip.member[g] =
            (struct gossip_member){.samples = samples,
                                   .held = held_by(core, parent, &recruit[g]),
                                   .window = window_of(parent, &prospect, g, samples),
                                   .speed = recruit[g].speed};
        row->groups.group[g].device = recruit[g].device;
        sum += samples;
        held += row->gossip.member[g].held;
    }
    parent->job.data.train_samples = sum + held;
    if (held > 0) {
        parent->job.data.epoch_samples = sum;
        parent->job.data.test_samples = held;
    }
    parent->work.job_changed = true;
    groups_changed(parent);
}

/* ---- jobs ---- */

void gossip_begin_group(struct core *core, struct parent_slot *parent, size_t group)
{
    struct parent *row = &parent->parent;
    struct gossip_member *member = &row->gossip.member[group];
    const struct gossip_state *state = &row->gossip;
    struct job_spec spec;
    struct job_data data = parent->job.data;
    if (!gossip_group_job(core, parent, group, &spec, &data)) {
        return;
    }
    const struct device_id *device = &row->groups.group[group].device;
    const bool first = row->part[group].attempts == 0;
    const struct group_job made = {.part = JOB_GROUP,
                                   .group = group,
                                   .device = first && device->text[0] != '\0' ? device : NULL,
                                   .spec = &spec,
                                   .data = &data,
                                   .model = parent->model};
    if (groups_begin(core, parent, &row->part[group], &made)) {
        incidents_take_over(core, groups_job(core, &row->part[group]),
                            &parent->mixes.group[group].incidents);
        if (job_is_local(&parent->job.spec)) {
            member->samples = job_epoch_samples(&data); /* they may have changed */
            member->held = spec.test_local.holdout > 0 ? data.test_samples : 0;
        }
        static const struct gossip_average none;
        const struct gossip_average *newest =
            state->average_count > 0 ? &state->average[state->average_count - 1] : &none;
        member->origin = newest->xid;
        member->origin_author = newest->author;
        parent->mixes.group[group].claims = (struct gossip_claims){0};
    }
}
