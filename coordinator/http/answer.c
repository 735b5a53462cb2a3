#include "coordinator/http/answer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "base/parse.h"
#include "coordinator/turn/objects.h"
#include "coordinator/turn/turn.h"
#include "schema/wire.h"

static const char content_type_json[] = "application/json; charset=utf-8";

/* End the body with a newline, for terminals and tools that read lines. */
static int end_line(struct buf *body, struct err *err)
{
    return body->size ? buf_append(body, "\n", 1, err) : 0;
}

void answer_object(struct http_exchange *exchange, int status, int64_t revision, struct buf *body)
{
    struct err err = {0};
    if (end_line(body, &err)) {
        answer_err(exchange, &err);
        return;
    }
    if (revision > 0) {
        char etag[32];
        snprintf(etag, sizeof(etag), "\"%" PRId64 "\"", revision);
        http_reply_header(exchange, "ETag", etag);
    }
    http_reply(exchange, status, body->size ? content_type_json : NULL, body->data, body->size);
}

void answer_record(struct http_exchange *exchange, int status, const struct record *record,
                   const void *value)
{
    BUF_AUTO struct buf body;
    buf_init(&body, 2 * JSON_BODY_MAX);
    struct err err = {0};
    if (wire_write(record, value, &body, &err)) {
        answer_err(exchange, &err);
        return;
    }
    answer_object(exchange, status, 0, &body);
}

void answer_kind(struct http_exchange *exchange, enum object_kind kind, const void *object)
{
    BUF_AUTO struct buf body;
    buf_init(&body, 2 * JSON_BODY_MAX);
    struct err err = {0};
    if (object_write(kind, object, &body, &err)) {
        answer_err(exchange, &err);
        return;
    }
    struct object_row row;
    object_describe(kind, object, &row);
    answer_object(exchange, 200, row.revision, &body);
}

static void send_problem(struct http_exchange *exchange, enum problem_code code, const char *detail,
                         const struct record_faults *faults)
{
    BUF_AUTO struct buf body;
    buf_init(&body, JSON_BODY_MAX);
    json_auto_t *problem =
        problem_write(code, detail, http_path(exchange), http_request_id(exchange), faults);
    int status = problem_kinds[code].status;
    if (status == 429 || status == 503 || status == 507) {
        http_reply_header(exchange, "Retry-After", "1");
    }
    struct err err = {0};
    if (!problem || json_write(problem, &body, &err) || end_line(&body, &err)) {
        http_reply(exchange, 500, NULL, NULL, 0);
        return;
    }
    http_reply(exchange, status, "application/problem+json; charset=utf-8", body.data, body.size);
}

void answer_problem(struct http_exchange *exchange, enum problem_code code, const char *format, ...)
{
    char detail[ERR_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof(detail), format, arguments);
    va_end(arguments);
    send_problem(exchange, code, detail, NULL);
}

void answer_held(struct http_exchange *exchange)
{
    answer_problem(exchange, PROBLEM_DISK_FULL,
                   "the disk of --state-dir is full; free space there");
}

bool answer_settled(struct http_exchange *exchange, struct turn *turn)
{
    bool settled = turn_settle(turn);
    if (!settled) {
        answer_problem(exchange, PROBLEM_INTERNAL,
                       "the store has failed; see the log of the coordinator");
    }
    return settled;
}

/* Users often try a name, or an id of another kind: say where the ids are. */
void answer_unknown(struct http_exchange *exchange, enum problem_code code, const char *id)
{
    static const struct {
        enum problem_code code;
        const char *what, *where;
    } table[] = {
        {PROBLEM_UNKNOWN_DEVICE, "device", "/v1/devices"},
        {PROBLEM_UNKNOWN_JOB, "job", "/v1/jobs"},
        {PROBLEM_UNKNOWN_CHECKPOINT, "checkpoint",
         "/v1/jobs/{id}/checkpoints, or GET /v1/checkpoints"},
        {PROBLEM_UNKNOWN_INCIDENT, "incident", "/v1/incidents"},
        {PROBLEM_UNKNOWN_TOKEN, "token", "/v1/tokens"},
    };
    size_t at = 0;
    while (table[at].code != code) {
        at++;
        ASSERT(at < sizeof(table) / sizeof(table[0]));
    }
    answer_problem(exchange, code, "no %s '%.40s'; ids are in GET %s", table[at].what, id,
                   table[at].where);
}

