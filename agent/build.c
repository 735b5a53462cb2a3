#include "agent/build.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/needs.h"
#include "agent/peer/message.h"
#include "agent/peer/fetch.h"
#include "agent/runtime/inventory.h"
#include "agent/runtime/tune.h"
#include "agent/work_table.h"
#include "base/clock.h"
#include "libtrain/description/description.h"
#include "libtrain/memory/memory.h"
#include "libtrain/train.h"
#include "net/hash.h"

#define AGENT_URL_MAX 640
/* The memory of a stage includes one copy of its state. Rounds need two more copies, and a stop
 * needs a third. */
#define SNAPSHOTS_MORE 3

/* One build in progress. */
struct build {
    const struct device_context *device;
    struct work_config *config;
    const struct assignment_run *run;
    const struct work_row *row; /* of the job's strategy */
    struct troubles *troubles;
    struct fetch *fetch;
    struct model *model;
    struct checkpoint_file *checkpoint; /* opened for the first unit that needs it */
    struct needs_data needs;
    struct built *out;
};

void built_done(struct built *built)
{
    work_release(&built->work);
    if (built->test != built->train) {
        data_close(&built->test);
    }
    data_close(&built->train);
    built->test = NULL;
}

/* ---- model and memory ---- */

static int read_model(struct build *build, struct err *err)
{
    const struct assignment_run *run = build->run;
    if (!run->job_spec.model.description) {
        return err_set(err, ERR_FORMAT, "the assignment has no model");
    }
    int rc = description_parse(run->job_spec.model.description, NULL, &build->model, NULL, err);
    if (rc != 0) {
        return err_wrap(err, "model");
    }
    size_t first, end;
    assignment_loads(run, &first, &end);
    if (end > build->model->unit_count) {
        return err_set(err, ERR_FORMAT, "units %zu to %zu of a model of %zu units", first, end,
                       build->model->unit_count);
    }
    return needs_check_sources(run, err);
}

static int count_memory(const struct build *build, uint64_t *needed, struct err *err)
{
    const struct assignment_run *run = build->run;
    const struct memory_request base = {
        .micro_batch = (size_t)(run->job_spec.batch / run->job_spec.micro_batches),
        .threads = build->device->threads,
        .recompute = run->job_spec.recompute,
        .backend = train_backend(),
    };
    struct memory_request request[WORK_STAGES_MAX] = {base, base};
    uint64_t more = 0;
    const size_t count = build->row->memory(run, build->model, request, &more);
    *needed = more + (uint64_t)run->replica_bytes;
    for (size_t i = 0; i < count; i++) {
        struct memory_bytes bytes;
        int rc = memory_of_stage(build->model, &run->job_spec.optimizer, &request[i], &bytes, err);
        if (rc != 0) {
            return rc;
        }
        *needed += bytes.total + (needs_rounds(run) ? SNAPSHOTS_MORE * bytes.snapshot : 0);
    }
    return 0;
}

/* Linux overcommits memory. Fail now rather than be killed later. */
static int check_memory(const struct build *build, struct err *err)
{
    uint64_t needed;
    int rc = count_memory(build, &needed, err);
    if (rc != 0) {
        return rc;
    }
    uint64_t most = inventory_free_memory();
    if (build->device->memory_bytes > 0 && (most == 0 || most > build->device->memory_bytes)) {
        most = build->device->memory_bytes;
    }
    if (most > 0 && needed > most) {
        size_t first, end;
        assignment_loads(build->run, &first, &end);
        return err_set(err, ERR_MEMORY,
                       "units %zu to %zu need %" PRIu64 " bytes, %" PRIu64 " are free", first,
                       end - 1, needed, most);
    }
    return 0;
}

/* ---- data ---- */

static int64_t fetch_data(void *arg, const char *sha256, uint64_t offset, void *out, size_t size,
                          struct err *err)
{
    const struct build *build = arg;
    char url[AGENT_URL_MAX];
    (void)snprintf(url, sizeof(url), "%s/v1/agent/datasets/%s/content?device=%s&boot=%s",
                   build->device->coordinator, sha256, build->device->id.text, build->device->boot);
    return fetch_get(build->fetch, url, NULL, offset, out, size, err);
}

