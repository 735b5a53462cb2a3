#include <inttypes.h>
#include <string.h>

#include "coordinator/http/agent.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/routes.h"
#include "coordinator/http/upload.h"

/* The upload of one unit's state: received, stored, then reported to the core. Without a body the
 * blob must exist already, so that a unit that has not changed since the last version costs no
 * transfer. */
struct unit_upload {
    struct upload frame; /* first */
    struct event_blob_stored stored;
};

static bool read_unit(struct http_exchange *exchange, struct center_unit *unit)
{
    static const int64_t count_max = (int64_t)INTEGER_MAX;
    const char *job = http_query(exchange, "job");
    const char *sha256 = http_param(exchange, "sha256");
    if (!job || !id_valid(job, "job_")) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER,
                       "query parameter 'job': the id of a job");
        return false;
    }
    if (!sha256_form.valid(sha256)) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER, "blob '%.70s': expected %s", sha256,
                       sha256_form.expected);
        return false;
    }
    memcpy(unit->job.text, job, strlen(job) + 1);
    memcpy(unit->sha256, sha256, SHA256_SIZE);
    return answer_query_needed(exchange, "generation", 1, count_max, &unit->generation) &&
           answer_query_needed(exchange, "version", 0, count_max, &unit->version) &&
           answer_query_needed(exchange, "unit", 0, UNITS_MAX - 1, &unit->unit);
}

/* Check the parameters, the body and whether the device may send this unit now. */
static bool admit(struct coordinator *coordinator, struct http_exchange *exchange,
                  struct event_blob_stored *stored)
{
    static const char *const allowed[] = {"device",  "boot", "job", "generation",
                                          "version", "unit", NULL};
    const struct center_unit *unit = &stored->unit;
    if (!answer_check_query(exchange, allowed) || !answer_check_upload_type(exchange)) {
        return false;
    }
    const struct device *device = agent_caller(coordinator, exchange);
    if (!device || !read_unit(exchange, &stored->unit)) {
        return false;
    }
    if (http_content_length(exchange) > (int64_t)BLOB_BYTES_MAX) {
        answer_problem(exchange, PROBLEM_BODY_TOO_LARGE, "a unit's state has at most %llu bytes",
                       BLOB_BYTES_MAX);
        return false;
    }
    stored->device = device->id;
    if (!core_may_store_unit(coordinator->core, device->id.text, unit)) {
        answer_problem(exchange, PROBLEM_STALE_GENERATION,
                       "generation %" PRId64 " of '%s' does not expect unit %" PRId64
                       " at version %" PRId64 " from '%s'",
                       unit->generation, unit->job.text, unit->unit, unit->version,
                       device->id.text);
        return false;
    }
    return true;
}

static struct event stored_event(const struct upload *frame)
{
    struct event event = {.type = EVENT_BLOB_STORED,
                          .blob_stored = ((const struct unit_upload *)frame)->stored};
    event.blob_stored.unit.bytes = (int64_t)frame->bytes;
    return event;
}

static const struct upload_kind unit_kind = {
    .size = sizeof(struct unit_upload), .event = stored_event, .refuse = upload_refuse_known};

static bool open_upload(void *context, struct http_exchange *exchange, void **state)
{
    struct coordinator *coordinator = context;
    struct event_blob_stored stored = {0};
    if (!admit(coordinator, exchange, &stored)) {
        return false;
    }
    struct unit_upload *upload = upload_new(&unit_kind, coordinator, exchange, stored.unit.sha256);
    if (upload) {
        upload->stored = stored;
    }
    *state = upload;
    return upload != NULL;
}

const struct http_sink blob_sink = {
    .open = open_upload, .write = upload_write, .finish = upload_finish, .abort = upload_abort};
