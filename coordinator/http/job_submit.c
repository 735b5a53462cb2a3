/* POST /v1/jobs: resolves the job's names, checks that its parts fit together, and makes the
 * event. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/content/catalog.h"
#include "coordinator/content/work.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/ask.h"
#include "coordinator/http/checkpoints.h"
#include "coordinator/http/describe.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/replay.h"
#include "coordinator/http/routes.h"
#include "libtrain/description/description.h"
#include "libtrain/formats/class_names.h"
#include "libtrain/state/checkpoint.h"
#include "libtrain/state/state.h"
#include "libtrain/state/trained.h"
#include "schema/job.h"
#include "schema/job_check.h"

/* A job as posted, with the objects of its names. */
struct submission {
    struct work_job job;              /* first */
    struct planner_question question; /* of a dry run */
    struct coordinator *coordinator;
    struct http_exchange
        *exchange; /* NULL: the client disconnected while a worker read the checkpoint */
    bool dry_run;
    struct job_spec spec;
    struct job_data data;
    struct model_fit fit;
    struct name_list class_names; /* of the training data, until the model is known */
    char reading[READING_SIZE];
    const struct catalog_entry *model;
    struct record_faults faults;
    int code;
    struct err err;
};

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

/* Labels are numbers: each has to mean the same class in both. */
static int compare_classes(struct coordinator *coordinator, const struct dataset *train,
                           const struct dataset *test, const struct name_list *names,
                           struct record_faults *faults, struct err *err)
{
    struct name_list others AUTO(name_list_done) = {0};
    if (strcmp(train->class_names_sha256, test->class_names_sha256) == 0) {
        return 0;
    }
    int rc = describe_class_names(coordinator, test, &others, err);
    if (!rc && !class_names_agree(&others, names)) {
        char difference[CLASS_NAMES_DIFFERENCE_MAX];
        class_names_difference(&others, names, difference);
        record_fault(faults, "/dataset/test",
                     "its classes are not those of '%s' (%s): the same number means another",
                     train->name, difference);
    }
    return rc;
}

static int resolve_data(struct coordinator *coordinator, struct submission *submission,
                        struct record_faults *faults, struct err *err)
{
    const struct job_spec *spec = &submission->spec;
    const struct dataset *train =
        find_dataset(coordinator, spec->dataset_train, "/dataset/train", faults);
    const struct dataset *test = NULL;
    if (spec->dataset_test[0]) {
        test = find_dataset(coordinator, spec->dataset_test, "/dataset/test", faults);
    }
    if (!train) {
        return 0;
    }
    int rc = describe_class_names(coordinator, train, &submission->class_names, err);
    memcpy(submission->reading, train->reading, sizeof(submission->reading));
    memcpy(submission->data.train_sha256, train->sha256, SHA256_SIZE);
    submission->data.train_samples = train->samples;
    submission->fit = describe_fit(train);
    if (train->samples < spec->batch) {
        record_fault(faults, "/batch", "%lld is more than the %lld samples of '%s'",
                     (long long)spec->batch, (long long)train->samples, train->name);
    }
    const int64_t steps = job_total_steps(spec, train->samples);
    if (steps >= 1 && spec->learning_rate.warmup_steps >= steps) {
        record_fault(faults, "/learning_rate/warmup_steps",
                     "must be below the %lld steps of the job", (long long)steps);
    }
    if (!test || rc) {
        return rc;
    }
    memcpy(submission->data.test_sha256, test->sha256, SHA256_SIZE);
    submission->data.test_samples = test->samples;
    if (test->height != train->height || test->width != train->width ||
        test->channels != train->channels || strcmp(test->dtype, train->dtype) != 0 ||
        test->positions != train->positions) {
        record_fault(faults, "/dataset/test", "its samples are not shaped like those of '%s'",
                     train->name);
    }
    if (test->classes > train->classes) {
        record_fault(faults, "/dataset/test", "it has labels up to %lld, '%s' only up to %lld",
                     (long long)test->classes - 1, train->name, (long long)train->classes - 1);
    }
    if (train->reading[0] && test->reading[0] && strcmp(train->reading, test->reading) != 0) {
        record_fault(faults, "/dataset/test", "its samples were made by %s, those of '%s' by %s",
                     test->reading, train->name, train->reading);
    }
    return compare_classes(coordinator, train, test, &submission->class_names, faults, err);
}