static int check_samples(const struct build *build, const struct data *data, int64_t samples,
                         struct err *err)
{
    const struct dataset_info *info = data_info(data);
    const struct model *model = build->model;
    if ((int64_t)info->count != samples || info->h != model->input.h || info->w != model->input.w ||
        info->c != model->input.c || info->dtype != model->input_dtype ||
        info->positions != model->positions) {
        return err_set(err, ERR_FORMAT,
                       "the data set has %" PRIu64
                       " samples of %u x %u x %u %s with %u labels each, the job expects"
                       " %" PRId64 " of %u x %u x %u %s with %u",
                       info->count, info->h, info->w, info->c, dtype_name(info->dtype),
                       info->positions, samples, model->input.h, model->input.w, model->input.c,
                       dtype_name(model->input_dtype), model->positions);
    }
    return 0;
}

static int open_set(struct build *build, const char *sha256, const char *in_use, int64_t samples,
                    struct data **out, struct err *err)
{
    const struct data_request request = {
        .directory = build->device->cache,
        .sha256 = sha256,
        .in_use = in_use,
        .inputs = build->needs.inputs,
        .labels = build->needs.labels,
        .disk = build->device->disk,
        .fetch = fetch_data,
        .arg = build,
    };
    int rc = data_open(&request, out, err);
    return rc ? rc : check_samples(build, *out, samples, err);
}

/* Open data that never leaves this device. */
static int open_own(struct build *build, const struct local_train *local, int64_t samples,
                    struct data **out, struct err *err)
{
    int rc = needs_check_local(build->run, err);
    rc = rc ? rc : offers_data(build->device->offers, local->name, local->sha256, out, err);
    return rc ? rc : check_samples(build, *out, samples, err);
}

static int open_data(struct build *build, struct err *err)
{
    const struct assignment_run *run = build->run;
    const struct job_data *data = &run->data;
    struct built *out = build->out;
    build->needs = build->row->needs(run);
    if (!build->needs.train) {
        return 0;
    }
    const struct local_train *local = &run->job_spec.train_local;
    int rc = local->name[0] != '\0' ? open_own(build, local, data->train_samples, &out->train, err)
                                    : open_set(build, data->train_sha256, data->test_sha256,
                                               data->train_samples, &out->train, err);
    if (rc != 0 || !build->needs.test) {
        return rc;
    }
    if (strcmp(data->test_sha256, data->train_sha256) == 0) {
        out->test = out->train;
        return 0;
    }
    return open_set(build, data->test_sha256, data->train_sha256, data->test_samples, &out->test,
                    err);
}

/* ---- state ---- */

static int check_blob(const struct source *source, const void *blob, size_t size, struct err *err)
{
    char hash[HASH_TEXT_SIZE];
    sha256_text(blob, size, hash);
    return needs_check_hash(source, hash, err);
}

/* A file may have changed since the start. */
static int load_file(struct build *build, const struct source *source, const struct snapshot *own,
                     struct err *err)
{
    const size_t size = (size_t)own->holding.bytes;
    void *blob = malloc(size);
    if (!blob) {
        return err_set(err, ERR_MEMORY, "%zu bytes", size);
    }
    int rc = snapshot_read(own, 0, blob, size, err);
    if (rc == 0) {
        rc = check_blob(source, blob, size, err);
        if (rc != 0) {
            snapshot_discard(build->device->snapshots, own);
        }
    }
    rc =
        rc ? rc : keeper_load_unit(build->out->work->keeper, (size_t)source->unit, blob, size, err);
    free(blob);
    return rc;
}

static int load_own(struct build *build, const struct source *source, struct err *err)
{
    const struct assignment_run *run = build->run;
    const struct snapshot *own =
        snapshot_get(build->device->snapshots, run->job.text, run->resume_version, source->unit);
    if (!own) {
        return err_set(err, ERR_NOT_FOUND, "this device does not hold version %" PRId64,
                       run->resume_version);
    }
    int rc = needs_check_hash(source, own->holding.sha256, err);
    if (rc == 0 && !own->data) {
        rc = load_file(build, source, own, err);
    } else if (rc == 0) {
        rc = keeper_load_unit(build->out->work->keeper, (size_t)source->unit, own->data,
                              (size_t)own->holding.bytes, err);
    }
    snapshot_put_back(own);
    return rc;
}

