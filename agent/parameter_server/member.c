#include "agent/parameter_server/member.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/evaluations.h"
#include "agent/core/repeat.h"
#include "agent/parameter_server/member_parts.h"
#include "agent/parameter_server/parameter_server_work.h"
#include "agent/runtime/thread.h"
#include "base/clock.h"
#include "libtrain/model/layers.h"
#include "schema/job_check.h"

/* ---- the plan ---- */

static int check_data(const struct member *member, const struct work_data *data, struct err *err)
{
    const bool test = member->evaluation_batches > 0 && member->run->data.test_samples > 0;
    if (member_works(member) && (!data->train_inputs || !data->train_labels ||
                                 (test && (!data->test_inputs || !data->test_labels)))) {
        return err_set(err, ERR_INVALID, "a worker needs inputs and labels");
    }
    return 0;
}

/* The blocks of all shares, in the order of their micro-batches. */
static int list_blocks(struct member *member, struct err *err)
{
    const struct assignment_run *run = member->run;
    const size_t micro_batches = (size_t)run->job_spec.micro_batches;
    size_t at = 0;
    member->block = calloc(micro_batches, sizeof(*member->block));
    if (!member->block) {
        return err_set(err, ERR_MEMORY, "%zu blocks", micro_batches);
    }
    while (at < micro_batches) {
        size_t s = 0;
        while (s < member->count && (run->stage[s].share_first != (int64_t)at ||
                                     run->stage[s].share_end <= (int64_t)at)) {
            s++;
        }
        if (s == member->count || run->stage[s].share_end > (int64_t)micro_batches) {
            return err_set(err, ERR_INVALID, "no stage computes micro-batch %zu", at);
        }
        const struct reduce_range share = {at, (size_t)run->stage[s].share_end};
        struct reduce_range range[REDUCE_BLOCKS_MAX];
        const size_t count = reduce_blocks(micro_batches, share, range);
        if (s == member->index) {
            member->share = share;
            member->first_block = member->blocks;
        }
        for (size_t i = 0; i < count; i++) {
            member->block[member->blocks++] = (struct exchange_block){s, range[i]};
        }
        at = share.end;
    }
    return 0;
}

/* Servers are the first stages. Returns their number. */
static size_t list_servers(const struct assignment_run *run, const struct model *model,
                           size_t layer_end[EXCHANGE_SERVERS_MAX])
{
    size_t servers = 0;
    while (servers < run->stages_listed && servers < EXCHANGE_SERVERS_MAX &&
           run->stage[servers].first < run->stage[servers].end) {
        layer_end[servers] = layers_list(model, 0, (size_t)run->stage[servers].end, NULL, 0);
        servers++;
    }
    return servers;
}

static int make_exchange(struct member *member, const struct model *model, struct err *err)
{
    const struct assignment_run *run = member->run;
    const struct job_spec *spec = &run->job_spec;
    struct exchange_config config = {
        .index = member->index,
        .count = member->count,
        .micro_batches = (size_t)spec->micro_batches,
        .block = member->block,
        .blocks = member->blocks,
        .resume_version = run->resume_version,
        .total_steps = run->total_steps,
        .evaluate_every = job_evaluate_steps(spec, &run->data),
        .evaluation_batches = member->evaluation_batches,
        .clips_norm = spec->optimizer.clip_norm > 0,
        .judges = spec->has_stop,
        .stop = spec->stop,
        .judged = run->early_stop,
        .round_every = {[REPLICA_NEIGHBOR] = run->has_neighbor ? spec->neighbor_every : 0,
                        [REPLICA_CENTER] = spec->center_every},
        .checkpoint_every = job_checkpoint_steps(spec, &run->data),
    };
    config.servers = list_servers(run, model, config.layer_end);
    member->servers = config.servers;
    member->layers = config.servers > 0 ? config.layer_end[config.servers - 1] : 0;
    return exchange_new(&config, &member->exchange, err);
}

/* ---- arithmetic ---- */

/* On the compute thread, within a backward pass. */
static void summed(void *arg, const float *sum, size_t layer)
{
    struct member *member = arg;
    (void)pthread_mutex_lock(&member->lock);
    /* Callers read it without the lock once its first layer was announced, so write it only if it
     * changes. */
    if (member->pushed[member->summing] != sum) {
        member->pushed[member->summing] = sum;
    }
    exchange_summed(member->exchange, layer);
    member_settle(member);
    (void)pthread_mutex_unlock(&member->lock);
}

