#include "coordinator/http/unit_upload.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/coordinator.h"
#include "coordinator/disk.h"
#include "coordinator/http/agent.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/routes.h"

/* One unit's state on its way: received, durable, told to the core. Without a body the blob of that hash is to be there
 * already: a unit that did not change since the last version costs no transfer. */
struct unit_upload {
    struct work_job job; /* first */
    struct coordinator *coordinator;
    struct http_exchange *exchange; /* NULL when the client is gone */
    struct blob_upload *blob;       /* NULL without a body */
    struct event_blob_stored stored;
    struct unit_upload *next, **link; /* in coordinator->unit_uploads */
    int code;
    struct err err;
};

bool unit_upload_under_way(const struct coordinator *coordinator, const char *sha256)
{
    for (const struct unit_upload *upload = coordinator->unit_uploads; upload; upload = upload->next) {
        if (strcmp(upload->stored.unit.sha256, sha256) == 0) {
            return true;
        }
    }
    return false;
}

static void upload_link(struct unit_upload *upload)
{
    upload->link = &upload->coordinator->unit_uploads;
    upload->next = *upload->link;
    if (upload->next) {
        upload->next->link = &upload->next;
    }
    *upload->link = upload;
}

static void upload_unlink(struct unit_upload *upload)
{
    *upload->link = upload->next;
    if (upload->next) {
        upload->next->link = upload->link;
    }
}

/* The blob writer's thread; never after the blob was finished or aborted. */
static void upload_room(void *arg)
{
    struct unit_upload *upload = arg;
    http_exchange_continue(upload->exchange);
}

/* A number that the query must have. */
static bool read_number(struct http_exchange *exchange, const char *name, int64_t min, int64_t max, int64_t *out)
{
    if (!http_query(exchange, name)) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER, "query parameter '%s' is needed", name);
        return false;
    }
    return answer_query_int(exchange, name, min, max, 0, out);
}

static bool read_unit(struct http_exchange *exchange, struct center_unit *unit)
{
    static const int64_t count_max = (int64_t)INTEGER_MAX;
    const char *job = http_query(exchange, "job");
    const char *sha256 = http_param(exchange, "sha256");
    if (!job || !id_valid(job, "job_")) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER, "query parameter 'job': the id of a job");
        return false;
    }
    if (!sha256_form.valid(sha256)) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER, "blob '%.70s': expected %s", sha256, sha256_form.expected);
        return false;
    }
    memcpy(unit->job.text, job, strlen(job) + 1);
    memcpy(unit->sha256, sha256, SHA256_SIZE);
    return read_number(exchange, "generation", 1, count_max, &unit->generation) &&
           read_number(exchange, "version", 0, count_max, &unit->version) &&
           read_number(exchange, "unit", 0, UNITS_MAX - 1, &unit->unit);
}

/* Whether the device may send this unit now, by what it says of itself and the body. */
static bool admit(struct coordinator *coordinator, struct http_exchange *exchange, struct event_blob_stored *stored)
{
    static const char *const allowed[] = {"device", "boot", "job", "generation", "version", "unit", NULL};
    const struct center_unit *unit = &stored->unit;
    if (!answer_check_query(exchange, allowed) || !answer_check_upload_type(exchange)) {
        return false;
    }
    const struct device *device = agent_device(coordinator, exchange);
    if (!device || !read_unit(exchange, &stored->unit)) {
        return false;
    }
    if (http_content_length(exchange) > (int64_t)BLOB_BYTES_MAX) {
        answer_problem(exchange, PROBLEM_BODY_TOO_LARGE, "a unit's state has at most %llu bytes", BLOB_BYTES_MAX);
        return false;
    }
    stored->device = device->id;
    if (!core_may_store_unit(coordinator->core, device->id.text, unit)) {
        answer_problem(exchange, PROBLEM_STALE_GENERATION,
                       "unit %" PRId64 " of '%s' at version %" PRId64 " is not asked of '%s' in generation %" PRId64,
                       unit->unit, unit->job.text, unit->version, device->id.text, unit->generation);
        return false;
    }
    return true;
}

