#include "schema/problem.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"

const struct problem_kind problem_kinds[PROBLEM_COUNT] = {
    [PROBLEM_NONE] = {"none", 200, "No problem", false},
    [PROBLEM_INVALID_JSON] = {"invalid_json", 400, "The body is not valid JSON", false},
    [PROBLEM_INVALID_FIELDS] = {"invalid_fields", 422, "Fields of the body are not valid", false},
    [PROBLEM_INVALID_PARAMETER] = {"invalid_parameter", 400,
                                   "A parameter of the request is not valid", false},
    [PROBLEM_UNAUTHORIZED] = {"unauthorized", 401, "A valid token is required", false},
    [PROBLEM_FORBIDDEN] = {"forbidden", 403, "The token's role does not allow this", false},
    [PROBLEM_QUOTA_EXCEEDED] = {"quota_exceeded", 403, "The token's quota is used up", false},
    [PROBLEM_INVALID_DATASET] = {"invalid_dataset", 422, "The data set cannot be read", false},
    [PROBLEM_INVALID_CHECKPOINT] = {"invalid_checkpoint", 422, "The checkpoint cannot be read",
                                    false},
    [PROBLEM_INVALID_BLOB] = {"invalid_blob", 422,
                              "The body does not match its announced hash or length", false},
    [PROBLEM_UNSUPPORTED_MEDIA_TYPE] = {"unsupported_media_type", 415,
                                        "The content type is not supported", false},
    [PROBLEM_BODY_TOO_LARGE] = {"body_too_large", 413, "The body is larger than allowed", false},
    [PROBLEM_NOT_FOUND] = {"not_found", 404, "No such route", false},
    [PROBLEM_UNKNOWN_DEVICE] = {"unknown_device", 404, "No such device", false},
    [PROBLEM_UNKNOWN_JOB] = {"unknown_job", 404, "No such job", false},
    [PROBLEM_UNKNOWN_MODEL] = {"unknown_model", 404, "No such model", false},
    [PROBLEM_UNKNOWN_DATASET] = {"unknown_dataset", 404, "No such data set", false},
    [PROBLEM_UNKNOWN_PLAN] = {"unknown_plan", 404, "No such plan", false},
    [PROBLEM_UNKNOWN_CHECKPOINT] = {"unknown_checkpoint", 404, "No such checkpoint", false},
    [PROBLEM_UNKNOWN_INCIDENT] = {"unknown_incident", 404, "No such incident", false},
    [PROBLEM_UNKNOWN_BLOB] = {"unknown_blob", 404, "No such blob", false},
    [PROBLEM_UNKNOWN_TOKEN] = {"unknown_token", 404, "No such token", false},
    [PROBLEM_METHOD_NOT_ALLOWED] = {"method_not_allowed", 405,
                                    "The route does not support this method", false},
    [PROBLEM_NAME_TAKEN] = {"name_taken", 409, "The name is in use", false},
    [PROBLEM_WRONG_STATE] = {"wrong_state", 409, "The present state does not allow this", false},
    [PROBLEM_IN_USE] = {"in_use", 409, "A job uses the object", false},
    [PROBLEM_GROUP_OF_JOB] = {"group_of_job", 409, "The job is a part of another job", false},
    [PROBLEM_IDEMPOTENCY_MISMATCH] = {"idempotency_mismatch", 409,
                                      "The idempotency key was used for another request", false},
    [PROBLEM_REVISION_MISMATCH] = {"revision_mismatch", 412, "The object has another revision",
                                   false},
    [PROBLEM_STALE_GENERATION] = {"stale_generation", 409,
                                  "The message belongs to an older generation", false},
    [PROBLEM_STALE_BOOT] = {"stale_boot", 409, "A newer boot of this device has enrolled", false},
    [PROBLEM_IDENTITY_IN_USE] = {"identity_in_use", 409, "Another agent uses this identity", false},
    [PROBLEM_PROTOCOL_VERSION] = {"protocol_version", 409,
                                  "Agent and coordinator share no protocol version", false},
    [PROBLEM_NOT_ENOUGH_DEVICES] = {"not_enough_devices", 409, "Too few devices are free", true},
    [PROBLEM_MODEL_TOO_LARGE] = {"model_too_large", 422,
                                 "The model needs more memory than the devices have", false},
    [PROBLEM_BAD_SPLIT] = {"bad_split", 422, "The data cannot be divided in this way", false},
    [PROBLEM_RANGE_NOT_SATISFIABLE] = {"range_not_satisfiable", 416,
                                       "The range is outside the content", false},
    [PROBLEM_WRONG_KEY] = {"wrong_key", 403, "The client has not the key of this device", false},
    [PROBLEM_FORBIDDEN_ORIGIN] = {"forbidden_origin", 403, "The Host or Origin is not accepted",
                                  false},
    [PROBLEM_TOO_MANY] = {"too_many", 429, "A limit is reached", true},
    [PROBLEM_DISK_FULL] = {"disk_full", 507, "The coordinator's disk is full", true},
    [PROBLEM_BUSY] = {"busy", 503, "Too many requests are in progress", true},
    [PROBLEM_STOPPING] = {"stopping", 503, "The coordinator is shutting down", true},
    [PROBLEM_INTERNAL] = {"internal", 500, "The coordinator failed", true},
};

