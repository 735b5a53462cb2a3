#include "agent/calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/call_timer.h"
#include "base/log.h"
#include "schema/problem.h"
#include "schema/wire.h"

#define CALL_URL_MAX 512
#define REPLY_MAX (2 * JSON_BODY_MAX)

enum call_kind { CALL_ENROLL, CALL_BEAT, CALL_POLL };
#define CALL_KINDS 3

static const struct {
    const char *name; /* in the log */
    enum session_event_type failed;
} kinds[CALL_KINDS] = {
    [CALL_ENROLL] = {"enroll", SESSION_ENROLL_FAILED},
    [CALL_BEAT] = {"heartbeat", SESSION_BEAT_FAILED},
    [CALL_POLL] = {"assignment", SESSION_POLL_FAILED},
};

/* One call in progress; its memory lives until libcurl has finished it. */
struct call {
    struct calls *calls;
    enum call_kind kind;
    int handle;
    char url[CALL_URL_MAX];
    struct buf body, reply;
    struct call *next;
};

struct calls {
    struct calls_config config;
    struct call *first;               /* all under way */
    struct call *present[CALL_KINDS]; /* the active call of each kind, or NULL */
    bool failing[CALL_KINDS];         /* as logged */
};

int calls_new(const struct calls_config *config, struct calls **out, struct err *err)
{
    struct calls *calls = calloc(1, sizeof(*calls));
    if (!calls) {
        return err_set(err, ERR_MEMORY, "calls");
    }
    calls->config = *config;
    *out = calls;
    return 0;
}

static void free_call(struct call *call)
{
    buf_done(&call->body);
    buf_done(&call->reply);
    free(call);
}

void calls_free(struct calls **calls)
{
    if (*calls) {
        for (struct call *call = (*calls)->first, *next; call; call = next) {
            next = call->next;
            free_call(call);
        }
        free(*calls);
        *calls = NULL;
    }
}

void assignment_free(struct assignment **assignment)
{
    if (*assignment) {
        record_done(&assignment_record, *assignment);
        free(*assignment);
        *assignment = NULL;
    }
}

/* ---- the result of a call ---- */

static void deliver(const struct calls *calls, struct session_event *event)
{
    calls->config.answered(calls->config.arg, event, NULL);
}

/* Log once when a kind of call begins to fail and once when it works again, not at each try. */
static void tell_failure(struct calls *calls, enum call_kind kind, enum session_failure failure,
                         int64_t retry_after_ms, const char *why)
{
    struct session_event event = {.type = kinds[kind].failed};
    event.failed.failure = failure;
    event.failed.retry_after_ms = retry_after_ms;
    (void)snprintf(event.failed.text, sizeof(event.failed.text), "%s", why);
    if (!calls->failing[kind]) {
        calls->failing[kind] = true;
        log_warn("coordinator_call_failed", "call=%s error=%s", kinds[kind].name,
                 log_quote(why).text);
    }
    deliver(calls, &event);
}

static void log_working(struct calls *calls, enum call_kind kind)
{
    if (calls->failing[kind]) {
        calls->failing[kind] = false;
        log_info("coordinator_call_works", "call=%s", kinds[kind].name);
    }
}

/* An answer other than 2xx. */
static void tell_refusal(const struct call *call, const struct http_result *result)
{
    char message[MESSAGE_SIZE];
    const enum problem_code code =
        problem_read(call->reply.data ? call->reply.data : "", call->reply.size, message);
    char why[MESSAGE_SIZE];
    (void)snprintf(why, sizeof(why), "the coordinator answers %d: %.200s", result->status, message);
    tell_failure(call->calls, call->kind, call_failure(result->status, code),
                 result->retry_after_ms, why);
}

static int read_enrolled(const struct call *call, struct err *err)
{
    struct session_event event = {.type = SESSION_ENROLLED};
    int rc = wire_read(&enroll_reply_record, call->reply.data, call->reply.size, &event.enrolled,
                       NULL, err);
    if (rc == 0) {
        deliver(call->calls, &event);
    }
    return rc;
}

static int read_beaten(const struct call *call, struct err *err)
{
    struct heartbeat_reply reply = {0};
    int rc =
        wire_read(&heartbeat_reply_record, call->reply.data, call->reply.size, &reply, NULL, err);
    if (rc == 0) {
        struct session_event event = {.type = SESSION_BEATEN, .reply = &reply};
        deliver(call->calls, &event);
    }
    return rc;
}

static int read_assigned(const struct call *call, struct err *err)
{
    struct assignment *assignment AUTO(assignment_free) = calloc(1, sizeof(*assignment));
    if (!assignment) {
        return err_set(err, ERR_MEMORY, "assignment");
    }
    assignment_start(assignment);
    int rc =
        wire_read(&assignment_record, call->reply.data, call->reply.size, assignment, NULL, err);
    rc = rc ? rc : assignment_check(assignment, err);
    if (rc == 0) {
        struct session_event event = {.type = SESSION_ASSIGNED, .assignment = assignment};
        call->calls->config.answered(call->calls->config.arg, &event, &assignment);
    }
    return rc;
}

