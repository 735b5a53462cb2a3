/* Submissions: resolves the job's names, checks that its parts fit together, and makes the
 * event. */
#include "coordinator/http/job_submit.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/content/awaited.h"
#include "coordinator/content/catalog.h"
#include "coordinator/content/checkpoint_blob.h"
#include "coordinator/content/forecasts.h"
#include "coordinator/content/work.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/access.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/ask.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/posted.h"
#include "coordinator/http/replay.h"
#include "coordinator/http/routes.h"
#include "libtrain/state/checkpoint.h"
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
    struct forecasts forecasts; /* of a dry run */
    struct posted_job posted;
    struct awaited checkpoint; /* while a worker reads it, the job that stored it may delete it */
    struct record_faults faults;
    int code;
    struct err err;
};

/* ---- comparing the model with the checkpoint, on a worker ---- */

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
    const struct model *model = submission->posted.model->model;
    const struct job_spec *spec = &submission->posted.spec;
    bool taken[MODEL_UNITS_MAX];
    struct err err = {0};
    for (size_t unit = 0; unit < model->unit_count && !submission->code; unit++) {
        taken[unit] = job_from_checkpoint(spec, model->unit[unit].name);
        int rc = taken[unit] ? checkpoint_check_unit(file, model, unit, &err) : 0;
        note_misfit(submission, rc, &err,
                    "; list such units in init.except to start them with new weights");
    }
    if (!submission->code) {
        int rc = checkpoint_check_samples(file, model, taken, &err);
        rc = rc ? rc : checkpoint_check_view(file, model, taken, job_view(spec), &err);
        note_misfit(submission, rc, &err, "");
    }
}

static void fit_run(struct work_job *job)
{
    struct submission *submission = (struct submission *)job;
    struct checkpoint_blob blob = {0};
    submission->code =
        checkpoint_blob_open(submission->coordinator->blobs,
                             submission->posted.data.checkpoint_sha256, &blob, &submission->err);
    if (!submission->code) {
        check_units(submission, blob.file);
    }
    checkpoint_blob_close(&blob);
}

/* ---- planning a dry run, on a worker ---- */

static struct event_job_submit event_of(const struct submission *submission)
{
    return (struct event_job_submit){
        .spec = &submission->posted.spec,
        .data = &submission->posted.data,
        .model = submission->posted.model->model,
        .classes = submission->posted.classes.count > 0 ? &submission->posted.classes : NULL,
        .dry_run = submission->dry_run};
}

static struct submission *submission_of(struct planner_question *question)
{
    return (struct submission *)((char *)question - offsetof(struct submission, question));
}

static void dry_run_end(struct submission *submission)
{
    forecasts_end(&submission->forecasts);
    catalog_unpin(submission->coordinator->catalog, submission->posted.model->sha256);
    free(submission);
}

/* planned: NULL when the program ends. */
static void dry_run_answer(struct submission *submission, const struct event_planned *planned)
{
    struct event event = {.type = EVENT_JOB_SUBMIT, .job_submit = event_of(submission)};
    struct forecast *forecast = submission->forecasts.forecast;
    event.job_submit.planned = planned && forecast ? forecast_target(forecast) : planned;
    if (forecast) {
        event.job_submit.forecast = forecast_preview(forecast);
    }
    if (submission->exchange) {
        http_on_end(submission->exchange, NULL, NULL);
    }
    if (submission->exchange && planned) {
        turn_event(submission->coordinator->turn, &event, submission->exchange, NULL);
    }
    dry_run_end(submission);
}

static void dry_run_done(struct planner_question *question, const struct event_planned *planned)
{
    struct submission *submission = submission_of(question);
    struct forecast *forecast = submission->forecasts.forecast;
    const struct core *core = submission->coordinator->core;
    if (planned && forecast && forecast_take(core, forecast, planned)) {
        planner_again(submission->coordinator->planner, question);
    } else {
        dry_run_answer(submission, planned);
    }
}

static bool dry_run_fill(struct planner_question *question, struct planning *planning)
{
    struct submission *submission = submission_of(question);
    const struct event_job_submit submit = event_of(submission);
    struct core *core = submission->coordinator->core;
    if (!submission->exchange) {
        dry_run_end(submission);
        return false;
    }
    if (submission->forecasts.forecast) {
        forecast_ask(core, submission->forecasts.forecast, planning);
    } else {
        core_plan_submission(core, &submit, planning);
    }
    return true;
}

static void client_gone(void *arg)
{
    struct submission *submission = arg;
    submission->exchange = NULL;
}

/* Begin the forecast, if the job has one. false: a problem was sent. */
static bool begin_forecast(struct submission *submission, struct http_exchange *exchange)
{
    const struct posted_job *posted = &submission->posted;
    const struct forecast_request request = {.spec = &posted->spec,
                                             .data = &posted->data,
                                             .model = posted->model->model,
                                             .classes = &posted->classes};
    return !forecasts_of((enum job_strategy)posted->spec.strategy) ||
           ask_forecast(submission->coordinator, exchange, &request, posted->model, "/submodel",
                        &submission->forecasts);
}