/* The file that version 0 is taken from. */
static void resolve_checkpoint(struct coordinator *coordinator, struct submission *submission,
                               struct record_faults *faults)
{
    const char *id = submission->spec.init_checkpoint.text;
    struct job_data *data = &submission->data;
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

/* The description of a model that is given by name; gives ownership. */
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

/* Make a catalog entry of the model's description, its own or that of its name, and check the
 * fields that depend on it. */
static int resolve_model(struct coordinator *coordinator, struct submission *submission,
                         const json_t *named, struct record_faults *faults, struct err *err)
{
    struct job_spec *spec = &submission->spec;
    const json_t *description = named ? named : spec->model.description;
    struct record_faults inner = {0};
    int rc = job_augment_check(spec, submission->fit.input, faults, err);
    if (rc) {
        return rc;
    }
    const struct model_samples samples = {.class_names = &submission->class_names,
                                          .reading = submission->reading};
    const struct catalog_change change = {
        .normalise = job_normalise(spec), .samples = &samples, .kernels = spec->kernels};
    rc = catalog_resolve(coordinator->catalog, description, &submission->fit, &change,
                         &submission->model, &inner, err);
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
        rc = job_freeze(spec, submission->model->model, frozen, faults, err);
        const struct catalog_change freeze = {.frozen = frozen};
        rc = rc ? rc
                : catalog_derive(coordinator->catalog, submission->model, &freeze,
                                 &submission->model, err);
    }
    if (rc) {
        return rc;
    }
    const struct catalog_entry *entry = submission->model;
    snprintf(spec->model.name, sizeof(spec->model.name), "%s", entry->model->name);
    memcpy(spec->model.sha256, entry->sha256, SHA256_SIZE);
    submission->data.tune = job_tunes(spec, entry->model);
    rc = check_sizes(spec, entry->model, named != NULL, faults, err);
    if (rc) {
        return rc;
    }
    rc = job_cuts_check(spec->cut, spec->cut_count, entry->model->unit_count, faults, err);
    int except = job_units_check(spec->init_except, spec->init_except_count, entry->model,
                                 "/init/except", faults, err);
    return rc ? rc : except;
}

static int resolve(struct coordinator *coordinator, struct submission *submission,
                   struct record_faults *faults, struct err *err)
{
    job_spec_complete(&submission->spec);
    int rc = job_spec_check(&submission->spec, faults, err);
    int data_code = resolve_data(coordinator, submission, faults, err);
    if (data_code) {
        return data_code;
    }
    resolve_checkpoint(coordinator, submission, faults);
    const struct job_model *model = &submission->spec.model;
    json_auto_t *named = NULL;
    if (!model->name[0] && !model->description) {
        return rc ? rc : ERR_INVALID; /* a fault already */
    }
    int model_code =
        model->description ? 0 : find_model(coordinator, model->name, faults, &named, err);
    if (!model_code && !submission->data.train_sha256[0]) {
        model_code = ERR_INVALID; /* a model cannot be fitted to an unknown data set */
    }
    model_code =
        model_code ? model_code : resolve_model(coordinator, submission, named, faults, err);
    rc = rc ? rc : model_code;
    return rc || faults->count == 0 ? rc : ERR_INVALID;
}

/* ---- does the model fit the checkpoint: on a worker ---- */

static int read_blob(void *arg, uint64_t offset, void *out, size_t size, struct err *err)
{
    size_t got = 0;
    int rc = blob_read(arg, offset, out, size, &got, err);
    return rc || got == size
               ? rc
               : err_set(err, ERR_FORMAT, "the file ends at byte %" PRIu64, offset + got);
}

