#include "coordinator/http/posted.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/http/checkpoints.h"
#include "coordinator/http/describe.h"
#include "coordinator/http/posted_local.h"
#include "coordinator/http/posted_parts.h"
#include "libtrain/description/description.h"
#include "libtrain/formats/class_names.h"
#include "libtrain/state/state.h"
#include "libtrain/state/trained.h"
#include "schema/job_check.h"
#include "schema/job_view.h"
#include "schema/strategy_rules.h"

static const struct dataset *find_dataset(struct coordinator *coordinator, const char *name,
                                          const char *pointer, struct record_faults *faults)
{
    const struct dataset *dataset = core_dataset(coordinator->core, name);
    if (!dataset) {
        record_fault(faults, pointer, "no data set '%s'; upload it with PUT /v1/datasets/%s", name,
                     name);
    }
    return dataset;
}

/* An uploaded data set other than the training data. */
struct beside {
    const struct dataset *data;
    const char *pointer; /* to the field with its name */
};

/* Check that each label number means the same class in both data sets. */
static int compare_classes(struct coordinator *coordinator, const struct dataset *train,
                           const struct beside *beside, const struct name_list *names,
                           struct record_faults *faults, struct err *err)
{
    struct name_list others AUTO(name_list_done) = {0};
    if (strcmp(train->class_names_sha256, beside->data->class_names_sha256) == 0) {
        return 0;
    }
    int rc = describe_class_names(coordinator, beside->data, &others, err);
    if (!rc && !class_names_agree(&others, names)) {
        char difference[CLASS_NAMES_DIFFERENCE_MAX];
        class_names_difference(&others, names, difference);
        record_fault(faults, beside->pointer,
                     "its classes are not those of '%s' (%s): the same number means another",
                     train->name, difference);
    }
    return rc;
}

/* Compare the samples of both data sets. */
static int compare_data(struct coordinator *coordinator, const struct dataset *train,
                        const struct beside *beside, const struct name_list *names,
                        struct record_faults *faults, struct err *err)
{
    const struct dataset *test = beside->data;
    if (test->height != train->height || test->width != train->width ||
        test->channels != train->channels || strcmp(test->dtype, train->dtype) != 0 ||
        test->positions != train->positions) {
        record_fault(faults, beside->pointer, "its samples are not shaped like those of '%s'",
                     train->name);
    }
    if (test->classes > train->classes) {
        record_fault(faults, beside->pointer, "it has labels up to %lld, '%s' only up to %lld",
                     (long long)test->classes - 1, train->name, (long long)train->classes - 1);
    }
    if (train->reading[0] && test->reading[0] && strcmp(train->reading, test->reading) != 0) {
        record_fault(faults, beside->pointer, "its samples were made by %s, those of '%s' by %s",
                     test->reading, train->name, train->reading);
    }
    return compare_classes(coordinator, train, beside, names, faults, err);
}

/* Resolve the view. If it has class numbers of its own, the model has an output for each of its
 * classes and one for all others. Without faults, the view's epochs become those of the job. */
static int resolve_view(struct posted_job *posted, const struct dataset *train,
                        struct record_faults *faults, struct err *err)
{
    const struct view *view = &posted->spec.view;
    const struct job_view_data data = {.name = train->name,
                                       .classes = train->classes,
                                       .positions = train->positions,
                                       .count = train->class_count,
                                       .counted = train->class_count_count};
    struct name_list all AUTO(name_list_done) = {0};
    struct view_sizes sizes;
    if (job_view(&posted->spec)) {
        all = posted->class_names;
        posted->class_names = (struct name_list){0};
        posted->fit.classes = (uint32_t)view->class_count + 1;
    }
    if (job_view_check(&posted->spec, &data, &sizes, faults, err)) {
        return 0; /* a fault is recorded */
    }
    posted->data.epoch_samples = (int64_t)view_epoch(&sizes);
    posted->data.holdout_samples = (int64_t)sizes.held;
    return all.count > 0
               ? class_names_select(&all, view->class, view->class_count, &posted->class_names, err)
               : 0;
}