static bool has_body(const struct http_exchange *exchange)
{
    return http_content_length(exchange) > 0 || http_header(exchange, "Transfer-Encoding");
}

static bool upload_open(void *context, struct http_exchange *exchange, void **state)
{
    struct coordinator *coordinator = context;
    struct event_blob_stored stored = {0};
    if (!admit(coordinator, exchange, &stored)) {
        return false;
    }
    struct unit_upload *upload = calloc(1, sizeof *upload);
    struct err err = {0};
    int code = upload ? 0 : err_set(&err, ERR_MEMORY, "upload: out of memory");
    if (!code && has_body(exchange)) {
        disk_look(coordinator);
        code = blob_upload_open(coordinator->blobs, stored.unit.sha256, BLOB_BYTES_MAX, &upload->blob, &err);
    }
    if (code) {
        free(upload);
        answer_upload_err(exchange, &err);
        return false;
    }
    upload->coordinator = coordinator;
    upload->exchange = exchange;
    upload->stored = stored;
    upload_link(upload);
    if (upload->blob) {
        blob_upload_on_room(upload->blob, upload_room, upload);
    }
    *state = upload;
    return true;
}

/* A refusal is told at once; the server reads the rest of the body away and calls upload_abort. */
static size_t upload_write(void *state, const void *data, size_t size)
{
    struct unit_upload *upload = state;
    struct err err = {0};
    int64_t taken = blob_upload_write(upload->blob, data, size, &err);
    if (taken < 0) {
        answer_err(upload->exchange, &err);
        return size;
    }
    upload->coordinator->statistics.bytes_received += (uint64_t)taken;
    return (size_t)taken;
}

static void upload_report(struct work_job *job)
{
    struct unit_upload *upload = (struct unit_upload *)job;
    struct http_exchange *exchange = upload->exchange;
    if (exchange) {
        http_on_end(exchange, NULL, NULL);
    }
    upload_unlink(upload);
    if (!upload->code) {
        struct event event = {.type = EVENT_BLOB_STORED, .blob_stored = upload->stored};
        turn_event(upload->coordinator->turn, &event, exchange, NULL);
    } else if (exchange && upload->code == ERR_FORMAT) {
        answer_problem(exchange, PROBLEM_INVALID_BLOB, "%s", upload->err.text);
    } else if (exchange && upload->code == ERR_NOT_FOUND) {
        answer_problem(exchange, PROBLEM_UNKNOWN_BLOB, "%s; send it", upload->err.text);
    } else if (exchange) {
        answer_err(exchange, &upload->err);
    }
    free(upload);
}

/* The blob writer's thread. */
static void upload_durable(void *arg, int code, const char *sha256, uint64_t size, const struct err *err)
{
    struct unit_upload *upload = arg;
    (void)sha256; /* the expected one: the store has compared */
    upload->code = code;
    if (code) {
        upload->err = *err;
    }
    upload->stored.unit.bytes = (int64_t)size;
    upload->job.done = upload_report;
    work_post(upload->coordinator->work, &upload->job);
}

static void upload_client_gone(void *arg)
{
    struct unit_upload *upload = arg;
    upload->exchange = NULL;
}

static void upload_finish(void *state)
{
    struct unit_upload *upload = state;
    struct http_exchange *exchange = upload->exchange;
    struct err err = {0};
    http_on_end(exchange, upload_client_gone, upload);
    if (upload->blob) {
        blob_upload_finish(upload->blob, upload_durable, upload);
    } else if (blob_confirm(upload->coordinator->blobs, upload->stored.unit.sha256, upload_durable, upload, &err)) {
        http_on_end(exchange, NULL, NULL);
        upload_unlink(upload);
        free(upload);
        answer_upload_err(exchange, &err);
    }
}

static void upload_abort(void *state)
{
    struct unit_upload *upload = state;
    if (upload->blob) {
        blob_upload_abort(upload->blob);
    }
    upload_unlink(upload);
    free(upload);
}

const struct http_sink blob_sink = {
    .open = upload_open, .write = upload_write, .finish = upload_finish, .abort = upload_abort};
