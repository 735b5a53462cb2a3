#include <stdio.h>

#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/jobs.h"
#include "coordinator/http/routes.h"
#include "coordinator/http/wait.h"

/* Return the core's incident; NULL: the incident is over, and its row no longer changes. */
static const struct incident *live_incident(struct coordinator *coordinator, const char *job,
                                            const char *id)
{
    const struct incident *incident = core_job_incident(coordinator->core, job);
    return incident && id_equal(incident->id.text, id) ? incident : NULL;
}

struct incident_list {
    struct coordinator *coordinator;
    struct list list;
};

static bool list_incident(void *arg, const struct state_row *row)
{
    struct incident_list *incidents = arg;
    const struct incident *live = live_incident(incidents->coordinator, row->parent, row->id);
    return live ? list_object(&incidents->list, row->id, OBJECT_INCIDENT, live)
                : list_text(&incidents->list, row->id, row->document, row->document_size);
}

static const struct list_form incident_list_form = {
    .key = &incident_id_form, .states = incident_state_names, .waits = true};

static bool look_at_incidents(void *context, struct http_exchange *exchange, const char *id,
                              int64_t after, bool last)
{
    (void)id;
    struct coordinator *coordinator = context;
    struct incident_list incidents = {.coordinator = coordinator};
    if (!wait_list_is_new(coordinator, OBJECT_INCIDENT, after, last)) {
        return false;
    }
    if (list_begin(exchange, &incident_list_form, &incidents.list)) {
        incidents.list.revision = edge_list_revision(coordinator->edge, OBJECT_INCIDENT);
        list_rows(exchange, &incidents.list, coordinator->state, STATE_INCIDENTS, NULL,
                  list_incident, &incidents);
    }
    return true;
}

void serve_incidents(void *context, struct http_exchange *exchange)
{
    wait_for_list(context, exchange, OBJECT_INCIDENT, &incident_list_form, look_at_incidents);
}

void serve_job_incidents(void *context, struct http_exchange *exchange)
{
    static const struct list_form form = {.key = &incident_id_form, .states = incident_state_names};
    struct coordinator *coordinator = context;
    struct incident_list incidents = {.coordinator = coordinator};
    const char *job = http_param(exchange, "id");
    if (job_exists(coordinator, exchange, job) && list_begin(exchange, &form, &incidents.list)) {
        list_rows(exchange, &incidents.list, coordinator->state, STATE_INCIDENTS, job,
                  list_incident, &incidents);
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