static int make_keeper(struct member *member, const struct work_config *config,
                       struct model **model, struct err *err)
{
    const struct assignment_run *run = member->run;
    const struct keeper_config keeper = {
        .job = run->job,
        .generation = run->generation,
        .first = (size_t)run->first,
        .end = (size_t)run->end,
        .resume_version = run->resume_version,
        .spec = &run->job_spec,
        .in_flight = 0,
        .versions = 1,
        .worker_share = member->share,
        .summed = summed,
        .summed_arg = member,
        .threads = config->threads,
        .slowdown = config->slowdown,
    };
    int rc = keeper_new(&keeper, model, &member->work.keeper, err);
    if (rc == 0) {
        member->spec = keeper_config(member->work.keeper)->spec;
        member->cancel = keeper_cancelled(member->work.keeper);
        task_clock_init(&member->clock, member->work.keeper);
    }
    return rc;
}

/* Find the places of a libtrain stage's layers. first: index of its first layer in the model. */
static int place_layers(struct train_stage *train, size_t first, struct member_arena *out,
                        struct err *err)
{
    size_t count = 0;
    const struct train_layer *layer = train ? train_layers(train, &count) : NULL;
    *out = (struct member_arena){.train = train,
                                 .parameters = train ? train_parameters(train) : NULL,
                                 .first = first,
                                 .end = first + count};
    out->place = calloc(count + 1, sizeof(*out->place));
    if (!out->place) {
        return err_set(err, ERR_MEMORY, "%zu layers", count);
    }
    for (size_t i = 0; i < count; i++) {
        struct member_place *place = &out->place[i];
        place->first = layer[i].first;
        place->count = layer[i].count;
        out->floats = place->first + place->count;
        if (i == 0 || layer[i - 1].unit != layer[i].unit) {
            size_t end;
            train_statistics_of(train, layer[i].unit, &place->statistics_first, &end);
            place->statistics_count = end - place->statistics_first;
        }
    }
    return 0;
}

static int place_all(struct member *member, struct err *err)
{
    const struct assignment_run *run = member->run;
    const struct keeper *keeper = member->work.keeper;
    const struct model *model = keeper_model(keeper);
    const size_t first = layers_list(model, 0, (size_t)run->first, NULL, 0);
    int rc = place_layers(keeper_train(keeper), first, &member->kept, err);
    return rc ? rc : place_layers(keeper_worker(keeper), 0, &member->whole, err);
}

/* ---- buffers ---- */

static int allocate(void *out_pointer, size_t count, size_t size, const char *what, struct err *err)
{
    void *memory = calloc(count + 1, size);
    if (!memory) {
        return err_set(err, ERR_MEMORY, "%zu %s", count, what);
    }
    memcpy(out_pointer, &memory, sizeof(memory));
    return 0;
}

/* The sum of the first block becomes the sum of the step, so it is received in the memory that the
 * update reads. */
static int make_sums(struct member *member, struct err *err)
{
    int rc = allocate(&member->sum, member->blocks, sizeof(*member->sum), "sums", err);
    if (rc != 0 || !member->kept.train) {
        return rc;
    }
    member->sum[0] = train_gradient(member->kept.train);
    for (size_t b = 1; rc == 0 && b < member->blocks; b++) {
        rc = allocate(&member->sum[b], member->kept.floats, sizeof(float), "gradients", err);
    }
    return rc;
}

static int make_results(struct member *member, struct err *err)
{
    const struct assignment_run *run = member->run;
    const struct model *model = keeper_model(member->work.keeper);
    const struct tally_config config = {.spec = member->spec,
                                        .test_samples = run->data.test_samples,
                                        .held_samples = run->data.holdout_samples,
                                        .labels = model->positions,
                                        .classes = model->classes};
    int rc = tally_new(&config, &member->tally, err);
    if (rc != 0) {
        return rc;
    }
    member->numbers = tally_numbers(member->tally);
    rc = allocate(&member->own_results, EXCHANGE_RESULTS * member->numbers, sizeof(double),
                  "results", err);
    return rc == 0 && member_is_lead(member)
               ? allocate(&member->results, member->evaluation_batches * member->numbers,
                          sizeof(double), "results", err)
               : rc;
}