void answer_core_problem(struct http_exchange *exchange, enum problem_code code, const char *text)
{
    if (code != PROBLEM_INVALID_FIELDS) {
        send_problem(exchange, code, text, NULL);
        return;
    }
    struct record_faults faults = {0};
    char pointer[RECORD_POINTER_MAX] = "";
    const char *colon = text[0] == '/' ? strstr(text, ": ") : NULL;
    if (colon && (size_t)(colon - text) < sizeof(pointer)) {
        memcpy(pointer, text, (size_t)(colon - text));
        record_fault(&faults, pointer, "%s", colon + 2);
    } else {
        record_fault(&faults, "", "%s", text);
    }
    answer_faults(exchange, &faults);
}

void answer_faults(struct http_exchange *exchange, const struct record_faults *faults)
{
    char detail[ERR_TEXT_MAX];
    const char *pointer = faults->fault[0].pointer;
    snprintf(detail, sizeof(detail), "%s: %s", pointer[0] ? pointer : "the body",
             faults->fault[0].message);
    send_problem(exchange, PROBLEM_INVALID_FIELDS, detail, faults);
}

/* on_limit: the problem for ERR_LIMIT. */
static void send_err(struct http_exchange *exchange, const struct err *err,
                     enum problem_code on_limit)
{
    const struct {
        int code;
        enum problem_code problem;
    } table[] = {
        {ERR_INVALID, PROBLEM_INVALID_PARAMETER},
        {ERR_FORMAT, PROBLEM_INVALID_JSON},
        {ERR_LIMIT, on_limit},
        {ERR_FULL, PROBLEM_DISK_FULL},
        {ERR_STATE, PROBLEM_WRONG_STATE},
    };
    enum problem_code problem = PROBLEM_INTERNAL;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].code == err->code) {
            problem = table[i].problem;
        }
    }
    send_problem(exchange, problem, err->text, NULL);
}

void answer_err(struct http_exchange *exchange, const struct err *err)
{
    send_err(exchange, err, PROBLEM_BODY_TOO_LARGE);
}

void answer_upload_err(struct http_exchange *exchange, const struct err *err)
{
    send_err(exchange, err, PROBLEM_TOO_MANY);
}

struct query_check {
    const char *const *allowed;
    size_t count;
    char unknown[64];
};

static void check_query(void *arg, const char *name, const char *value)
{
    (void)value;
    struct query_check *check = arg;
    for (size_t i = 0; i < check->count; i++) {
        if (strcmp(name, check->allowed[i]) == 0) {
            return;
        }
    }
    snprintf(check->unknown, sizeof(check->unknown), "%s", name);
}

bool answer_check_query(struct http_exchange *exchange, const char *const *allowed)
{
    struct query_check check = {.allowed = allowed};
    while (allowed[check.count]) {
        check.count++;
    }
    http_each_query(exchange, check_query, &check);
    if (!check.unknown[0]) {
        return true;
    }
    const char *nearest = parse_nearest(check.unknown, allowed, check.count);
    if (nearest) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER,
                       "unknown query parameter '%s'; did you mean '%s'?", check.unknown, nearest);
    } else {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER, "unknown query parameter '%s'",
                       check.unknown);
    }
    return false;
}

bool answer_query_int(struct http_exchange *exchange, const char *name, int64_t min, int64_t max,
                      int64_t fallback, int64_t *out)
{
    const char *text = http_query(exchange, name);
    struct err err = {0};
    *out = fallback;
    if (text && parse_i64(text, min, max, out, &err)) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER, "query parameter '%s': %s", name,
                       err.text);
        return false;
    }
    return true;
}

bool answer_query_needed(struct http_exchange *exchange, const char *name, int64_t min, int64_t max,
                         int64_t *out)
{
    if (!http_query(exchange, name)) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER, "query parameter '%s' is required",
                       name);
        return false;
    }
    return answer_query_int(exchange, name, min, max, 0, out);
}

bool answer_query_bool(struct http_exchange *exchange, const char *name, bool *out)
{
    const char *text = http_query(exchange, name);
    struct err err = {0};
    *out = false;
    if (text && parse_bool(text, out, &err)) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER, "query parameter '%s': %s", name,
                       err.text);
        return false;
    }
    return true;
}