/* Takes the submission if it must wait for the answer: *place is NULL then. */
static void dry_run(struct submission **place, struct http_exchange *exchange)
{
    struct submission *submission = *place;
    if (!ask_ready(submission->coordinator, exchange) || !begin_forecast(submission, exchange)) {
        return;
    }
    submission->question = (struct planner_question){.fill = dry_run_fill, .done = dry_run_done};
    submission->exchange = exchange;
    catalog_pin(submission->coordinator->catalog, submission->posted.model->sha256);
    http_on_end(exchange, client_gone, submission);
    *place = NULL;
    planner_take(submission->coordinator->planner, &submission->question);
}

/* ---- the request ---- */

/* Takes the submission if it must wait: *place is NULL then. */
static void submit(struct submission **place, struct http_exchange *exchange,
                   struct turn_extra *extra)
{
    struct submission *submission = *place;
    if (submission->dry_run) {
        dry_run(place, exchange);
        return;
    }
    extra->description = submission->posted.model->text.data;
    extra->description_size = submission->posted.model->text.size;
    memcpy(extra->description_sha256, submission->posted.model->sha256, SHA256_SIZE);
    if (!access_spend_job(submission->coordinator, exchange, extra)) {
        return;
    }
    struct event event = {.type = EVENT_JOB_SUBMIT, .job_submit = event_of(submission)};
    turn_event(submission->coordinator->turn, &event, exchange, extra);
}

/* Check the Idempotency-Key again: another request may have used it while the worker read. */
static void answer_fit(struct submission **place, struct http_exchange *exchange)
{
    struct submission *submission = *place;
    struct turn_extra extra = {0};
    if (submission->faults.count > 0) {
        answer_faults(exchange, &submission->faults);
    } else if (submission->code) {
        answer_problem(exchange, PROBLEM_INTERNAL, "checkpoint '%s': %s",
                       submission->posted.spec.init_checkpoint.text, submission->err.text);
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
    struct coordinator *coordinator = submission->coordinator;
    const struct catalog_entry *model = submission->posted.model;
    /* Await the checkpoint until the job refers to it. The submission cannot do so, because a dry
     * run takes it. */
    struct awaited checkpoint = {0};
    awaited_begin(coordinator, &checkpoint, submission->checkpoint.sha256);
    checkpoint.unwanted = submission->checkpoint.unwanted;
    awaited_end(&submission->checkpoint);
    if (exchange) {
        http_on_end(exchange, NULL, NULL);
        answer_fit(&submission, exchange);
    }
    awaited_let_go(coordinator, &checkpoint);
    catalog_unpin(coordinator->catalog, model->sha256);
    free(submission);
}

/* Takes the submission if it must wait for a worker: *place is NULL then. */
static void serve_submission(struct submission **place, struct http_exchange *exchange,
                             struct turn_extra *extra)
{
    struct submission *submission = *place;
    struct coordinator *coordinator = submission->coordinator;
    int rc =
        posted_resolve(coordinator, &submission->posted, &submission->faults, &submission->err);
    if (submission->faults.count > 0) {
        answer_faults(exchange, &submission->faults);
    } else if (rc) {
        answer_err(exchange, &submission->err);
    } else if (!submission->posted.data.checkpoint_sha256[0]) {
        submit(place, exchange, extra);
    } else {
        submission->job = (struct work_job){.run = fit_run, .done = fit_done};
        submission->exchange = exchange;
        catalog_pin(coordinator->catalog, submission->posted.model->sha256);
        awaited_begin(coordinator, &submission->checkpoint,
                      submission->posted.data.checkpoint_sha256);
        http_on_end(exchange, client_gone, submission);
        work_submit(coordinator->work, &submission->job);
        *place = NULL;
    }
}

bool job_submit_begin(struct coordinator *coordinator, struct http_exchange *exchange, bool *dry,
                      struct turn_extra *extra, json_t **body)
{
    static const char *const allowed[] = {"dry_run", NULL};
    return answer_check_query(exchange, allowed) && answer_query_bool(exchange, "dry_run", dry) &&
           (*dry || (replay_check(coordinator, exchange, extra) &&
                     edge_takes_rows(coordinator, exchange))) &&
           answer_read_json(exchange, body);
}

void job_submit(struct coordinator *coordinator, struct http_exchange *exchange, bool dry,
                struct turn_extra *extra, const json_t *body)
{
    struct submission *submission = calloc(1, sizeof(*submission));
    if (!submission) {
        answer_problem(exchange, PROBLEM_INTERNAL, "out of memory");
        return;
    }
    submission->coordinator = coordinator;
    submission->dry_run = dry;
    submission->posted.spec = job_spec_default;
    if (answer_read_version(exchange, &job_spec_record, RECORD_NEWEST, body,
                            &submission->posted.spec)) {
        serve_submission(&submission, exchange, extra);
    }
    free(submission);
}

void serve_job_post(void *context, struct http_exchange *exchange)
{
    struct coordinator *coordinator = context;
    struct turn_extra extra = {0};
    json_auto_t *body = NULL;
    bool dry;
    if (job_submit_begin(coordinator, exchange, &dry, &extra, &body)) {
        job_submit(coordinator, exchange, dry, &extra, body);
    }
}
