/* POST /v1/jobs/{id}/clone: creates a job with the fields of another job, which starts from one of
 * that job's checkpoints. The new job is submitted like any job, with the same checks. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/content/catalog.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/job_submit.h"
#include "coordinator/http/jobs.h"
#include "coordinator/http/routes.h"
#include "schema/heartbeat.h"
#include "schema/job.h"
#include "schema/job_check.h"
#include "schema/wire.h"

/* ---- the checkpoint ---- */

struct choice {
    struct coordinator *coordinator;
    const struct job *job;
    bool best;
    struct checkpoint_id id; /* "": none so far */
    int64_t version;
    double value;
    int code;
    struct err err;
};

struct measured {
    int64_t step;
    double value;
    bool found;
};

static bool take_value(void *arg, int64_t step, const char *name, double value)
{
    struct measured *measured = arg;
    (void)name;
    measured->found = step == measured->step;
    measured->value = value;
    return false;
}

/* Find the value of the job's judged metric at one version. */
static int find_value(struct choice *choice, struct measured *measured)
{
    const int metric = judged_metric_of(job_judged_metric(&choice->job->spec));
    return state_metrics(choice->coordinator->state, choice->job->id.text,
                         metric_name_names[metric], measured->step - 1, 1, take_value, measured,
                         &choice->err);
}

static bool is_preferred(const struct choice *choice, const struct checkpoint *checkpoint,
                         const struct measured *measured)
{
    if (choice->best && (!measured->found || !isfinite(measured->value))) {
        return false;
    }
    if (choice->id.text[0] == '\0') {
        return true;
    }
    return choice->best ? judged_better(job_judged_metric(&choice->job->spec), measured->value,
                                        choice->value)
                        : checkpoint->version >= choice->version;
}

static bool consider(void *arg, const struct state_row *row)
{
    struct choice *choice = arg;
    struct checkpoint checkpoint = {0};
    struct record_faults faults = {0};
    choice->code = wire_read(&checkpoint_record, row->document, row->document_size, &checkpoint,
                             &faults, &choice->err);
    struct measured measured = {.step = checkpoint.version};
    if (!choice->code && choice->best) {
        choice->code = find_value(choice, &measured);
    }
    if (!choice->code && is_preferred(choice, &checkpoint, &measured)) {
        choice->id = checkpoint.id;
        choice->version = checkpoint.version;
        choice->value = measured.value;
    }
    return choice->code == 0;
}

/* Choose the checkpoint. false: a problem was sent. */
static bool choose(struct choice *choice, struct http_exchange *exchange)
{
    const struct job *job = choice->job;
    const bool parted = job->spec.strategy == STRATEGY_SUBMODEL;
    if (parted && !choice->best && job->checkpoint.text[0] != '\0') {
        choice->id = job->checkpoint; /* its row is that of a part: the joint phase */
        return true;
    }
    struct state_store *state = choice->coordinator->state;
    /* Flush first: the metric of the last evaluation may not be a row yet. */
    int rc = choice->best && !state_in_transaction(state) ? state_flush(state, &choice->err) : 0;
    rc = rc ? rc
            : state_list(choice->coordinator->state, STATE_CHECKPOINTS, job->id.text, "", SIZE_MAX,
                         false, consider, choice, &choice->err);
    if (rc || choice->code) {
        answer_err(exchange, &choice->err);
        return false;
    }
    if (choice->id.text[0] != '\0') {
        return true;
    }
    if (choice->best) {
        answer_problem(
            exchange, PROBLEM_WRONG_STATE,
            "job '%s' has no checkpoint of an evaluated version; use from 'last'%s", job->id.text,
            parted ? "" : ", or set 'checkpoint' and evaluate.every_epochs in its successor");
    } else if (parted) {
        answer_problem(exchange, PROBLEM_WRONG_STATE,
                       "job '%s' has no checkpoint; wait until it has ended", job->id.text);
    } else {
        answer_problem(exchange, PROBLEM_WRONG_STATE,
                       "job '%s' has no checkpoint; wait until it has ended, or export one "
                       "(POST /v1/jobs/%s/export)",
                       job->id.text, job->id.text);
    }
    return false;
}

/* ---- the fields ---- */

/* Return whether view b keeps the kind of view a. A shard and classes exclude each other. */
static bool same_kind(const json_t *a, const json_t *b)
{
    const bool shard = json_is_object(json_object_get(b, "shard"));
    return shard ? json_object_get(a, "shard") != NULL
                 : !json_object_get(b, "classes") || !json_object_get(a, "shard");
}

static bool same_type(const json_t *a, const json_t *b)
{
    const json_t *type = json_object_get(b, "type");
    return same_kind(a, b) && (!type || json_equal(type, json_object_get(a, "type")));
}

/* Replace members of the base by given members. Objects are merged member by member. An object of
 * another type or kind has other members, so it replaces the whole object of the base. */
static int merge(json_t *base, json_t *given, bool nested)
{
    const char *name;
    json_t *value;
    int rc = 0;
    json_object_foreach(given, name, value)
    {
        json_t *old = json_object_get(base, name);
        const bool inner = !nested && json_is_object(old) && json_is_object(value) &&
                           strcmp(name, "model") != 0 && same_type(old, value);
        rc = rc ? rc : inner ? merge(old, value, true) : json_object_set(base, name, value);
    }
    return rc;
}