static bool is_json(const char *content_type)
{
    static const char wanted[] = "application/json";
    size_t length = sizeof(wanted) - 1;
    return content_type && strncasecmp(content_type, wanted, length) == 0 &&
           (content_type[length] == '\0' || content_type[length] == ';' ||
            content_type[length] == ' ');
}

bool answer_check_json_type(struct http_exchange *exchange)
{
    if (is_json(http_header(exchange, "Content-Type"))) {
        return true;
    }
    answer_problem(exchange, PROBLEM_UNSUPPORTED_MEDIA_TYPE,
                   "this route takes JSON: send 'Content-Type: application/json'");
    return false;
}

bool answer_check_upload_type(struct http_exchange *exchange)
{
    static const char *const simple_types[] = {"application/x-www-form-urlencoded",
                                               "multipart/form-data", "text/plain"};
    const char *type = http_header(exchange, "Content-Type");
    for (size_t i = 0; type && i < sizeof(simple_types) / sizeof(simple_types[0]); i++) {
        if (strncasecmp(type, simple_types[i], strlen(simple_types[i])) == 0) {
            answer_problem(exchange, PROBLEM_UNSUPPORTED_MEDIA_TYPE,
                           "send the file itself (curl -T FILE), not '%.60s'", type);
            return false;
        }
    }
    return true;
}

/* A body that is nested too deeply breaks a limit, but not the one on its size. */
static void answer_parse_err(struct http_exchange *exchange, const struct err *err)
{
    send_err(exchange, err, PROBLEM_INVALID_JSON);
}

bool answer_no_body(struct http_exchange *exchange)
{
    size_t size;
    json_auto_t *body = NULL;
    struct record_faults faults = {0};
    (void)http_body(exchange, &size);
    if (size == 0) {
        return true;
    }
    if (!answer_read_json(exchange, &body)) {
        return false;
    }
    if (!json_is_object(body) || json_object_size(body) > 0) {
        record_fault(&faults, "", "this route takes no body");
        answer_faults(exchange, &faults);
        return false;
    }
    return true;
}

bool answer_read_json(struct http_exchange *exchange, json_t **out)
{
    size_t size;
    const char *body = http_body(exchange, &size);
    struct err err = {0};
    if (!answer_check_json_type(exchange)) {
        return false;
    }
    if (json_parse(body, size, out, &err)) {
        answer_parse_err(exchange, &err);
        return false;
    }
    return true;
}

bool answer_read_body(struct http_exchange *exchange, const struct record *record, bool allow_empty,
                      void *out)
{
    size_t size;
    json_auto_t *body = NULL;
    (void)http_body(exchange, &size);
    if (size == 0 && allow_empty) {
        body = json_object();
    } else if (!answer_read_json(exchange, &body)) {
        return false;
    }
    return answer_read_version(exchange, record, RECORD_NEWEST, body, out);
}

bool answer_read_version(struct http_exchange *exchange, const struct record *record, int version,
                         const json_t *body, void *out)
{
    struct record_faults faults = {0};
    struct err err = {0};
    int rc = wire_read_version(record, version, body, out, &faults, &err);
    if (rc == ERR_INVALID && faults.count > 0) {
        answer_faults(exchange, &faults);
    } else if (rc) {
        answer_parse_err(exchange, &err);
    }
    return !rc;
}

bool answer_if_match(struct http_exchange *exchange, int64_t *revision)
{
    *revision = 0;
    const char *text = http_header(exchange, "If-Match");
    if (!text || strcmp(text, "*") == 0) {
        return true;
    }
    char digits[32];
    size_t length = strlen(text);
    struct err err = {0};
    bool quoted =
        length >= 3 && length < sizeof(digits) && text[0] == '"' && text[length - 1] == '"';
    if (quoted) {
        memcpy(digits, text + 1, length - 2);
        digits[length - 2] = '\0';
    }
    if (!quoted || parse_i64(digits, 1, INT64_MAX, revision, &err)) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER,
                       "If-Match: expected the ETag of the object, like \"7\", not %.40s", text);
        return false;
    }
    return true;
}

void answer_bad_cursor(struct http_exchange *exchange, const char *cursor)
{
    answer_problem(exchange, PROBLEM_INVALID_PARAMETER,
                   "query parameter 'cursor': '%.40s' is not a cursor of this list; send its "
                   "'next_cursor' unchanged",
                   cursor);
}
