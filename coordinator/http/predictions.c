/* POST /v1/predictions: the expected times of a model's units on a device. */
#include <stdio.h>
#include <stdlib.h>

#include "coordinator/content/catalog.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/describe.h"
#include "coordinator/http/jobs.h"
#include "coordinator/http/routes.h"
#include "schema/job_check.h"
#include "schema/prediction.h"

/* A question and the spec of its job: an active job, or one with default fields. */
struct asking {
    struct coordinator *coordinator;
    struct http_exchange *exchange;
    struct prediction_question question;
    struct job_spec spec;
    struct prediction prediction;
};

static void answer_prediction(struct asking *asking, const struct model *model)
{
    struct prediction *prediction = &asking->prediction;
    prediction->batch = asking->spec.batch;
    prediction->micro_batches = asking->spec.micro_batches;
    snprintf(prediction->model, sizeof(prediction->model), "%s", model->name);
    if (core_predict(asking->coordinator->core, asking->question.device.text, model, &asking->spec,
                     prediction)) {
        answer_record(asking->exchange, 200, &prediction_record, prediction);
    } else {
        answer_unknown(asking->exchange, PROBLEM_UNKNOWN_DEVICE, asking->question.device.text);
    }
}

static void answer_job(struct asking *asking)
{
    const struct catalog_entry *entry;
    struct err err = {0};
    if (catalog_find(asking->coordinator->catalog, asking->spec.model.sha256, &entry, &err)) {
        answer_err(asking->exchange, &err);
    } else {
        answer_prediction(asking, entry->model);
    }
}

static void answer_model(struct asking *asking)
{
    const struct prediction_question *question = &asking->question;
    const char *dataset = question->dataset[0] ? question->dataset : NULL;
    struct described described AUTO(described_done) = {0};
    if (describe_model(asking->coordinator, asking->exchange, question->model, dataset, "/model",
                       &described)) {
        answer_prediction(asking, described.model);
    }
}

/* Set batch and micro-batches: those of the question if it states them, else those of the job. */
static void complete(struct asking *asking, const struct job *job)
{
    struct prediction_question *question = &asking->question;
    struct job_spec *spec = &asking->spec;
    *spec = job ? job->spec : job_spec_default;
    job_spec_complete(spec);
    spec->batch = question->batch > 0 ? question->batch : spec->batch;
    spec->micro_batches =
        question->micro_batches > 0 ? question->micro_batches : spec->micro_batches;
    question->batch = spec->batch;
    question->micro_batches = spec->micro_batches;
}

static void serve_question(struct asking *asking)
{
    struct coordinator *coordinator = asking->coordinator;
    const struct prediction_question *question = &asking->question;
    const char *job = question->job.text;
    struct record_faults faults = {0};
    struct err err = {0};
    if (job[0] && job_answer_ended(coordinator, asking->exchange, job)) {
        return;
    }
    complete(asking, core_job(coordinator->core, job));
    if (prediction_question_check(question, &faults, &err)) {
        answer_faults(asking->exchange, &faults);
    } else if (job[0]) {
        answer_job(asking);
    } else {
        answer_model(asking);
    }
}

void serve_prediction(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    if (!answer_check_query(exchange, allowed)) {
        return;
    }
    struct asking *asking = calloc(1, sizeof(*asking)); /* too large for a stack */
    if (!asking) {
        answer_problem(exchange, PROBLEM_INTERNAL, "out of memory");
        return;
    }
    asking->coordinator = context;
    asking->exchange = exchange;
    if (answer_read_body(exchange, &prediction_question_record, false, &asking->question)) {
        serve_question(asking);
    }
    free(asking);
}
