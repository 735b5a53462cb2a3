/* What follows from the assignment of a stage. */
#include <stdlib.h>
#include <string.h>

#include "agent/core/evaluations.h"
#include "base/assert.h"
#include "schema/job_check.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/servers.h"

#define NO_VERSION (-1)

static bool has_share(const struct assigned_stage *stage)
{
    return stage->share_first < stage->share_end;
}

/* Servers come first. */
static void take_servers(struct servers_run *work, const struct assignment_run *desired)
{
    while (work->servers < desired->stages_listed &&
           desired->stage[work->servers].first < desired->stage[work->servers].end) {
        ASSERT(work->servers < EXCHANGE_SERVERS_MAX);
        work->layer_end[work->servers] = work->layers.first[desired->stage[work->servers].end];
        work->servers++;
    }
    const size_t index = (size_t)desired->stage_index;
    if (index < work->servers) {
        work->first = index == 0 ? 0 : work->layer_end[index - 1];
        work->end = work->layer_end[index];
    }
}

static void add_blocks(struct servers_run *work, const struct assigned_stage *stage, size_t index)
{
    struct reduce_range range[REDUCE_BLOCKS_MAX];
    const struct reduce_range share = {(size_t)stage->share_first, (size_t)stage->share_end};
    const size_t count = reduce_blocks(work->micro_batches, share, range);
    for (size_t i = 0; i < count; i++) {
        work->block[work->blocks++] = (struct exchange_block){index, range[i]};
    }
}

/* In the order of their micro-batches, in which workers need not be. */
static void take_blocks(struct servers_run *work, const struct assignment_run *desired)
{
    work->micro_batches = (size_t)desired->job_spec.micro_batches;
    ASSERT(work->micro_batches <= DIGEST_MICRO_BATCHES_MAX);
    for (int64_t at = 0; at < desired->job_spec.micro_batches;) {
        size_t s = 0;
        while (s < desired->stages_listed &&
               (!has_share(&desired->stage[s]) || desired->stage[s].share_first != at)) {
            s++;
        }
        ASSERT(s < desired->stages_listed);
        add_blocks(work, &desired->stage[s], s);
        at = desired->stage[s].share_end;
    }
}

static void fill_config(const struct servers_run *work, const struct assignment_run *desired,
                        struct exchange_config *config)
{
    const struct job_spec *spec = &desired->job_spec;
    *config = (struct exchange_config){
        .index = (size_t)desired->stage_index,
        .count = (size_t)desired->stage_count,
        .servers = work->servers,
        .micro_batches = work->micro_batches,
        .block = work->block,
        .blocks = work->blocks,
        .resume_version = desired->resume_version,
        .total_steps = desired->total_steps,
        .evaluate_every = job_evaluate_steps(spec, &desired->data),
        .evaluation_batches =
            evaluations_batches(spec, &desired->data, (size_t)(spec->batch / spec->micro_batches)),
        .clips_norm = spec->optimizer.clip_norm > 0,
        .judges = spec->has_stop,
        .stop = spec->stop,
        .judged = desired->early_stop,
        .checkpoint_every = job_checkpoint_steps(spec, &desired->data),
        .round_every = {[REPLICA_NEIGHBOR] = desired->has_neighbor ? spec->neighbor_every : 0,
                        [REPLICA_CENTER] = spec->center_every},
    };
    memcpy(config->layer_end, work->layer_end, sizeof(config->layer_end));
}

int servers_make(const struct world *world, struct run *run, struct err *err)
{
    const struct assignment_run *desired = run->desired;
    const struct model *model = coordinator_model(world, &desired->job_spec);
    struct servers_run *work = calloc(1, sizeof(*work));
    struct exchange_config config;
    if (!work) {
        return err_set(err, ERR_MEMORY, "stage");
    }
    run->work = work;
    servers_layers_of(model, &work->layers);
    take_servers(work, desired);
    take_blocks(work, desired);
    fill_config(work, desired, &config);
    run->stage.clips = config.clips_norm;
    run->stage.units = model->unit_count;
    timing_begin(&work->timing, model->unit_count);
    for (size_t l = 0; l < DIGEST_LAYERS_MAX; l++) {
        work->parameter_version[l] = work->statistic_version[l] = NO_VERSION;
    }
    work->tested = calloc(config.evaluation_batches + 1, sizeof(*work->tested));
    return work->tested ? exchange_new(&config, &work->exchange, err)
                        : err_set(err, ERR_MEMORY, "results");
}

struct needs_data servers_needs(const struct assignment_run *desired)
{
    const bool works = has_share(&desired->stage[desired->stage_index]);
    const bool tests =
        desired->data.test_sha256[0] != '\0' && desired->job_spec.evaluate_every_epochs > 0;
    return (struct needs_data){
        .inputs = works, .labels = works, .train = works, .test = works && tests};
}

size_t servers_peers(const struct assignment_run *desired, const struct peer *out[RUN_PEERS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < desired->stages_listed; i++) {
        if (desired->stage[i].peer.url[0] != '\0') {
            out[count++] = &desired->stage[i].peer;
        }
    }
    return count;
}
