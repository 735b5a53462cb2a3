#include <stdio.h>

#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/jobs.h"
#include "coordinator/http/routes.h"
#include "coordinator/http/wait.h"

/* The incident as the core has it; NULL: it is over, its row does not change any more. */
static const struct incident *live_incident(struct coordinator *coordinator, const char *job,
                                            const char *id)
{
    const struct incident *incident = core_job_incident(coordinator->core, job);
    return incident && id_equal(incident->id.text, id) ? incident : NULL;
}

struct incident_list {
    struct coordinator *coordinator;
    struct answer_list list;
};

static bool list_incident(void *arg, const struct state_row *row)
{
    struct incident_list *incidents = arg;
    const struct incident *live = live_incident(incidents->coordinator, row->parent, row->id);
    return live ? answer_list_kind(&incidents->list, row->id, OBJECT_INCIDENT, live)
                : answer_list_text(&incidents->list, row->id, row->document, row->document_size);
}

/* job NULL: of all jobs. */
static void list_incidents(struct coordinator *coordinator, struct http_exchange *exchange,
                           const char *job)
{
    struct incident_list incidents = {.coordinator = coordinator};
    const char *after;
    struct err err = {0};
    if (!answer_list_begin(exchange, &incident_id_form, &incidents.list, &after)) {
        return;
    }
    const size_t limit = incidents.list.limit + 1;
    int rc = job ? state_list_of_job(coordinator->state, STATE_INCIDENTS, job, after, limit,
                                     list_incident, &incidents, &err)
                 : state_list(coordinator->state, STATE_INCIDENTS, NULL, after, limit, false,
                              list_incident, &incidents, &err);
    if (rc) {
        buf_done(&incidents.list.body);
        answer_err(exchange, &err);
        return;
    }
    answer_list_end(exchange, &incidents.list);
}

void serve_incidents(void *context, struct http_exchange *exchange)
{
    list_incidents(context, exchange, NULL);
}

void serve_job_incidents(void *context, struct http_exchange *exchange)
{
    const char *job = http_param(exchange, "id");
    if (job_exists(context, exchange, job)) {
        list_incidents(context, exchange, job);
    }
}

static bool copy_parent(void *arg, const struct state_row *row)
{
    char *job = arg;
    snprintf(job, ID_SIZE, "%s", row->parent);
    return false;
}

static bool look_at_incident(void *context, struct http_exchange *exchange, const char *id,
                             int64_t after, bool last)
{
    struct coordinator *coordinator = context;
    char job[ID_SIZE] = "";
    struct err err = {0};
    int rc = state_get(coordinator->state, STATE_INCIDENTS, id, copy_parent, job, &err);
    const struct incident *live = rc ? NULL : live_incident(coordinator, job, id);
    if (live && live->revision <= after && !last) {
        return false;
    }
    if (live) {
        answer_kind(exchange, OBJECT_INCIDENT, live);
    } else {
        row_answer(coordinator, exchange, STATE_INCIDENTS, id, PROBLEM_UNKNOWN_INCIDENT);
    }
    return true;
}

void serve_incident(void *context, struct http_exchange *exchange)
{
    struct coordinator *coordinator = context;
    wait_for_object(coordinator->edge->parked, exchange, OBJECT_INCIDENT,
                    http_param(exchange, "id"), look_at_incident);
}