static int read_answer(const struct call *call, int status, struct err *err)
{
    if (call->kind == CALL_POLL && status != 200) {
        struct session_event event = {.type = SESSION_POLL_ENDED};
        deliver(call->calls, &event);
        return 0;
    }
    switch (call->kind) {
    case CALL_ENROLL: return read_enrolled(call, err);
    case CALL_BEAT: return read_beaten(call, err);
    case CALL_POLL: return read_assigned(call, err);
    }
    return 0;
}

static void take_end(const struct call *call, int code, const struct http_result *result,
                     const struct err *why)
{
    struct calls *calls = call->calls;
    struct err err = {0};
    if (code != 0) {
        tell_failure(calls, call->kind, FAILURE_NETWORK, 0, why->text);
    } else if (result->status < 200 || result->status >= 300) {
        tell_refusal(call, result);
    } else if (read_answer(call, result->status, &err) != 0) {
        char text[MESSAGE_SIZE];
        (void)snprintf(text, sizeof(text), "the answer cannot be read: %.200s", err.text);
        tell_failure(calls, call->kind, FAILURE_NETWORK, 0, text);
    } else {
        log_working(calls, call->kind);
    }
}

static void call_done(void *arg, int code, const struct http_result *result, const struct err *why)
{
    struct call *call = arg;
    struct calls *calls = call->calls;
    for (struct call **at = &calls->first; *at; at = &(*at)->next) {
        if (*at == call) {
            *at = call->next;
            break;
        }
    }
    if (calls->present[call->kind] == call) {
        calls->present[call->kind] = NULL;
        take_end(call, code, result, why);
    }
    free_call(call);
}

/* ---- making one ---- */

/* Create a call of a kind in place of the current one. NULL: out of memory, already reported. */
static struct call *new_call(struct calls *calls, enum call_kind kind, const char *path)
{
    if (calls->present[kind]) {
        http_multi_cancel(calls->config.multi, calls->present[kind]->handle);
        calls->present[kind] = NULL;
    }
    struct call *call = calloc(1, sizeof(*call));
    if (!call) {
        tell_failure(calls, kind, FAILURE_NETWORK, 0, "out of memory");
        return NULL;
    }
    call->calls = calls;
    call->kind = kind;
    call->next = calls->first;
    calls->first = call;
    calls->present[kind] = call;
    (void)snprintf(call->url, sizeof(call->url), "%s/v1/agent/%s", calls->config.coordinator, path);
    buf_init(&call->body, JSON_BODY_MAX);
    buf_init(&call->reply, REPLY_MAX);
    return call;
}

/* Send it; a call that cannot be started fails like any other. */
static void start_call(struct call *call, const struct http_call *http)
{
    struct err err = {0};
    const int rc = http_multi_start(call->calls->config.multi, http, call_done, call, &err);
    if (rc < 0) {
        call_done(call, rc, NULL, &err);
    } else {
        call->handle = rc;
    }
}

static void post(struct calls *calls, enum call_kind kind, const char *path,
                 const struct record *record, const void *value,
                 const struct session_action *action)
{
    struct call *call = new_call(calls, kind, path);
    if (!call) {
        return;
    }
    struct err err = {0};
    const int rc = wire_write(record, value, &call->body, &err);
    if (rc != 0) {
        call_done(call, rc, NULL, &err);
        return;
    }
    const struct http_call http = {
        .method = "POST",
        .url = call->url,
        .tls = calls->config.tls,
        .content_type = "application/json",
        .body = {{call->body.data, call->body.size}},
        .reply = &call->reply,
        .connect_timeout_ms = action->connect_ms,
        .timeout_ms = action->timeout_ms,
    };
    start_call(call, &http);
}

void calls_enroll(struct calls *calls, const struct session_action *action,
                  const struct enroll_request *request)
{
    post(calls, CALL_ENROLL, "enroll", &enroll_request_record, request, action);
}

void calls_beat(struct calls *calls, const struct session_action *action,
                const struct heartbeat *heartbeat)
{
    post(calls, CALL_BEAT, "heartbeat", &heartbeat_record, heartbeat, action);
}

void calls_poll(struct calls *calls, const struct session_action *action,
                const struct device_id *device, const char *boot)
{
    char path[CALL_URL_MAX / 2];
    (void)snprintf(path, sizeof(path), "assignment?device=%s&boot=%s&after=%" PRId64 "&wait=%d",
                   device->text, boot, action->after, SESSION_WAIT_SECONDS);
    struct call *call = new_call(calls, CALL_POLL, path);
    if (call) {
        const struct http_call http = {.method = "GET",
                                       .url = call->url,
                                       .tls = calls->config.tls,
                                       .reply = &call->reply,
                                       .connect_timeout_ms = action->connect_ms,
                                       .timeout_ms = action->timeout_ms};
        start_call(call, &http);
    }
}