static int load_foreign(struct build *build, const struct source *source, struct err *err)
{
    const struct assignment_run *run = build->run;
    const size_t size = keeper_unit_bytes(build->out->work->keeper, (size_t)source->unit);
    void *blob = malloc(size);
    if (!blob) {
        return err_set(err, ERR_MEMORY, "%zu bytes", size);
    }
    int64_t got;
    if (source->from == SOURCE_DEVICE) {
        const struct message_path path = message_snapshot_path(
            source->url, &run->job, run->generation, run->resume_version, source->unit);
        const struct fetch_peer peer = {.device = source->device,
                                        .public_key = source->public_key,
                                        .plan = run->plan,
                                        .relay_ticket = source->relay_ticket,
                                        .kind = REPEAT_SNAPSHOT,
                                        .peer_ms = run->peer_ms,
                                        .troubles = build->troubles,
                                        .links = build->device->links};
        fetch_set_peer(build->fetch, &peer);
        got = fetch_get_whole(build->fetch, path.text, source->ticket, blob, size, err);
        fetch_set_peer(build->fetch, NULL);
        build->out->bytes_moved += got > 0 ? got : 0;
    } else {
        char url[AGENT_URL_MAX];
        (void)snprintf(url, sizeof(url), "%s/v1/agent/blobs/%s?device=%s&boot=%s",
                       build->device->coordinator, source->sha256, build->device->id.text,
                       build->device->boot);
        got = fetch_get_whole(build->fetch, url, NULL, blob, size, err);
    }
    int rc = got < 0 ? (int)got : check_blob(source, blob, size, err);
    rc =
        rc ? rc : keeper_load_unit(build->out->work->keeper, (size_t)source->unit, blob, size, err);
    free(blob);
    return rc;
}

static int read_checkpoint(void *arg, uint64_t offset, void *out, size_t size, struct err *err)
{
    const struct build *build = arg;
    char url[AGENT_URL_MAX];
    if (size == 0) {
        return 0;
    }
    (void)snprintf(url, sizeof(url), "%s/v1/agent/blobs/%s?device=%s&boot=%s",
                   build->device->coordinator, build->run->data.checkpoint_sha256,
                   build->device->id.text, build->device->boot);
    const int64_t got = fetch_get(build->fetch, url, NULL, offset, out, size, err);
    if (got < 0) {
        return (int)got;
    }
    return (size_t)got == size ? 0
                               : err_set(err, ERR_FORMAT, "the checkpoint ends at byte %" PRIu64,
                                         offset + (uint64_t)got);
}

/* Fetches the unit's tensors only. */
static int load_start(struct build *build, const struct source *source, struct err *err)
{
    int rc = 0;
    if (!build->checkpoint) {
        rc = checkpoint_file_open(read_checkpoint, build, &build->checkpoint, err);
    }
    return rc ? rc
              : keeper_start_unit(build->out->work->keeper, (size_t)source->unit, build->checkpoint,
                                  err);
}

static int load_units(struct build *build, const char **code, struct err *err)
{
    const struct assignment_run *run = build->run;
    const double began = clock_now_seconds();
    for (size_t i = 0; i < run->source_count; i++) {
        const struct source *source = &run->source[i];
        int rc = 0;
        *code = needs_error_code(source->from);
        if (source->from == SOURCE_SEED) {
            rc = keeper_load_unit(build->out->work->keeper, (size_t)source->unit, NULL, 0, err);
        } else if (source->from == SOURCE_CHECKPOINT) {
            rc = load_start(build, source, err);
        } else if (source->from == SOURCE_SELF) {
            rc = load_own(build, source, err);
        } else {
            rc = load_foreign(build, source, err);
        }
        if (rc != 0) {
            return rc == ERR_CANCELLED
                       ? rc
                       : err_wrap(err, "unit %" PRId64 " from %s %s", source->unit,
                                  source_from_names[source->from], source->device.text);
        }
    }
    build->out->fetch_seconds = clock_now_seconds() - began;
    return 0;
}

/* ---- the whole ---- */

