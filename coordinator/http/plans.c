/* POST /v1/plans: the plan that a job would get, with other devices, links or fields. Nothing is
 * stored. Each combination of fields needs one search; other questions take turns with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/content/forecasts.h"
#include "coordinator/coordinator.h"
#include "coordinator/core/state/planning.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/ask.h"
#include "coordinator/http/jobs.h"
#include "coordinator/http/posted.h"
#include "coordinator/http/replay.h"
#include "coordinator/http/routes.h"
#include "schema/job_check.h"
#include "schema/what_if.h"

/* A question that waits for its searches. */
struct asked {
    struct planner_question question; /* first */
    struct coordinator *coordinator;
    struct http_exchange *exchange; /* NULL: the client has disconnected */
    struct plan_question asked;
    struct posted_job posted;   /* resolved asked.spec; model NULL: the question names a job */
    struct forecasts forecasts; /* for sub-models, without combinations; else for the fastest */
    struct plan_combination combination[WHAT_IF_COMBINATIONS_MAX];
    size_t next; /* combination to search for */
    size_t best_index;
    /* The answer: the plan of the fastest combination, or why the first combination failed. */
    struct event_planned planned;
    struct planned best;
};

/* ---- checks ---- */

static bool is_named(const struct plan_question *question, const char *name)
{
    for (size_t i = 0; i < question->device_count; i++) {
        const struct what_if_device *device = &question->device[i];
        if (device->id.text[0] == '\0' && strcmp(device->name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void expect_device(struct coordinator *coordinator, const char *id, const char *pointer,
                          struct record_faults *faults)
{
    if (id[0] && !core_device(coordinator->core, id)) {
        record_fault(faults, pointer, "no device '%.40s'; GET /v1/devices lists them", id);
    }
}

static void check_devices(struct coordinator *coordinator, const struct plan_question *question,
                          struct record_faults *faults)
{
    char pointer[RECORD_POINTER_MAX];
    for (size_t i = 0; i < question->without_count; i++) {
        snprintf(pointer, sizeof(pointer), "/without/%zu", i);
        expect_device(coordinator, question->without[i].text, pointer, faults);
    }
    for (size_t i = 0; i < question->device_count; i++) {
        snprintf(pointer, sizeof(pointer), "/devices/%zu", i);
        expect_device(coordinator, question->device[i].id.text, pointer, faults);
        snprintf(pointer, sizeof(pointer), "/devices/%zu/like", i);
        expect_device(coordinator, question->device[i].like.text, pointer, faults);
    }
    for (size_t i = 0; i < 2 * question->link_count; i++) {
        const char *name = question->link[i / 2].between[i % 2];
        snprintf(pointer, sizeof(pointer), "/links/%zu/between/%zu", i / 2, i % 2);
        if (!is_named(question, name)) {
            expect_device(coordinator, name[0] ? name : "\"\"", pointer, faults);
        }
    }
}

/* Resolve asked.spec. false: a problem was sent. */
static bool resolve_spec(struct asked *asked, struct http_exchange *exchange)
{
    struct record_faults inner = {0}, faults = {0};
    struct err err = {0};
    asked->posted.spec = asked->asked.spec;
    const int rc = posted_resolve(asked->coordinator, &asked->posted, &inner, &err);
    asked->asked.spec.model.description = asked->asked.spec.kernels = NULL; /* freed by it */
    asked->asked.spec.submodel.groups = NULL;
    for (size_t i = 0; i < inner.count; i++) {
        char pointer[RECORD_POINTER_MAX];
        snprintf(pointer, sizeof(pointer), "/spec%.150s", inner.fault[i].pointer);
        record_fault(&faults, pointer, "%s", inner.fault[i].message);
    }
    if (faults.count > 0) {
        answer_faults(exchange, &faults);
    } else if (rc) {
        answer_err(exchange, &err);
    }
    return rc == 0 && faults.count == 0;
}

/* ---- jobs of groups ---- */

/* Treat a question about a live job of groups as one about a new job with its fields and groups. */
static bool take_parent(struct asked *asked, const struct parent *parent,
                        struct http_exchange *exchange)
{
    struct posted_job *posted = &asked->posted;
    const struct job *job = core_job(asked->coordinator->core, parent->job.text);
    struct err err = {0};
    posted->spec = job->spec;
    posted->data = job->data;
    posted->groups = parent->groups;
    memcpy(posted->class_samples, parent->class_samples, sizeof(posted->class_samples));
    posted->classes =
        (struct event_classes){.samples = posted->class_samples,
                               .count = parent->class_count,
                               .groups = posted->groups.count > 0 ? &posted->groups : NULL};
    if (parent->joint_class_count > 0) {
        memcpy(posted->joint_samples, parent->joint_samples, sizeof(posted->joint_samples));
        posted->classes.joint = posted->joint_samples;
    }
    asked->asked.job = (struct job_id){{0}};
    asked->asked.has_spec = true;
    if (catalog_find(asked->coordinator->catalog, job->spec.model.sha256, &posted->model, &err)) {
        answer_err(exchange, &err);
        return false;
    }
    return true;
}

/* Reject assumptions that are not supported for a job of groups. false: a problem was sent. */
static bool check_groups(const struct asked *asked, struct http_exchange *exchange)
{
    const struct plan_question *question = &asked->asked;
    const bool local = job_is_local(&asked->posted.spec);
    struct record_faults faults = {0};
    if (question->has_vary) {
        record_fault(&faults, "/vary", "is not for jobs of groups; ask for each alone");
    }
    for (size_t i = 0; i < question->device_count && local; i++) {
        char pointer[RECORD_POINTER_MAX];
        snprintf(pointer, sizeof(pointer), "/devices/%zu", i);
        if (question->device[i].id.text[0] == '\0') {
            record_fault(&faults, pointer,
                         "offers no data, and the job trains on data that stay on devices");
        }
    }
    if (faults.count > 0) {
        answer_faults(exchange, &faults);
    }
    return faults.count == 0;
}

/* Begin the forecast of a job of sub-models. false: a problem was sent. */
static bool begin_forecast(struct asked *asked, struct http_exchange *exchange)
{
    const struct posted_job *posted = &asked->posted;
    const struct forecast_request request = {.spec = &posted->spec,
                                             .data = &posted->data,
                                             .model = posted->model->model,
                                             .classes = &posted->classes,
                                             .question = &asked->asked};
    return ask_forecast(asked->coordinator, exchange, &request, posted->model, "/spec/submodel",
                        &asked->forecasts);
}

/* ---- the answer ---- */

static void asked_free(struct asked *asked)
{
    forecasts_end(&asked->forecasts);
    if (asked->posted.model) {
        catalog_unpin(asked->coordinator->catalog, asked->posted.model->sha256);
    }
    free(asked);
}

static bool is_faster(const struct plan_combination *a, const struct plan_combination *b)
{
    const bool first = a->failure[0] == '\0', second = b->failure[0] == '\0';
    return first != second ? first : first && a->predicted_step_seconds < b->predicted_step_seconds;
}

static void sort(struct plan_combination *list, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        for (size_t k = i; k > 0 && is_faster(&list[k], &list[k - 1]); k--) {
            const struct plan_combination other = list[k];
            list[k] = list[k - 1];
            list[k - 1] = other;
        }
    }
}

/* Let the core answer, in a turn. Check the key again, because another request may have used it
 * meanwhile. */
static void answer(struct asked *asked)
{
    struct turn_extra extra = {0};
    const struct plan_question *question = &asked->asked;
    const size_t count = question->has_vary ? what_if_combinations(question) : 0;
    struct event event = {.type = EVENT_PLAN_QUESTION,
                          .plan_question = {.question = question,
                                            .planned = &asked->planned,
                                            .combination = asked->combination,
                                            .combination_count = count}};
    if (question->has_spec) {
        event.plan_question.spec = &asked->posted.spec;
        event.plan_question.model = asked->posted.model->model;
        event.plan_question.steps =
            job_total_steps(&asked->posted.spec, job_epoch_samples(&asked->posted.data));
        event.plan_question.data = &asked->posted.data;
        event.plan_question.classes =
            asked->posted.classes.count > 0 ? &asked->posted.classes : NULL;
    }
    if (asked->forecasts.forecast) {
        event.plan_question.forecast = forecast_preview(asked->forecasts.forecast);
    }
    sort(asked->combination, count);
    if (asked->exchange) {
        http_on_end(asked->exchange, NULL, NULL);
    }
    const bool ended = asked->exchange && !question->has_spec &&
                       job_answer_ended(asked->coordinator, asked->exchange, question->job.text);
    if (asked->exchange && !ended && replay_check(asked->coordinator, asked->exchange, &extra)) {
        turn_event(asked->coordinator->turn, &event, asked->exchange, &extra);
    }
    asked_free(asked);
}

static void client_gone(void *arg)
{
    struct asked *asked = arg;
    asked->exchange = NULL;
}

/* ---- searches ---- */

static void take_failure(struct asked *asked, int code, const char *text)
{
    struct plan_combination *combination = &asked->combination[asked->next];
    snprintf(combination->failure, sizeof(combination->failure), "%.*s", MESSAGE_SIZE - 1, text);
    if (!asked->planned.planned && !asked->planned.message[0]) {
        asked->planned.code = code;
        snprintf(asked->planned.message, sizeof(asked->planned.message), "%s",
                 combination->failure);
    }
    asked->next++;
}

static void take_plan(struct asked *asked, const struct event_planned *planned)
{
    core_plan_combination(asked->coordinator->core, &asked->asked, planned->planned,
                          &asked->combination[asked->next]);
    if (!asked->planned.planned ||
        planned->planned->expected_seconds < asked->best.expected_seconds) {
        asked->best = *planned->planned;
        asked->best_index = asked->next;
        asked->planned = (struct event_planned){.planned = &asked->best};
    }
    asked->next++;
}

/* Return the job of the question; NULL: it has ended, or the question names no job. */
static const struct job *job_of(const struct asked *asked)
{
    return core_job(asked->coordinator->core, asked->asked.job.text);
}

/* Write the fields of a combination. false: the job has ended. */
static bool write_spec(const struct asked *asked, size_t index, struct job_spec *spec)
{
    const struct job *job = job_of(asked);
    if (!job && !asked->asked.has_spec) {
        return false;
    }
    *spec = job ? job->spec : asked->posted.spec;
    what_if_vary(&asked->asked, index, spec);
    return true;
}

/* Return whether to compare the fastest combination with other ways to train. */
static bool compares(const struct asked *asked)
{
    const struct job *job = job_of(asked);
    const struct job_spec *spec = job ? &job->spec : &asked->posted.spec;
    return asked->exchange && asked->planned.planned && (job || asked->asked.has_spec) &&
           spec->strategy == STRATEGY_PARAMETER_SERVER;
}

/* Ask for the first other way to train; the plan of the fastest combination is known. false: a
 * problem was sent. */
static bool begin_comparison(struct asked *asked, struct planning *planning)
{
    struct coordinator *coordinator = asked->coordinator;
    const struct job *job = job_of(asked);
    struct job_spec spec;
    struct err err = {0};
    const struct forecast_request request = {
        .spec = &spec,
        .data = job ? &job->data : &asked->posted.data,
        .model = asked->posted.model ? asked->posted.model->model : NULL,
        .question = &asked->asked};
    (void)write_spec(asked, asked->best_index, &spec);
    if (forecasts_begin(coordinator, &request, asked->posted.model, &asked->forecasts, &err)) {
        http_on_end(asked->exchange, NULL, NULL);
        answer_err(asked->exchange, &err);
        asked_free(asked);
        return false;
    }
    (void)forecast_take(coordinator->core, asked->forecasts.forecast, &asked->planned);
    forecast_ask(coordinator->core, asked->forecasts.forecast, planning);
    return true;
}

static void take(struct asked *asked, const struct event_planned *planned)
{
    if (planned->code != 0) {
        take_failure(asked, planned->code, planned->message);
    } else {
        take_plan(asked, planned);
    }
}

static void take_forecast(struct asked *asked, const struct event_planned *planned)
{
    struct forecast *forecast = asked->forecasts.forecast;
    if (forecast_take(asked->coordinator->core, forecast, planned)) {
        planner_again(asked->coordinator->planner, &asked->question);
        return;
    }
    if (asked->next == 0) { /* no combination: its plan is the answer */
        take(asked, forecast_target(forecast));
    }
    answer(asked);
}

static void done(struct planner_question *question, const struct event_planned *planned)
{
    struct asked *asked = (struct asked *)question;
    if (!planned) { /* the program ends */
        if (asked->exchange) {
            http_on_end(asked->exchange, NULL, NULL);
        }
        asked_free(asked);
        return;
    }
    if (asked->forecasts.forecast) {
        take_forecast(asked, planned);
        return;
    }
    take(asked, planned);
    const bool more = asked->exchange && asked->next < what_if_combinations(&asked->asked);
    if (more || compares(asked)) {
        planner_again(asked->coordinator->planner, question);
    } else {
        answer(asked);
    }
}

/* Write the fields of the next combination. false: the job has ended. */
static bool begin(struct asked *asked, struct job_spec *spec)
{
    const struct plan_question *question = &asked->asked;
    if (!write_spec(asked, asked->next, spec)) {
        return false;
    }
    asked->combination[asked->next] = (struct plan_combination){
        .micro_batches = spec->micro_batches,
        .compression = spec->compression,
        .pipeline = spec->pipeline,
        .devices = question->vary.devices_count > 0 ? spec->devices_max : 0};
    return true;
}

static bool fill(struct planner_question *question, struct planning *planning)
{
    struct asked *asked = (struct asked *)question;
    const struct event_plan_question event = {
        .question = &asked->asked,
        .model = asked->posted.model ? asked->posted.model->model : NULL};
    struct job_spec spec;
    if (asked->forecasts.forecast && asked->exchange && (job_of(asked) || asked->asked.has_spec)) {
        forecast_ask(asked->coordinator->core, asked->forecasts.forecast, planning);
        return true;
    }
    while (asked->exchange && asked->next < what_if_combinations(&asked->asked) &&
           begin(asked, &spec)) {
        struct err err = {0};
        if (!asked->asked.has_vary || job_spec_check(&spec, NULL, &err) == 0) {
            return core_plan_question(asked->coordinator->core, &event, &spec, planning);
        }
        take_failure(asked, ERR_INVALID, err.text);
    }
    if (compares(asked) && !asked->forecasts.forecast) {
        return begin_comparison(asked, planning);
    }
    if (!asked->planned.planned && !asked->planned.message[0]) {
        asked->planned.code = ERR_STATE; /* the job has ended, which is the answer */
    }
    answer(asked);
    return false;
}

/* ---- the request ---- */

/* Takes the question if it must wait: *place is NULL then. */
static void serve(struct asked **place, struct http_exchange *exchange)
{
    struct asked *asked = *place;
    struct coordinator *coordinator = asked->coordinator;
    struct record_faults faults = {0};
    struct err err = {0};
    const int rc = plan_question_check(&asked->asked, &faults, &err);
    check_devices(coordinator, &asked->asked, &faults);
    if (rc || faults.count > 0) {
        answer_faults(exchange, &faults);
        return;
    }
    if (asked->asked.has_spec ? !resolve_spec(asked, exchange)
                              : job_answer_ended(coordinator, exchange, asked->asked.job.text)) {
        return;
    }
    const struct parent *parent = core_parent(coordinator->core, asked->asked.job.text);
    if (parent && !take_parent(asked, parent, exchange)) {
        return;
    }
    const int strategy = asked->posted.spec.strategy;
    if ((strategy_has_parts(strategy) && !check_groups(asked, exchange)) ||
        !ask_ready(coordinator, exchange) ||
        (strategy_has_slices(strategy) && !begin_forecast(asked, exchange))) {
        return;
    }
    if (asked->posted.model) {
        catalog_pin(coordinator->catalog, asked->posted.model->sha256);
    }
    asked->question = (struct planner_question){.fill = fill, .done = done};
    asked->exchange = exchange;
    http_on_end(exchange, client_gone, asked);
    *place = NULL;
    planner_take(coordinator->planner, &asked->question);
}

void serve_plan_question(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    struct coordinator *coordinator = context;
    struct turn_extra extra = {0};
    if (!answer_check_query(exchange, allowed) || !replay_check(coordinator, exchange, &extra)) {
        return;
    }
    struct asked *asked = calloc(1, sizeof(*asked));
    if (!asked) {
        answer_problem(exchange, PROBLEM_INTERNAL, "out of memory");
        return;
    }
    asked->coordinator = coordinator;
    asked->asked.spec = job_spec_default;
    if (answer_read_body(exchange, &plan_question_record, false, &asked->asked)) {
        serve(&asked, exchange);
    }
    if (asked) {
        record_done(&plan_question_record, &asked->asked);
        free(asked);
    }
}
