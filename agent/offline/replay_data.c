#include "agent/offline/replay_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/runtime/data_prefix.h"
#include "net/hash.h"
#include "schema/job_check.h"

/* Return the paths of the "KEY=PATHS" whose key is this number or device, or NULL. */
static const char *find_paths(const struct conf_list *local, const char *number, const char *device)
{
    for (size_t i = 0; i < local->count; i++) {
        const char *item = local->item[i], *equals = strchr(item, '=');
        const size_t length = equals ? (size_t)(equals - item) : 0;
        if ((length == strlen(number) && strncmp(item, number, length) == 0) ||
            (length == strlen(device) && strncmp(item, device, length) == 0)) {
            return equals ? equals + 1 : NULL;
        }
    }
    return NULL;
}

static bool is_start(const struct mix_record *record, int64_t group)
{
    return record->kind == MIX_START && record->own.group == group && record->samples > 0;
}

/* Return the number of samples with this hash, according to the group's records; `all` if they do
 * not state it. */
static uint64_t samples_of_hash(const struct replay_of *of, size_t group, const char *sha256,
                                uint64_t all)
{
    for (size_t i = 0; i < of->records; i++) {
        const struct mix_record *record = &of->record[i];
        if (is_start(record, (int64_t)group) && strcmp(record->sha256, sha256) == 0) {
            return (uint64_t)record->samples;
        }
    }
    return all;
}

/* Check that the first samples have this hash. */
static int check_hash(const struct data *data, uint64_t samples, const char *wanted,
                      struct err *err)
{
    char sha256[HASH_TEXT_SIZE];
    const uint64_t count = data_info(data)->count;
    if (samples > count) {
        return err_set(err, ERR_INVALID,
                       "these are %" PRIu64 " samples, and the group trained on %" PRIu64
                       ": give all that were appended",
                       count, samples);
    }
    const int rc = data_hash_prefix(data, samples, NULL, NULL, sha256, err);
    return rc || strcmp(sha256, wanted) == 0
               ? rc
               : err_set(err, ERR_INVALID,
                         "these are not the data that the group trained on: the hash of the first "
                         "%" PRIu64 " samples is %.12s, expected %.12s",
                         samples, sha256, wanted);
}

static int open_own(const struct conf_list *local, const struct reading *reading,
                    const struct replay_of *of, size_t index, struct local_job_data *out,
                    struct err *err)
{
    const struct local_form form = {.reading = reading};
    const struct job_spec *group = &of->group[index];
    const char *sha256 = group->train_local.sha256;
    char number[24];
    (void)snprintf(number, sizeof(number), "%zu", index);
    const char *paths = find_paths(local, number, group->train_local.device.text);
    if (!paths) {
        return err_set(err, ERR_INVALID,
                       "it trained on the data '%s' of the device %s: give them by --local %s=PATH",
                       group->train_local.name, group->train_local.device.text, number);
    }
    int rc = local_data_open(&paths, 1, &form, &out->train, &out->info, err);
    rc = rc ? rc
            : check_hash(out->train, samples_of_hash(of, index, sha256, out->info.count), sha256,
                         err);
    return rc ? rc : local_job_count(group, out->train, &out->info, &out->counts, err);
}

/* Take the model from the groups, and the values to which the coordinator fitted it. */
static void take_model(const struct job_spec *group, struct replay_data *out, struct job_spec *spec)
{
    const struct dataset_info *info = &out->own[0].info;
    out->job.info = *info;
    out->job.fit = (struct model_fit){.input = {.h = info->h, .w = info->w, .c = info->c},
                                      .dtype = info->dtype,
                                      .classes = (uint32_t)group->train_local.classes,
                                      .positions = info->positions};
    json_decref(spec->model.description);
    spec->model = group->model;
    json_incref(spec->model.description);
}

static int open_all(const struct local_places *places, const struct conf_list *local,
                    const struct replay_of *of, struct replay_data *out, struct err *err)
{
    struct reading reading = reading_default;
    int rc = places->reading[0] != '\0' ? reading_parse(places->reading, &reading, err) : 0;
    if (rc != 0) {
        return err_wrap(err, "--as");
    }
    for (size_t g = 0; rc == 0 && g < of->groups; g++) {
        rc = open_own(local, &reading, of, g, &out->own[g], err);
        rc = rc == 0 ? 0 : err_wrap(err, "group %zu", g);
        out->job.counts.train_samples += job_epoch_samples(&out->own[g].counts);
    }
    return rc;
}

/* Return the steps of the job. If data may have been appended since the steps were counted, the log
 * states them. */
static int64_t steps_of(const struct replay_of *of, const struct job_spec *spec,
                        const struct job_data *counts)
{
    for (size_t i = 0; i < of->records; i++) {
        if (of->record[i].kind == MIX_START && of->record[i].steps > 0) {
            return of->record[i].steps;
        }
    }
    return job_total_steps(spec, job_epoch_samples(counts));
}

int replay_data_open(const struct local_places *places, const struct conf_list *local,
                     const struct replay_of *of, struct job_spec *spec, struct replay_data *out,
                     struct err *err)
{
    out->record = of->record;
    out->records = of->records;
    out->group = of->group;
    out->local = job_is_local(spec);
    if (out->local && places->dataset.count > 0) {
        return err_set(err, ERR_INVALID,
                       "--dataset: the data of this job stayed on its devices: "
                       "give those of each group by --local");
    }
    if (!out->local && local->count > 0) {
        return err_set(err, ERR_INVALID,
                       "--local: the job trained on the data set '%s': give it "
                       "by --dataset",
                       spec->dataset_train);
    }
    int rc = out->local ? open_all(places, local, of, out, err)
                        : local_job_data_open(places, spec, &out->job, err);
    if (rc == 0 && out->local) {
        take_model(&of->group[0], out, spec);
    }
    if (rc == 0) {
        out->steps = steps_of(of, spec, &out->job.counts);
    }
    return rc;
}

void replay_data_done(struct replay_data *data)
{
    for (size_t g = 0; g < GROUPS_MAX; g++) {
        local_job_data_done(&data->own[g]);
    }
    local_job_data_done(&data->job);
}

const struct local_job_data *replay_data_of(const struct replay_data *data, size_t group)
{
    return data->local ? &data->own[group] : &data->job;
}

static const struct mix_record *start_of(const struct replay_data *data,
                                         const struct mix_member *own)
{
    for (size_t i = 0; i < data->records; i++) {
        const struct mix_record *record = &data->record[i];
        if (is_start(record, own->group) && record->own.generation == own->generation) {
            return record;
        }
    }
    return NULL;
}

int replay_data_count(const struct replay_data *data, const struct mix_member *own,
                      struct job_data *out, struct err *err)
{
    const struct local_job_data *of = replay_data_of(data, (size_t)own->group);
    const struct job_spec *spec = &data->group[own->group];
    const struct mix_record *start = data->local ? start_of(data, own) : NULL;
    struct dataset_info info = of->info;
    int rc = 0;
    if (start) {
        rc = check_hash(of->train, (uint64_t)start->samples, start->sha256, err);
        rc = rc ? err_wrap(err, "generation %" PRId64, own->generation) : 0;
        info.count = (uint64_t)start->samples;
    }
    return rc ? rc : local_job_count(spec, of->train, &info, out, err);
}