static int make_work(struct build *build, struct err *err)
{
    const struct needs_data *needs = &build->needs;
    const struct built *out = build->out;
    build->config->data = (struct work_data){
        .train_inputs = needs->inputs ? data_inputs(out->train) : NULL,
        .train_labels = needs->labels ? data_labels(out->train) : NULL,
        .test_inputs = needs->inputs && out->test ? data_inputs(out->test) : NULL,
        .test_labels = needs->labels && out->test ? data_labels(out->test) : NULL,
    };
    return build->row->make(build->config, &build->model, &build->out->work, err);
}

static int build_all(struct build *build, const char **code, struct err *err)
{
    *code = "format";
    int rc = read_model(build, err);
    if (rc != 0) {
        return rc;
    }
    *code = "memory";
    rc = check_memory(build, err);
    if (rc != 0) {
        return rc;
    }
    *code = "data";
    rc = open_data(build, err);
    if (rc != 0) {
        *code = rc == ERR_IO ? "disk" : *code;
        return rc;
    }
    *code = "format";
    rc = make_work(build, err);
    return rc ? rc : load_units(build, code, err);
}

int build_work(const struct device_context *device, struct work_config *config,
               struct cancel *cancel, struct built *out, const char **code, struct err *err)
{
    struct build build = {.device = device,
                          .config = config,
                          .run = config->run,
                          .row = work_table_row(config->run->job_spec.strategy),
                          .troubles = config->troubles,
                          .out = out};
    *code = "internal";
    int rc = fetch_new(cancel, device->trust, device->ways, &build.fetch, err);
    rc = rc ? rc : build_all(&build, code, err);
    checkpoint_file_close(&build.checkpoint);
    fetch_free(&build.fetch);
    model_free(&build.model);
    return rc;
}

int build_kernels(const struct device_context *device, const struct assignment_run *run,
                  struct cancel *cancel, char kernels[KERNEL_TEXT_SIZE], const char **code,
                  struct err *err)
{
    struct build build = {
        .device = device, .run = run, .row = work_table_row(run->job_spec.strategy)};
    const size_t micro_batch = (size_t)(run->job_spec.batch / run->job_spec.micro_batches);
    size_t first, end;
    assignment_loads(run, &first, &end);
    *code = "format";
    int rc = read_model(&build, err);
    if (rc == 0 && kernel_text_length(build.model, first, end) >= KERNEL_TEXT_SIZE) {
        rc = err_set(err, ERR_FORMAT, "too many convolutions to measure");
    }
    if (rc == 0) {
        *code = "memory";
        rc = check_memory(&build, err);
    }
    rc = rc ? rc
            : tune_units(device->tuner, build.model, first, end, micro_batch, device->threads,
                         cancel, err);
    if (rc == 0) {
        kernel_text_write(build.model, first, end, kernels);
    }
    model_free(&build.model);
    return rc;
}

/* The coordinator decides whether an unreachable neighbour is lost. */
static int ping_one(struct fetch *fetch, const struct assignment_run *run, const struct peer *peer,
                    struct troubles *troubles, struct err *err)
{
    const struct message_path path = message_ping_path(peer->url, &run->job, run->generation);
    const struct fetch_peer watched = {.device = peer->device,
                                       .public_key = peer->public_key,
                                       .plan = run->plan,
                                       .relay_ticket = peer->relay_ticket,
                                       .kind = REPEAT_PING,
                                       .peer_ms = run->peer_ms,
                                       .troubles = troubles};
    fetch_set_peer(fetch, &watched);
    int rc = fetch_ping(fetch, path.text, peer->ticket, err);
    fetch_set_peer(fetch, NULL);
    return rc == 0 || rc == ERR_CANCELLED ? rc : err_wrap(err, "neighbour %s", peer->device.text);
}

int build_ping(const struct device_context *device, const struct assignment_run *run,
               struct cancel *cancel, struct troubles *troubles, const char **code, struct err *err)
{
    const struct peer *peer[WORK_PEERS_MAX];
    const size_t count = work_table_row(run->job_spec.strategy)->peers(run, peer);
    struct fetch *fetch AUTO(fetch_free) = NULL;
    *code = "peer";
    int rc = fetch_new(cancel, device->trust, device->ways, &fetch, err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = ping_one(fetch, run, peer[i], troubles, err);
    }
    return rc;
}