/* Check the rules that relate an epoch to other fields of the job. */
static void check_epoch(const struct posted_job *posted, const struct dataset *train,
                        struct record_faults *faults)
{
    const struct job_spec *spec = &posted->spec;
    const int64_t samples = job_epoch_samples(&posted->data);
    if (samples < spec->batch) {
        record_fault(faults, "/batch", "%lld is more than the %lld samples of %s'%s'",
                     (long long)spec->batch, (long long)samples,
                     spec->has_view                 ? "an epoch of the view of "
                     : spec->test_local.holdout > 0 ? "an epoch, without those held out, of "
                                                    : "",
                     train->name);
    }
    const int64_t steps = job_total_steps(spec, samples);
    if (steps >= 1 && spec->learning_rate.warmup_steps >= steps) {
        record_fault(faults, "/learning_rate/warmup_steps",
                     "must be below the %lld steps of the job", (long long)steps);
    }
}

/* Find the class names. If the training data stay on devices, the test set has them. */
static int find_class_names(struct coordinator *coordinator, const struct dataset *train,
                            const struct dataset *test, struct posted_job *posted, struct err *err)
{
    const bool local = train == &posted->local;
    const bool same = test && strcmp(test->class_names_sha256, train->class_names_sha256) == 0;
    return !local ? describe_class_names(coordinator, train, &posted->class_names, err)
           : same ? describe_class_names(coordinator, test, &posted->class_names, err)
                  : 0;
}

/* Resolve the data of the joint phase if the training data stay on devices. */
static int resolve_joint(struct coordinator *coordinator, struct posted_job *posted,
                         struct record_faults *faults, struct err *err)
{
    struct beside beside = {.pointer = "/submodel/joint/dataset"};
    beside.data =
        find_dataset(coordinator, posted->spec.submodel.joint_dataset, beside.pointer, faults);
    posted->joint = beside.data;
    if (!beside.data) {
        return 0;
    }
    memcpy(posted->data.joint_sha256, beside.data->sha256, SHA256_SIZE);
    posted->data.joint_samples = beside.data->samples;
    if (beside.data->samples < posted->spec.batch) {
        record_fault(faults, beside.pointer, "has %lld samples, fewer than a batch",
                     (long long)beside.data->samples);
    }
    return compare_data(coordinator, posted->train, &beside, &posted->class_names, faults, err);
}

static int resolve_data(struct coordinator *coordinator, struct posted_job *posted,
                        struct record_faults *faults, struct err *err)
{
    const struct job_spec *spec = &posted->spec;
    const struct dataset *train = NULL;
    const struct dataset *test = NULL;
    if (spec->dataset_test[0]) {
        test = find_dataset(coordinator, spec->dataset_test, "/dataset/test", faults);
    }
    if (job_is_local(spec) && strategy_has_parts((enum job_strategy)spec->strategy)) {
        train = posted_local(coordinator, posted, test, faults);
    } else if (spec->train_local.device.text[0]) { /* else job_spec_check has rejected it */
        record_fault(faults, "/dataset/train/local",
                     "is for strategies 'gossip' and 'submodel' only");
    } else if (spec->dataset_train[0]) {
        train = find_dataset(coordinator, spec->dataset_train, "/dataset/train", faults);
    }
    if (!train) {
        return 0;
    }
    posted->train = train;
    int rc = find_class_names(coordinator, train, test, posted, err);
    memcpy(posted->reading, train->reading, sizeof(posted->reading));
    memcpy(posted->data.train_sha256, train->sha256, SHA256_SIZE);
    posted->data.train_samples = train->samples;
    posted->fit = describe_fit(train);
    if (!rc && test) {
        memcpy(posted->data.test_sha256, test->sha256, SHA256_SIZE);
        posted->data.test_samples = test->samples;
        const struct beside beside = {.data = test, .pointer = "/dataset/test"};
        rc = compare_data(coordinator, train, &beside, &posted->class_names, faults, err);
    }
    if (!rc && spec->submodel.joint_dataset[0]) {
        rc = resolve_joint(coordinator, posted, faults, err);
    }
    if (!rc && spec->has_view) {
        rc = resolve_view(posted, train, faults, err);
    }
    if (!rc) {
        check_epoch(posted, train, faults);
    }
    return rc;
}