static int make_worker(struct member *member, const struct work_config *config, struct err *err)
{
    const struct model *model = keeper_model(member->work.keeper);
    const size_t micro_batch = (size_t)(member->spec->batch / member->spec->micro_batches);
    const struct samples_config samples = {.model = model,
                                           .spec = member->spec,
                                           .counts = member->run->data,
                                           .data = config->data,
                                           .micro_batch = micro_batch,
                                           .last = true};
    struct transfers_config transfers = {.transfers = member->spec->parameter_server.transfers,
                                         .segment_bytes =
                                             member->spec->parameter_server.segment_bytes,
                                         .layers = member->layers,
                                         .own = member->index};
    if (!member_works(member)) {
        return 0;
    }
    const size_t input = shape_elements(model->input) * dtype_size(model->input_dtype);
    double *bytes = NULL;
    int rc = samples_new(&samples, &member->samples, err);
    rc = rc ? rc : allocate(&bytes, member->layers, sizeof(double), "layers", err);
    for (size_t i = 0; rc == 0 && i < member->layers; i++) {
        bytes[i] = (double)(member->whole.place[i].count * sizeof(float));
    }
    transfers.servers = list_servers(member->run, model, transfers.layer_end);
    for (size_t s = 0; s < member->count; s++) {
        transfers.workers += member->run->stage[s].share_first < member->run->stage[s].share_end;
    }
    struct reduce_range block[REDUCE_BLOCKS_MAX];
    transfers.blocks = reduce_blocks((size_t)member->spec->micro_batches, member->share, block);
    for (size_t b = 0; b < transfers.blocks; b++) {
        transfers.block[b] = block[b].end - block[b].first;
    }
    transfers.bytes = bytes;
    rc = rc ? rc : transfers_new(&transfers, &member->transfers, err);
    free(bytes);
    rc = rc ? rc : allocate(&member->input, micro_batch, input, "samples", err);
    return rc ? rc
              : allocate(&member->labels, micro_batch * model->positions, sizeof(int32_t), "labels",
                         err);
}

static int make_buffers(struct member *member, struct err *err)
{
    const size_t micro_batches = (size_t)member->spec->micro_batches;
    int rc = make_sums(member, err);
    rc = rc ? rc : allocate(&member->pushed, member->blocks, sizeof(*member->pushed), "sums", err);
    rc = rc ? rc : allocate(&member->losses, micro_batches, sizeof(double), "losses", err);
    rc = rc ? rc : allocate(&member->own_losses, micro_batches, sizeof(double), "losses", err);
    return rc ? rc : make_results(member, err);
}

/* ---- life ---- */

static int make_locks(struct member *member, struct err *err)
{
    pthread_cond_t *condition[2 + MEMBER_LANES] = {&member->changed, &member->moved};
    for (size_t i = 0; i < MEMBER_LANES; i++) {
        condition[2 + i] = &member->lane[i].filled;
    }
    if (pthread_mutex_init(&member->lock, NULL) != 0) {
        return err_set(err, ERR_MEMORY, "mutex of a member");
    }
    int rc = 0;
    size_t made = 0;
    while (rc == 0 && made < sizeof(condition) / sizeof(condition[0])) {
        rc = thread_condition_init(condition[made], err);
        made += rc == 0;
    }
    if (rc != 0) {
        while (made > 0) {
            (void)pthread_cond_destroy(condition[--made]);
        }
        (void)pthread_mutex_destroy(&member->lock);
    }
    return rc;
}

static void free_sums(struct member *member)
{
    for (size_t b = 1; member->sum && b < member->blocks; b++) {
        free(member->sum[b]);
    }
    free(member->sum);
}

