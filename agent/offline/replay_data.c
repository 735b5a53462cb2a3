#include "agent/offline/replay_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "net/hash.h"
#include "schema/job_check.h"

/* The paths of "KEY=PATHS" with one of both keys, or NULL. */
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

static int check_hash(const struct data *data, const struct local_train *wanted, struct err *err)
{
    char sha256[HASH_TEXT_SIZE];
    data_hash(data, sha256);
    return strcmp(sha256, wanted->sha256) == 0
               ? 0
               : err_set(err, ERR_INVALID,
                         "these are not the data that the group trained on: their hash is %.12s, "
                         "expected %.12s",
                         sha256, wanted->sha256);
}

static int open_own(const struct conf_list *local, const struct reading *reading,
                    const struct job_spec *group, size_t index, struct local_job_data *out,
                    struct err *err)
{
    const struct local_form form = {.reading = reading};
    char number[24];
    (void)snprintf(number, sizeof(number), "%zu", index);
    const char *paths = find_paths(local, number, group->train_local.device.text);
    if (!paths) {
        return err_set(err, ERR_INVALID,
                       "it trained on the data '%s' of the device %s: give them by --local %s=PATH",
                       group->train_local.name, group->train_local.device.text, number);
    }
    int rc = local_data_open(&paths, 1, &form, &out->train, &out->info, err);
    rc = rc ? rc : check_hash(out->train, &group->train_local, err);
    return rc ? rc : local_job_count(group, out->train, &out->info, &out->counts, err);
}

/* What the coordinator fitted the model to, and the model itself. */
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
                    const struct job_spec *group, size_t groups, struct replay_data *out,
                    struct err *err)
{
    struct reading reading = reading_default;
    int rc = places->reading[0] != '\0' ? reading_parse(places->reading, &reading, err) : 0;
    if (rc != 0) {
        return err_wrap(err, "--as");
    }
    for (size_t g = 0; rc == 0 && g < groups; g++) {
        rc = open_own(local, &reading, &group[g], g, &out->own[g], err);
        rc = rc == 0 ? 0 : err_wrap(err, "group %zu", g);
        out->job.counts.train_samples += job_epoch_samples(&out->own[g].counts);
    }
    return rc;
}

int replay_data_open(const struct local_places *places, const struct conf_list *local,
                     const struct job_spec *group, size_t groups, struct job_spec *spec,
                     struct replay_data *out, struct err *err)
{
    out->local = spec->train_local.name[0] != '\0';
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
    if (!out->local) {
        return local_job_data_open(places, spec, &out->job, err);
    }
    int rc = open_all(places, local, group, groups, out, err);
    if (rc == 0) {
        take_model(&group[0], out, spec);
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