/* Resolve the file that is the source of version 0. */
static void resolve_checkpoint(struct coordinator *coordinator, struct posted_job *posted,
                               struct record_faults *faults)
{
    const char *id = posted->spec.init_checkpoint.text;
    struct job_data *data = &posted->data;
    struct checkpoint checkpoint;
    struct err err = {0};
    int rc = id[0] ? checkpoint_find(coordinator, id, &checkpoint, &err) : 0;
    if (rc) {
        record_fault(faults, "/init/checkpoint", "%s",
                     rc == ERR_NOT_FOUND ? "no such checkpoint; GET /v1/checkpoints lists them"
                                         : err.text);
    } else if (id[0]) {
        memcpy(data->checkpoint_sha256, checkpoint.sha256, SHA256_SIZE);
        data->checkpoint_bytes = checkpoint.bytes;
    }
}

/* Find the description of a named model; the caller owns it. */
static int find_model(struct coordinator *coordinator, const char *name,
                      struct record_faults *faults, json_t **out, struct err *err)
{
    int rc = describe_named(coordinator, name, out, err);
    if (rc == ERR_NOT_FOUND) {
        record_fault(faults, "/model/name", "%s", err->text);
        return ERR_INVALID;
    }
    return rc;
}

/* Reject a unit's state or a trained model that is larger than a blob may be. */
static int check_sizes(const struct job_spec *spec, const struct model *model, bool named,
                       struct record_faults *faults, struct err *err)
{
    BUF_AUTO struct buf header;
    buf_init(&header, SAFETENSORS_HEADER_MAX);
    const struct evaluation evaluation = {.micro_batch = 1};
    int rc = trained_header(model, &evaluation, &header, err);
    if (rc == ERR_LIMIT) {
        record_fault(faults, named ? "/model/name" : "/model/description", "the trained model: %s",
                     err->text);
        return ERR_INVALID;
    }
    uint64_t export_bytes = header.size;
    for (size_t unit = 0; unit < model->unit_count && !rc; unit++) {
        struct state_layout *layout = NULL;
        rc = state_layout_new(model, unit, &spec->optimizer, &layout, err);
        if (!rc && layout->blob_bytes > BLOB_BYTES_MAX) {
            char pointer[RECORD_POINTER_MAX] = "/model/name";
            if (!named) {
                snprintf(pointer, sizeof(pointer), "/model/description/units/%zu", unit);
            }
            record_fault(faults, pointer,
                         "the state of unit '%s' has %" PRIu64
                         " bytes; the center takes %llu of a unit",
                         model->unit[unit].name, layout->blob_bytes, BLOB_BYTES_MAX);
        }
        export_bytes += rc ? 0 : layout->export_bytes;
        state_layout_free(&layout);
    }
    if (!rc && export_bytes > BLOB_BYTES_MAX) {
        record_fault(faults, named ? "/model/name" : "/model/description",
                     "the trained model has %" PRIu64 " bytes; the center takes %llu", export_bytes,
                     BLOB_BYTES_MAX);
    }
    return rc;
}

/* Make a catalog entry of the model's description, given or found by name, and check the fields
 * that depend on it. */
