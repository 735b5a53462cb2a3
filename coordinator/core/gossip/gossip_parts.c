#include "coordinator/core/gossip/gossip_parts.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/capacity/traffic.h"
#include "coordinator/core/parts/part_spec.h"
#include "coordinator/core/placement/local_data.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"
#include "libtrain/model/cost.h"
#include "libtrain/model/shards.h"
#include "schema/job_check.h"

#define SECONDS_MIN 1e-9

int gossip_divide(const struct job_spec *spec, const int64_t *samples, size_t class_count,
                  const double *speed, size_t groups, int64_t *out, struct err *err)
{
    const struct gossip_options *options = &spec->gossip;
    const double alpha =
        options->split == SHARDS_DIRICHLET && options->alpha <= 0 ? GOSSIP_ALPHA : options->alpha;
    const struct shards_problem problem = {
        .split = (enum shards_split)options->split,
        .count = samples,
        .class_count = class_count,
        .shards = groups,
        .speed = speed,
        .alpha = alpha,
        .classes_per_shard = options->classes_per_shard < (int64_t)class_count
                                 ? (size_t)options->classes_per_shard
                                 : class_count,
        .least = spec->batch,
        .seed = (uint64_t)spec->seed,
    };
    return shards_divide(&problem, out, err);
}

/* Cannot fail: the row holds the inputs of a division that succeeded. */
void gossip_divide_parent(struct core *core, const struct parent_slot *parent)
{
    const struct parent *row = &parent->parent;
    double speed[GROUPS_MAX];
    struct err err = {0};
    for (size_t g = 0; g < row->gossip.member_count; g++) {
        speed[g] = row->gossip.member[g].speed;
    }
    const int rc = gossip_divide(&parent->job.spec, row->class_samples, row->class_count, speed,
                                 row->gossip.member_count, core->shard, &err);
    ASSERT(rc == 0);
}

/* Averages replace the copies of groups, and the evaluations are those of averages. */
void gossip_any_job(const struct job_spec *parent, struct job_spec *spec)
{
    *spec = *parent;
    spec->devices_min = spec->devices_max = 1;
    spec->neighbor_every = spec->center_every = 0;
    spec->evaluate_every_epochs = 0;
}

static void fill_view(const struct core *core, const struct parent_slot *parent, size_t group,
                      struct job_spec *spec)
{
    const size_t class_count = parent->parent.class_count;
    const struct gossip_member *member = &parent->parent.gossip.member[group];
    struct view *view = &spec->view;
    *view = (struct view){.is_shard = true,
                          .seed = parent->job.spec.seed,
                          .window = member->window,
                          .critical = member->window > 0 ? parent->job.spec.gossip.critical : 0,
                          .shard = (int64_t)group,
                          .shard_count = (int64_t)parent->parent.gossip.member_count};
    for (size_t c = 0; c < class_count; c++) {
        const int64_t count = core->shard[group * class_count + c];
        if (count > 0) {
            view->range[view->range_count++] = (struct view_range){
                .class = (uint32_t)c,
                .first = (uint32_t)shards_first(core->shard, class_count, group, c),
                .count = (uint32_t)count};
        }
    }
    spec->has_view = true;
}

/* A group never ends by itself. If the others are lost, it may make all steps of the parent, and it
 * trains until the last average has arrived. It begins with the newest average. */
bool gossip_group_job(const struct core *core, const struct parent_slot *parent, size_t group,
                      struct job_spec *spec, struct job_data *data)
{
    const struct gossip_state *state = &parent->parent.gossip;
    char suffix[24];
    part_spec_begin(parent, spec);
    gossip_any_job(spec, spec);
    text_set(suffix, sizeof(suffix), ".group%zu", group);
    part_spec_name(parent, suffix, spec);
    spec->steps = STEPS_MAX;
    spec->epochs = EPOCHS_MAX;
    if (job_is_local(&parent->job.spec)) {
        const struct device_id *device = &parent->parent.groups.group[group].device;
        const struct offer *offer =
            local_data_offer(core, &parent->job.spec, parent->model, device);
        if (!offer) {
            return false;
        }
        spec->train_local.device = *device;
        local_data_use(offer, spec, data);
    } else {
        fill_view(core, parent, group, spec);
        const struct gossip_member *member = &state->member[group];
        data->epoch_samples = member->window > 0 ? member->window : member->samples;
    }
    if (state->average_count > 0) {
        const struct gossip_average *newest = &state->average[state->average_count - 1];
        part_spec_start_from(&newest->checkpoint, newest->sha256, newest->bytes, spec, data);
    }
    return true;
}

double gossip_copy_seconds(const struct core *core, const struct device_slot *from,
                           const struct device_slot *to, const struct model *model)
{
    const double bytes = (double)cost_state_bytes(model);
    return fmax(link_transfer_seconds(traffic_link(core, from, to), bytes), SECONDS_MIN);
}
