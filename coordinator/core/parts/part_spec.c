#include "coordinator/core/parts/part_spec.h"

#include <string.h>

#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"
#include "schema/job_check.h"

void part_spec_begin(const struct parent_slot *parent, struct job_spec *spec)
{
    *spec = parent->job.spec;
    spec->strategy = STRATEGY_PIPELINE;
    spec->submodel = job_spec_default.submodel;
    spec->gossip = job_spec_default.gossip;
    spec->parameter_server = job_spec_default.parameter_server;
    spec->has_submodel = spec->has_gossip = spec->has_parameter_server = false;
}

void part_spec_name(const struct parent_slot *parent, const char *suffix, struct job_spec *spec)
{
    const int room = (int)sizeof(spec->name) - 1 - (int)strlen(suffix);
    text_set(spec->name, sizeof(spec->name), "%.*s%s", room, parent->job.spec.name, suffix);
}

void part_spec_shorten_warmup(const struct job_data *data, struct job_spec *spec)
{
    const int64_t steps = job_total_steps(spec, job_epoch_samples(data));
    if (steps > 0 && spec->learning_rate.warmup_steps >= steps) {
        spec->learning_rate.warmup_steps = steps - 1;
    }
}

void part_spec_own_data(struct job_data *data)
{
    data->joint_sha256[0] = '\0';
    data->joint_samples = 0;
}

void part_spec_start_from(const struct checkpoint_id *checkpoint, const char *sha256, int64_t bytes,
                          struct job_spec *spec, struct job_data *data)
{
    spec->init_checkpoint = *checkpoint;
    spec->init_except_count = 0;
    text_set(data->checkpoint_sha256, sizeof(data->checkpoint_sha256), "%s", sha256);
    data->checkpoint_bytes = bytes;
}