static void note_misfit(struct submission *submission, int code, const struct err *err,
                        const char *remedy)
{
    if (code == ERR_INVALID) {
        record_fault(&submission->faults, "/init/checkpoint", "%s%s", err->text, remedy);
    } else if (code) {
        submission->code = code;
        submission->err = *err;
    }
}

/* Note a fault for each unit that does not fit, and one if the weights expect other samples. */
static void check_units(struct submission *submission, const struct checkpoint_file *file)
{
    const struct model *model = submission->model->model;
    bool taken[MODEL_UNITS_MAX];
    struct err err = {0};
    for (size_t unit = 0; unit < model->unit_count && !submission->code; unit++) {
        taken[unit] = job_from_checkpoint(&submission->spec, model->unit[unit].name);
        int rc = taken[unit] ? checkpoint_check_unit(file, model, unit, &err) : 0;
        note_misfit(submission, rc, &err,
                    "; list such units in init.except to start them with new weights");
    }
    if (!submission->code) {
        note_misfit(submission, checkpoint_check_samples(file, model, taken, &err), &err, "");
    }
}

static void fit_run(struct work_job *job)
{
    struct submission *submission = (struct submission *)job;
    struct blob_reader *reader = NULL;
    struct checkpoint_file *file = NULL;
    uint64_t size = 0;
    int rc = blob_reader_open(submission->coordinator->blobs, submission->data.checkpoint_sha256,
                              &reader, &size, &submission->err);
    rc = rc ? rc : checkpoint_file_open(read_blob, reader, &file, &submission->err);
    submission->code = rc;
    if (!rc) {
        check_units(submission, file);
    }
    checkpoint_file_close(&file);
    blob_reader_close(&reader);
}

/* ---- which plan would it get: on a worker ---- */

static struct event_job_submit event_of(const struct submission *submission)
{
    return (struct event_job_submit){.spec = &submission->spec,
                                     .data = &submission->data,
                                     .model = submission->model->model,
                                     .dry_run = submission->dry_run};
}

static struct submission *submission_of(struct planner_question *question)
{
    return (struct submission *)((char *)question - offsetof(struct submission, question));
}

static void dry_run_done(struct planner_question *question, const struct event_planned *planned)
{
    struct submission *submission = submission_of(question);
    struct event event = {.type = EVENT_JOB_SUBMIT, .job_submit = event_of(submission)};
    event.job_submit.planned = planned;
    if (submission->exchange) {
        http_on_end(submission->exchange, NULL, NULL);
    }
    if (submission->exchange && planned) {
        turn_event(submission->coordinator->turn, &event, submission->exchange, NULL);
    }
    catalog_unpin(submission->coordinator->catalog, submission->model->sha256);
    free(submission);
}

static bool dry_run_fill(struct planner_question *question, struct planning *planning)
{
    struct submission *submission = submission_of(question);
    const struct event_job_submit submit = event_of(submission);
    if (!submission->exchange) {
        dry_run_done(question, NULL);
        return false;
    }
    core_plan_submission(submission->coordinator->core, &submit, planning);
    return true;
}

static void client_gone(void *arg)
{
    struct submission *submission = arg;
    submission->exchange = NULL;
}

/* Takes the submission when it has to wait for the answer: it is NULL then. */
static void dry_run(struct submission **place, struct http_exchange *exchange)
{
    struct submission *submission = *place;
    if (!ask_ready(submission->coordinator, exchange)) {
        return;
    }
    submission->question = (struct planner_question){.fill = dry_run_fill, .done = dry_run_done};
    submission->exchange = exchange;
    catalog_pin(submission->coordinator->catalog, submission->model->sha256);
    http_on_end(exchange, client_gone, submission);
    *place = NULL;
    planner_take(submission->coordinator->planner, &submission->question);
}

