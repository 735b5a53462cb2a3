#include "agent/offline/local_model.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/runtime/tune.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "libtrain/kernels/kernel_table.h"
#include "libtrain/kernels/kernel_text.h"
#include "schema/job_check.h"
#include "schema/strategy_rules.h"

/* ---- the description ---- */

static int fit_model(const struct job_spec *spec, const struct local_job_data *data,
                     const json_t *description, struct model **out, struct err *err)
{
    const struct model_fit *fit = &data->fit;
    int rc = job_augment_check(spec, fit->input, NULL, err);
    rc = rc ? rc : description_parse(description, fit, out, NULL, err);
    rc = rc ? rc : model_normalise(*out, job_normalise(spec), NULL, err);
    const struct model_samples samples = {.class_names = &data->class_names,
                                          .reading = data->info.reading};
    return rc ? rc : model_take_samples(*out, &samples, NULL, err);
}

static int parse_model(const struct job_spec *spec, const struct local_job_data *data,
                       struct model **out, struct err *err)
{
    const struct job_model *wanted = &spec->model;
    if (wanted->description) {
        return fit_model(spec, data, wanted->description, out, err);
    }
    const char *text = zoo_text(wanted->name);
    if (!text) {
        return err_set(err, ERR_NOT_FOUND,
                       "model '%s' is not in the zoo: give its description in the job",
                       wanted->name);
    }
    json_auto_t *description = NULL;
    int rc = json_parse(text, strlen(text), &description, err);
    rc = rc ? rc : fit_model(spec, data, description, out, err);
    return rc == 0 ? 0 : err_wrap(err, "model '%s'", wanted->name);
}

static int resolve_model(const struct job_spec *spec, const struct local_job_data *data,
                         struct model **out, struct err *err)
{
    bool frozen[MODEL_UNITS_MAX];
    int rc = parse_model(spec, data, out, err);
    if (rc != 0) {
        return rc;
    }
    struct model *model = *out;
    rc = kernel_table_apply(model, spec->kernels, NULL, err);
    rc = rc ? rc
            : job_units_check(spec->init_except, spec->init_except_count, model, "/init/except",
                              NULL, err);
    rc = rc ? rc : strategy_rules_model(spec, model, NULL, err);
    rc = rc ? rc : job_freeze(spec, model, frozen, NULL, err);
    for (size_t unit = 0; rc == 0 && unit < model->unit_count; unit++) {
        model->unit[unit].frozen = model->unit[unit].frozen || frozen[unit];
    }
    return rc;
}

/* ---- the checkpoint ---- */

static int read_checkpoint(void *arg, uint64_t offset, void *out, size_t size, struct err *err)
{
    const struct local_model *model = arg;
    return file_read_at(model->fd, out, size, offset, err);
}

/* Open the job's init.checkpoint, which is a local file here. */
static int open_checkpoint(const struct job_spec *spec, const char *path, struct local_model *out,
                           struct err *err)
{
    const char *id = spec->init_checkpoint.text;
    struct stat status;
    if (path[0] == '\0' && id[0] != '\0') {
        return err_set(
            err, ERR_INVALID,
            "the job starts from the checkpoint '%s': give its file by --checkpoint FILE", id);
    }
    if (path[0] == '\0') {
        return 0;
    }
    if (id[0] == '\0') {
        return err_set(err, ERR_INVALID, "--checkpoint '%s': the job has no init.checkpoint", path);
    }
    out->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (out->fd < 0 || fstat(out->fd, &status) != 0) {
        return err_set(err, err_from_errno(errno), "open '%s': %s", path, strerror(errno));
    }
    bool taken[MODEL_UNITS_MAX];
    for (size_t unit = 0; unit < out->model->unit_count; unit++) {
        taken[unit] = job_from_checkpoint(spec, out->model->unit[unit].name);
    }
    int rc = checkpoint_file_open(read_checkpoint, out, &out->checkpoint, err);
    rc = rc ? rc : checkpoint_check_samples(out->checkpoint, out->model, taken, err);
    rc = rc ? rc : checkpoint_check_view(out->checkpoint, out->model, taken, job_view(spec), err);
    if (rc == 0 && checkpoint_file_bytes(out->checkpoint) != (uint64_t)status.st_size) {
        rc = err_set(err, ERR_FORMAT, "it has %" PRId64 " bytes, %" PRIu64 " by its header",
                     (int64_t)status.st_size, checkpoint_file_bytes(out->checkpoint));
    }
    return rc == 0 ? 0 : err_wrap(err, "--checkpoint '%s'", path);
}

/* ---- kernels ---- */

static int tune(const struct job_spec *spec, size_t threads, struct model *model, struct err *err)
{
    struct train_tuner *tuner = NULL;
    const double began = clock_now_seconds();
    if (train_backend() == CONV2D_BACKEND_OWN) {
        return kernel_table_needs_onednn(model)
                   ? err_set(err, ERR_INVALID,
                             "the job requires kernels of oneDNN, which this build does not have")
                   : 0;
    }
    if (!job_tunes(spec, model) || !kernel_text_wanted(model)) {
        return 0;
    }
    int rc = train_tuner_new(&tuner, err);
    rc = rc ? rc
            : tune_units(tuner, model, 0, model->unit_count,
                         (size_t)(spec->batch / spec->micro_batches), threads, NULL, err);
    train_tuner_free(&tuner);
    (void)fprintf(stderr, "kernels measured in %.1f s\n", clock_now_seconds() - began);
    return rc;
}

/* ---- life ---- */

int local_model_open(const struct job_spec *spec, const struct local_job_data *data,
                     const char *path, size_t threads, struct local_model *out, struct err *err)
{
    *out = (struct local_model){.fd = -1};
    int rc = resolve_model(spec, data, &out->model, err);
    rc = rc ? rc : open_checkpoint(spec, path, out, err);
    return rc ? rc : tune(spec, threads, out->model, err);
}

void local_model_close(struct local_model *model)
{
    checkpoint_file_close(&model->checkpoint);
    file_close(&model->fd);
    model_free(&model->model);
}

int local_model_copy(const struct model *model, struct model **out, struct err *err)
{
    json_auto_t *description = description_write(model);
    return description ? description_parse(description, NULL, out, NULL, err)
                       : err_set(err, ERR_MEMORY, "model");
}
