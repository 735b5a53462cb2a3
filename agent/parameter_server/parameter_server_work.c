#include "agent/parameter_server/parameter_server_work.h"

#include "agent/parameter_server/caller.h"
#include "agent/parameter_server/member_loop.h"
#include "agent/parameter_server/member_parts.h"
#include "libtrain/model/layers.h"

static const struct assigned_stage *own_stage(const struct assignment_run *run)
{
    return &run->stage[run->stage_index];
}

static bool works(const struct assignment_run *run)
{
    return own_stage(run)->share_first < own_stage(run)->share_end;
}

static struct needs_data list_needs(const struct assignment_run *run)
{
    const bool tests = run->data.test_sha256[0] != '\0' && run->job_spec.evaluate_every_epochs > 0;
    const bool worker = works(run);
    return (struct needs_data){
        .inputs = worker, .labels = worker, .train = worker, .test = worker && tests};
}

/* Return the number of blocks of all shares, except the first, whose sum is the gradient. */
static size_t more_blocks(const struct assignment_run *run)
{
    size_t blocks = 0;
    for (size_t s = 0; s < run->stages_listed; s++) {
        const struct reduce_range share = {(size_t)run->stage[s].share_first,
                                           (size_t)run->stage[s].share_end};
        struct reduce_range range[REDUCE_BLOCKS_MAX];
        blocks += reduce_blocks((size_t)run->job_spec.micro_batches, share, range);
    }
    return blocks - (blocks > 0);
}

static uint64_t kept_floats(const struct assignment_run *run, const struct model *model)
{
    uint64_t floats = 0;
    for (size_t u = (size_t)run->first; u < (size_t)run->end; u++) {
        struct model_layer layer[MODEL_OPS_MAX];
        const size_t count = layers_list(model, u, u + 1, layer, MODEL_OPS_MAX);
        for (size_t i = 0; i < count; i++) {
            floats += layer[i].floats;
        }
    }
    return floats;
}

static size_t fill_memory(const struct assignment_run *run, const struct model *model,
                          struct memory_request out[WORK_STAGES_MAX], uint64_t *more)
{
    const size_t micro_batches = (size_t)run->job_spec.micro_batches;
    size_t count = 0;
    *more = more_blocks(run) * kept_floats(run, model) * sizeof(float);
    if (run->first < run->end) {
        out[count].first = (size_t)run->first;
        out[count].end = (size_t)run->end;
        out[count].in_flight = 1;
        out[count++].tree = micro_batches;
    }
    if (works(run)) {
        out[count].end = model->unit_count;
        out[count].in_flight = 1;
        out[count].tree = micro_batches;
        out[count].share = (struct reduce_range){(size_t)own_stage(run)->share_first,
                                                 (size_t)own_stage(run)->share_end};
        out[count++].worker = true;
    }
    return count;
}

static size_t list_peers(const struct assignment_run *run, const struct peer *out[WORK_PEERS_MAX])
{
    size_t count = 0;
    for (size_t s = 0; s < run->stages_listed; s++) {
        if (s != (size_t)run->stage_index && run->stage[s].peer.url[0] != '\0') {
            out[count++] = &run->stage[s].peer;
        }
    }
    return count;
}

static int make(const struct work_config *config, struct model **model, struct work **out,
                struct err *err)
{
    struct member *member = NULL;
    int rc = member_new(config, model, &member, err);
    if (rc == 0) {
        *out = member_work(member);
    }
    return rc;
}

static int start(struct work *work, const struct work_config *config, struct err *err)
{
    struct member *member = member_of(work);
    return callers_start(member, config, &member->callers, err);
}

static int loop(struct work *work, const struct work_listener *listener, int64_t *version,
                struct err *err)
{
    return member_loop(member_of(work), listener, version, err);
}

static void release(struct work *work)
{
    callers_free(&member_of(work)->callers);
}

static void follow(struct work *work, const struct orders *orders)
{
    member_follow(member_of(work), orders);
}

static void take_rounds(struct work *work, const struct round round[REPLICA_KINDS])
{
    member_take_rounds(member_of(work), round);
}

static void cancel(struct work *work)
{
    member_cancel(member_of(work));
}

static void measure(struct work *work, struct heartbeat *out)
{
    member_measure(member_of(work), out);
}

const struct work_row parameter_server_work = {
    .needs = list_needs,
    .memory = fill_memory,
    .peers = list_peers,
    .make = make,
    .start = start,
    .loop = loop,
    .release = release,
    .free = member_free,
    .follow = follow,
    .take_rounds = take_rounds,
    .cancel = cancel,
    .measure = measure,
};