/* Remove the marks of units that the job froze. They are part of its description, but its successor
 * may train these units. */
static void thaw(json_t *description, const struct job_spec *spec)
{
    size_t index;
    json_t *unit;
    json_array_foreach(json_object_get(description, "units"), index, unit)
    {
        const char *name = json_string_value(json_object_get(unit, "name"));
        for (size_t i = 0; name && i < spec->freeze_count; i++) {
            if (strcmp(name, spec->freeze[i].text) == 0) {
                (void)json_object_del(unit, "frozen");
            }
        }
    }
}

/* Return the job in a form that can be submitted, with the checkpoint; the caller owns it. NULL:
 * out of memory. */
static json_t *write_base(struct job *job, const struct checkpoint_id *from, json_t *description)
{
    struct job_spec *spec = &job->spec;
    thaw(description, spec);
    spec->model.name[0] = spec->model.sha256[0] = '\0';
    spec->model.description = description;
    spec->init_checkpoint = *from;
    spec->init_except_count = 0;
    json_t *base = record_write(&job_spec_record, spec);
    spec->model.description = NULL;
    /* Clear the kernels: the description names them all, including measured ones. */
    if (base && json_object_set_new(base, "kernels", json_object())) {
        json_decref(base);
        return NULL;
    }
    return base;
}

/* Add the given groups of a job of sub-models, which its spec does not keep. false: a problem was
 * sent. */
static bool add_groups(struct coordinator *coordinator, struct http_exchange *exchange,
                       const struct job *job, json_t *base)
{
    if (job->spec.strategy != STRATEGY_SUBMODEL || job->spec.dataset_train[0] == '\0') {
        return true;
    }
    struct parent *parent = job_parent_load(coordinator, exchange, job->id.text);
    if (!parent) {
        return false;
    }
    int rc = 0;
    if (parent->divisions == 0 && parent->groups.count > 0) {
        rc = json_object_set_new(json_object_get(base, "submodel"), "groups",
                                 submodel_groups_write(&parent->groups));
    }
    free(parent);
    if (rc) {
        answer_problem(exchange, PROBLEM_INTERNAL, "out of memory");
    }
    return rc == 0;
}

/* Read `from` and remove it from the body. false: faults were found. */
static bool take_from(json_t *body, bool *best, struct record_faults *faults)
{
    const json_t *from = json_object_get(body, "from");
    const char *word = json_string_value(from);
    *best = word && strcmp(word, "best") == 0;
    if (!from) {
        record_fault(faults, "/from", "is required: 'best' or 'last'");
    } else if (!word || (!*best && strcmp(word, "last") != 0)) {
        record_fault(faults, "/from", "must be 'best' or 'last'");
    }
    if (json_object_get(json_object_get(body, "init"), "checkpoint")) {
        record_fault(faults, "/init/checkpoint",
                     "is chosen by 'from'; use POST /v1/jobs to name "
                     "another checkpoint");
    }
    (void)json_object_del(body, "from");
    return faults->count == 0;
}

/* If only epochs are given, remove the steps of the base: they could end the job earlier. */
static int lengthen(json_t *base, const json_t *body)
{
    const bool longer = json_object_get(body, "epochs") && !json_object_get(body, "steps");
    return longer ? json_object_set_new(base, "steps", json_null()) : 0;
}

static void clone(struct coordinator *coordinator, struct http_exchange *exchange, struct job *job,
                  json_t *body, bool dry, struct turn_extra *extra)
{
    struct record_faults faults = {0};
    struct choice choice = {.coordinator = coordinator, .job = job};
    json_auto_t *description = NULL;
    if (job->part != JOB_WHOLE) {
        answer_problem(exchange, PROBLEM_GROUP_OF_JOB,
                       "job '%s' is a part of job '%s'; clone that job, or submit a job with "
                       "init.checkpoint",
                       job->id.text, job->parent.text);
        return;
    }
    if (!take_from(body, &choice.best, &faults)) {
        answer_faults(exchange, &faults);
        return;
    }
    if (!choose(&choice, exchange)) {
        return;
    }
    int rc = catalog_read(coordinator->catalog, job->spec.model.sha256, &description, &choice.err);
    if (rc) {
        answer_err(exchange, &choice.err);
        return;
    }
    json_auto_t *base = write_base(job, &choice.id, description);
    if (base && !add_groups(coordinator, exchange, job, base)) {
        return;
    }
    if (!base || lengthen(base, body) || merge(base, body, false)) {
        answer_problem(exchange, PROBLEM_INTERNAL, "out of memory");
        return;
    }
    job_submit(coordinator, exchange, dry, extra, base);
}

void serve_job_clone(void *context, struct http_exchange *exchange)
{
    struct coordinator *coordinator = context;
    struct turn_extra extra = {0};
    json_auto_t *body = NULL;
    bool dry;
    if (!job_submit_begin(coordinator, exchange, &dry, &extra, &body)) {
        return;
    }
    if (!json_is_object(body)) {
        struct record_faults faults = {0};
        record_fault(&faults, "", "must be an object");
        answer_faults(exchange, &faults);
        return;
    }
    struct job *job = job_load(coordinator, exchange, http_param(exchange, "id"));
    if (job) {
        clone(coordinator, exchange, job, body, dry, &extra);
        record_done(&job_record, job);
        free(job);
    }
}