static const struct field fault_fields[] = {
    MEMBER_TEXT(struct record_fault, pointer, "pointer", FIELD_REQUIRED,
                .about = "RFC 6901; empty for the whole body."),
    MEMBER_TEXT(struct record_fault, message, "message", FIELD_REQUIRED),
};
static const struct record fault_record = RECORD(struct record_fault, "fault", fault_fields);

static const struct field problem_fields[] = {
    MEMBER_TEXT(struct problem, type, "type", FIELD_REQUIRED),
    MEMBER_TEXT(struct problem, title, "title", FIELD_REQUIRED),
    MEMBER_INT(struct problem, status, "status", FIELD_REQUIRED, 400, 599),
    MEMBER_TEXT(struct problem, detail, "detail", FIELD_SKIP_EMPTY),
    MEMBER_TEXT(struct problem, instance, "instance", FIELD_SKIP_EMPTY),
    MEMBER_TEXT(struct problem, code, "code", FIELD_REQUIRED, .shared = "problem_code"),
    MEMBER_TEXT(struct problem, request_id, "request_id", FIELD_SKIP_EMPTY,
                .about = "Also in the log."),
    MEMBER_BOOL(struct problem, retryable, "retryable", FIELD_REQUIRED,
                .about = "The same request may succeed later."),
    MEMBER_RECORDS(struct problem, errors.fault, errors.count, "errors", FIELD_SKIP_EMPTY,
                   &fault_record, .about = "The faults of the body, field by field."),
    MEMBER_BOOL(struct problem, errors.more, "more_errors", FIELD_SKIP_EMPTY,
                .about = "There are more than the listed ones."),
};
const struct record problem_record =
    RECORD_WITH(struct problem, "problem", problem_fields, .about = "RFC 9457.");

static void put_text(char *out, size_t size, const char *text)
{
    if (text && (size_t)snprintf(out, size, "%s", text) >= size) {
        utf8_mark_cut(out, size);
    }
}

/* The detail describes the first fault: append the number of other faults, if it fits. */
static void count_others(char detail[PROBLEM_DETAIL_SIZE], const struct record_faults *faults)
{
    char others[64];
    size_t used = strlen(detail);
    int size = snprintf(others, sizeof(others), " (and %s%zu more, see errors)",
                        faults->more ? "at least " : "", faults->count - 1 + faults->more);
    if (used > 0 && used + (size_t)size < PROBLEM_DETAIL_SIZE) {
        memcpy(detail + used, others, (size_t)size + 1);
    }
}

json_t *problem_write(enum problem_code code, const char *detail, const char *instance,
                      const char *request_id, const struct record_faults *faults)
{
    ASSERT(code > PROBLEM_NONE && code < PROBLEM_COUNT);
    const struct problem_kind *kind = &problem_kinds[code];
    struct problem problem = {.status = kind->status, .retryable = kind->retryable};
    (void)snprintf(problem.type, sizeof(problem.type), "urn:paceline:problem:%s", kind->code);
    put_text(problem.title, sizeof(problem.title), kind->title);
    put_text(problem.detail, sizeof(problem.detail), detail);
    put_text(problem.instance, sizeof(problem.instance), instance);
    put_text(problem.code, sizeof(problem.code), kind->code);
    put_text(problem.request_id, sizeof(problem.request_id), request_id);
    if (faults) {
        problem.errors = *faults;
    }
    if (faults && faults->count > 1) {
        count_others(problem.detail, faults);
    }
    return record_write(&problem_record, &problem);
}

/* The sender may have another version and send members that this version does not know. So the body
 * is not checked against the record table. */
enum problem_code problem_read(const char *text, size_t size, char message[MESSAGE_SIZE])
{
    message[0] = '\0';
    json_auto_t *body = NULL;
    if (json_parse(text, size, &body, NULL)) {
        return PROBLEM_NONE;
    }
    const char *code = json_string_value(json_object_get(body, "code"));
    const char *detail = json_string_value(json_object_get(body, "detail"));
    const char *title = json_string_value(json_object_get(body, "title"));
    const json_t *fault = json_array_get(json_object_get(body, "errors"), 0);
    const char *pointer = json_string_value(json_object_get(fault, "pointer"));
    const char *what = json_string_value(json_object_get(fault, "message"));
    enum problem_code found = PROBLEM_NONE;
    for (int i = PROBLEM_NONE + 1; code && i < PROBLEM_COUNT; i++) {
        if (strcmp(code, problem_kinds[i].code) == 0) {
            found = (enum problem_code)i;
        }
    }
    const char *line = detail ? detail : title;
    int length = 0;
    if (line && pointer && what && !strstr(line, what)) {
        length = snprintf(message, MESSAGE_SIZE, "%s: %s: %s", line, pointer, what);
    } else if (line) {
        length = snprintf(message, MESSAGE_SIZE, "%s", line);
    }
    if (length >= MESSAGE_SIZE) {
        utf8_mark_cut(message, MESSAGE_SIZE);
    }
    utf8_repair_line(message);
    return found;
}
