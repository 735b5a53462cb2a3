#include "cli/doctor.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/answer.h"
#include "cli/diagnosis.h"

#define FREE_METRIC "\npaceline_disk_free_bytes "

/* Read all items of a list. */
static int read_list(struct session *session, const char *path, json_t **out, struct err *err)
{
    BUF_AUTO struct buf target;
    json_t *items = json_array();
    int rc = items ? 0 : err_set(err, ERR_MEMORY, "no memory for a list");
    buf_init(&target, API_PATH_SIZE - 1);
    rc = rc ? rc : buf_printf(&target, err, "%s?limit=%d", path, REQUEST_PAGE_ITEMS);
    while (!rc) {
        json_auto_t *page = NULL;
        rc = api_call(&session->api, "GET", target.data, NULL, 0, 0, err);
        rc = rc ? rc : api_json(&session->api, &page, err);
        const char *next = json_string_value(json_object_get(page, "next_cursor"));
        if (!rc && json_is_array(json_object_get(page, "items")) &&
            json_array_extend(items, json_object_get(page, "items"))) {
            rc = err_set(err, ERR_MEMORY, "no memory for a list");
        }
        if (rc || !next) {
            break;
        }
        buf_clear(&target);
        rc = buf_printf(&target, err, "%s?limit=%d&cursor=%s", path, REQUEST_PAGE_ITEMS, next);
    }
    *out = items;
    return rc;
}

/* Read the free bytes from Prometheus' text; -1 if it does not state them. */
static int read_free(struct session *session, double *out, struct err *err)
{
    int rc = api_call(&session->api, "GET", "/metrics", NULL, 0, 0, err);
    const char *text = session->api.reply.data;
    const char *line = !rc && text ? strstr(text, FREE_METRIC) : NULL;
    *out = line ? strtod(line + sizeof(FREE_METRIC) - 1, NULL) : -1;
    return rc;
}

int doctor_run(struct session *session, struct err *err)
{
    json_auto_t *version = NULL;
    json_auto_t *devices = NULL;
    json_auto_t *jobs = NULL;
    json_auto_t *incidents = NULL;
    json_auto_t *findings = NULL;
    struct facts facts = {.disk_free_bytes = -1};
    bool failed = false;
    int rc = session_request(session, err);
    rc = rc ? rc : api_json(&session->api, &version, err);
    rc = rc ? rc : read_list(session, "/v1/devices", &devices, err);
    rc = rc ? rc : read_list(session, "/v1/jobs", &jobs, err);
    rc = rc ? rc : read_list(session, "/v1/incidents", &incidents, err);
    rc = rc ? rc : read_free(session, &facts.disk_free_bytes, err);
    if (rc) {
        return rc;
    }
    facts.version = version;
    facts.devices = devices;
    facts.jobs = jobs;
    facts.incidents = incidents;
    facts.now_ms = clock_wall_ms();
    rc = diagnosis_make(&facts, &findings, &failed, err);
    rc = rc ? rc : answer_show(session, findings, err);
    if (!rc && failed) {
        session->status = COMMAND_FAILED;
    }
    return rc;
}