/* ---- the request ---- */

/* Takes the submission if it has to wait: it is NULL then. */
static void submit(struct submission **place, struct http_exchange *exchange,
                   struct turn_extra *extra)
{
    struct submission *submission = *place;
    if (submission->dry_run) {
        dry_run(place, exchange);
        return;
    }
    extra->description = submission->model->text.data;
    extra->description_size = submission->model->text.size;
    memcpy(extra->description_sha256, submission->model->sha256, SHA256_SIZE);
    struct event event = {.type = EVENT_JOB_SUBMIT, .job_submit = event_of(submission)};
    turn_event(submission->coordinator->turn, &event, exchange, extra);
}

/* Look for the key again: another request may have used it while the worker read. */
static void answer_fit(struct submission **place, struct http_exchange *exchange)
{
    struct submission *submission = *place;
    struct turn_extra extra = {0};
    if (submission->faults.count > 0) {
        answer_faults(exchange, &submission->faults);
    } else if (submission->code) {
        answer_problem(exchange, PROBLEM_INTERNAL, "checkpoint '%s': %s",
                       submission->spec.init_checkpoint.text, submission->err.text);
    } else if (submission->dry_run || replay_check(submission->coordinator, exchange, &extra)) {
        submit(place, exchange, &extra);
    }
}

/* If the client has disconnected, no job is created: it could not learn the id. */
static void fit_done(struct work_job *job)
{
    struct submission *submission = (struct submission *)job;
    struct http_exchange *exchange = submission->exchange;
    if (job->cancelled) {
        submission->code = err_set(&submission->err, ERR_CANCELLED, "the coordinator is stopping");
    }
    struct catalog *catalog = submission->coordinator->catalog;
    const struct catalog_entry *model = submission->model;
    if (exchange) {
        http_on_end(exchange, NULL, NULL);
        answer_fit(&submission, exchange);
    }
    catalog_unpin(catalog, model->sha256);
    free(submission);
}

/* Takes the submission when it has to wait for a worker: it is NULL then. */
static void serve_submission(struct submission **place, struct http_exchange *exchange,
                             struct turn_extra *extra)
{
    struct submission *submission = *place;
    struct coordinator *coordinator = submission->coordinator;
    int rc = resolve(coordinator, submission, &submission->faults, &submission->err);
    name_list_done(&submission->class_names);
    record_done(&job_spec_record,
                &submission->spec); /* the core knows models, with their kernels, by their hash */
    if (submission->faults.count > 0) {
        answer_faults(exchange, &submission->faults);
    } else if (rc) {
        answer_err(exchange, &submission->err);
    } else if (!submission->data.checkpoint_sha256[0]) {
        submit(place, exchange, extra);
    } else {
        submission->job = (struct work_job){.run = fit_run, .done = fit_done};
        submission->exchange = exchange;
        catalog_pin(coordinator->catalog, submission->model->sha256);
        http_on_end(exchange, client_gone, submission);
        work_submit(coordinator->work, &submission->job);
        *place = NULL;
    }
}

void serve_job_post(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {"dry_run", NULL};
    struct coordinator *coordinator = context;
    struct turn_extra extra = {0};
    bool dry;
    if (!answer_check_query(exchange, allowed) || !answer_query_bool(exchange, "dry_run", &dry)) {
        return;
    }
    struct submission *submission = calloc(1, sizeof(*submission));
    if (!submission) {
        answer_problem(exchange, PROBLEM_INTERNAL, "out of memory");
        return;
    }
    submission->coordinator = coordinator;
    submission->dry_run = dry;
    submission->spec = job_spec_default;
    if ((dry ||
         (replay_check(coordinator, exchange, &extra) && edge_takes_rows(coordinator, exchange))) &&
        answer_read_body(exchange, &job_spec_record, false, &submission->spec)) {
        serve_submission(&submission, exchange, &extra);
    }
    free(submission);
}