void member_free(struct work *work)
{
    struct member *member = member_of(work);
    exchange_free(&member->exchange);
    samples_free(&member->samples);
    transfers_free(&member->transfers);
    tally_free(&member->tally);
    free_sums(member);
    keeper_free(&work->keeper);
    free(member->pushed);
    free(member->losses);
    free(member->own_losses);
    free(member->results);
    free(member->own_results);
    free(member->input);
    free(member->labels);
    free(member->kept.place);
    free(member->whole.place);
    free(member->block);
    for (size_t i = 0; i < MEMBER_LANES; i++) {
        (void)pthread_cond_destroy(&member->lane[i].filled);
    }
    (void)pthread_cond_destroy(&member->moved);
    (void)pthread_cond_destroy(&member->changed);
    (void)pthread_mutex_destroy(&member->lock);
    free(member->run);
    free(member);
}

static int fill(struct member *member, const struct work_config *config, struct model **model,
                struct err *err)
{
    const struct assignment_run *run = member->run;
    const size_t micro_batch = (size_t)(run->job_spec.batch / run->job_spec.micro_batches);
    member->evaluation_batches = evaluations_batches(&run->job_spec, &run->data, micro_batch);
    int rc = list_blocks(member, err);
    rc = rc ? rc : check_data(member, &config->data, err);
    rc = rc ? rc : make_exchange(member, *model, err);
    rc = rc ? rc : make_keeper(member, config, model, err);
    rc = rc ? rc : place_all(member, err);
    rc = rc ? rc : make_buffers(member, err);
    rc = rc ? rc : make_worker(member, config, err);
    if (rc == 0) {
        timing_begin(&member->timing, member_works(member)
                                          ? keeper_model(member->work.keeper)->unit_count
                                          : (size_t)(run->end - run->first));
    }
    return rc;
}

int member_new(const struct work_config *config, struct model **model, struct member **out,
               struct err *err)
{
    struct member *member = calloc(1, sizeof(*member));
    int rc = member ? make_locks(member, err) : err_set(err, ERR_MEMORY, "member");
    if (rc != 0) {
        free(member);
        model_free(model);
        return rc;
    }
    /* Copy the run, because the receiver may hold the last reference when the assignment is
     * gone. */
    rc = allocate(&member->run, 1, sizeof(*member->run), "assignment", err);
    if (rc == 0) {
        *member->run = *config->run;
        member->run->job_spec.model.description = NULL;
        member->run->job_spec.kernels = NULL;
        member->index = (size_t)config->run->stage_index;
        member->count = (size_t)config->run->stage_count;
    }
    member->work.row = &parameter_server_work;
    member->work.park_ms = repeat_park_ms(config->run->peer_ms);
    member->room_fd = config->room_fd;
    atomic_init(&member->work.references, 1);
    rc = rc ? rc : fill(member, config, model, err);
    model_free(model);
    if (rc != 0) {
        member_free(&member->work);
        return rc;
    }
    *out = member;
    return 0;
}

struct work *member_work(struct member *member)
{
    return &member->work;
}

struct member *member_of(struct work *work)
{
    return (struct member *)(void *)work;
}

/* ---- the control side ---- */

void member_follow(struct member *member, const struct orders *orders)
{
    (void)pthread_mutex_lock(&member->lock);
    exchange_follow(member->exchange, orders);
    member_settle(member);
    (void)pthread_mutex_unlock(&member->lock);
}

void member_take_rounds(struct member *member, const struct round round[REPLICA_KINDS])
{
    (void)pthread_mutex_lock(&member->lock);
    exchange_take_rounds(member->exchange, round);
    member_settle(member);
    (void)pthread_mutex_unlock(&member->lock);
}

void member_cancel(struct member *member)
{
    keeper_cancel(member->work.keeper);
    (void)pthread_mutex_lock(&member->lock);
    (void)pthread_cond_broadcast(&member->changed);
    (void)pthread_cond_broadcast(&member->moved);
    for (size_t i = 0; i < MEMBER_LANES; i++) {
        (void)pthread_cond_broadcast(&member->lane[i].filled);
    }
    (void)pthread_mutex_unlock(&member->lock);
    work_has_room(member->room_fd);
}

void member_measure(struct member *member, struct heartbeat *out)
{
    (void)pthread_mutex_lock(&member->lock);
    timing_report(&member->timing, member_works(member) ? 0 : (size_t)member->run->first, out);
    timing_transfers_report(&member->links, out);
    exchange_report(member->exchange, out);
    out->step = exchange_version(member->exchange);
    (void)pthread_mutex_unlock(&member->lock);
    out->busy_ms = task_clock_busy_ms(&member->clock);
}