static int resolve_model(struct coordinator *coordinator, struct posted_job *posted,
                         const json_t *named, struct record_faults *faults, struct err *err)
{
    struct job_spec *spec = &posted->spec;
    const json_t *description = named ? named : spec->model.description;
    struct record_faults inner = {0};
    int rc = job_augment_check(spec, posted->fit.input, faults, err);
    if (rc) {
        return rc;
    }
    const struct model_samples samples = {.class_names = &posted->class_names,
                                          .reading = posted->reading};
    const struct catalog_change change = {
        .normalise = job_normalise(spec), .samples = &samples, .kernels = spec->kernels};
    rc = catalog_resolve(coordinator->catalog, description, &posted->fit, &change, &posted->model,
                         &inner, err);
    for (size_t i = 0; i < inner.count; i++) {
        char pointer[RECORD_POINTER_MAX];
        bool of_kernels = strncmp(inner.fault[i].pointer, "/kernels", strlen("/kernels")) == 0;
        const char *place = of_kernels ? "" : named ? "/model/name" : "/model/description";
        snprintf(pointer, sizeof(pointer), "%.24s%.130s", place,
                 named && !of_kernels ? "" : inner.fault[i].pointer);
        record_fault(faults, pointer, "%s", inner.fault[i].message);
    }
    faults->more = faults->more || inner.more;
    bool frozen[MODEL_UNITS_MAX];
    if (!rc && spec->freeze_count > 0) {
        rc = job_freeze(spec, posted->model->model, frozen, faults, err);
        const struct catalog_change freeze = {.frozen = frozen};
        rc = rc ? rc
                : catalog_derive(coordinator->catalog, posted->model, &freeze, &posted->model, err);
    }
    if (rc) {
        return rc;
    }
    const struct catalog_entry *entry = posted->model;
    snprintf(spec->model.name, sizeof(spec->model.name), "%s", entry->model->name);
    if (spec->model.sha256[0] != '\0' && strcmp(spec->model.sha256, entry->sha256) != 0) {
        record_fault(faults, "/model/sha256", "the description of this model has the hash %s",
                     entry->sha256);
        return ERR_INVALID;
    }
    memcpy(spec->model.sha256, entry->sha256, SHA256_SIZE);
    posted->data.tune = job_tunes(spec, entry->model);
    rc = check_sizes(spec, entry->model, named != NULL, faults, err);
    if (rc) {
        return rc;
    }
    rc = job_cuts_check(spec->cut, spec->cut_count, entry->model->unit_count, faults, err);
    int except = job_units_check(spec->init_except, spec->init_except_count, entry->model,
                                 "/init/except", faults, err);
    int own = strategy_rules_model(spec, entry->model, faults, err);
    return rc ? rc : except ? except : own;
}

static int resolve(struct coordinator *coordinator, struct posted_job *posted,
                   struct record_faults *faults, struct err *err)
{
    job_spec_complete(&posted->spec);
    int rc = job_spec_check(&posted->spec, faults, err);
    int data_code = resolve_data(coordinator, posted, faults, err);
    if (data_code) {
        return data_code;
    }
    resolve_checkpoint(coordinator, posted, faults);
    const struct job_model *model = &posted->spec.model;
    json_auto_t *named = NULL;
    if (!model->name[0] && !model->description) {
        return rc ? rc : ERR_INVALID; /* a fault is recorded */
    }
    int model_code =
        model->description ? 0 : find_model(coordinator, model->name, faults, &named, err);
    if (!model_code && !posted->train) {
        model_code = ERR_INVALID; /* a model cannot be fitted to an unknown data set */
    }
    model_code = model_code ? model_code : resolve_model(coordinator, posted, named, faults, err);
    rc = rc ? rc : model_code;
    rc = rc ? rc : posted_parts_resolve(posted, faults, err);
    return rc || faults->count == 0 ? rc : ERR_INVALID;
}

int posted_resolve(struct coordinator *coordinator, struct posted_job *posted,
                   struct record_faults *faults, struct err *err)
{
    int rc = resolve(coordinator, posted, faults, err);
    name_list_done(&posted->class_names);
    record_done(&job_spec_record,
                &posted->spec); /* the core knows models, with their kernels, by their hash */
    return rc;
}
