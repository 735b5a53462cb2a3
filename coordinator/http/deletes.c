/* DELETE of what is stored. */
#include "coordinator/content/deletion.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/routes.h"

static void delete_object(struct coordinator *coordinator, struct http_exchange *exchange,
                          enum delete_kind kind, const char *parameter, enum problem_code unknown)
{
    static const char *const allowed[] = {NULL};
    const char *id = http_param(exchange, parameter);
    const struct turn_extra extra = {0};
    int64_t if_revision = 0;
    struct err err = {0};
    if (!answer_check_query(exchange, allowed) || !answer_no_body(exchange) ||
        !answer_if_match(exchange, &if_revision)) {
        return;
    }
    const int rc = deletion_run(coordinator, kind, id, if_revision, exchange, &extra, &err);
    if (rc == ERR_STATE) {
        answer_problem(exchange, PROBLEM_GROUP_OF_JOB,
                       "'%.40s' is a part of job '%.40s'; delete that one", id, err.text);
    } else if (rc == ERR_NOT_FOUND && kind == DELETE_DATASET) {
        answer_problem(exchange, unknown, "no data set '%.60s'", id);
    } else if (rc == ERR_NOT_FOUND && kind == DELETE_MODEL) {
        answer_problem(exchange, unknown, "no posted model '%.60s'; the zoo cannot be deleted", id);
    } else if (rc == ERR_NOT_FOUND) {
        answer_unknown(exchange, unknown, id);
    } else if (rc) {
        answer_err(exchange, &err);
    }
}

void serve_dataset_delete(void *context, struct http_exchange *exchange)
{
    delete_object(context, exchange, DELETE_DATASET, "name", PROBLEM_UNKNOWN_DATASET);
}

void serve_model_delete(void *context, struct http_exchange *exchange)
{
    delete_object(context, exchange, DELETE_MODEL, "name", PROBLEM_UNKNOWN_MODEL);
}

void serve_checkpoint_delete(void *context, struct http_exchange *exchange)
{
    delete_object(context, exchange, DELETE_CHECKPOINT, "id", PROBLEM_UNKNOWN_CHECKPOINT);
}

void serve_job_delete(void *context, struct http_exchange *exchange)
{
    delete_object(context, exchange, DELETE_JOB, "id", PROBLEM_UNKNOWN_JOB);
}

void serve_incident_delete(void *context, struct http_exchange *exchange)
{
    delete_object(context, exchange, DELETE_INCIDENT, "id", PROBLEM_UNKNOWN_INCIDENT);
}
