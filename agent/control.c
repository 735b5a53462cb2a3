#include "agent/control.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/session.h"
#include "agent/generation.h"
#include "agent/runtime/inventory.h"
#include "base/clock.h"
#include "base/log.h"
#include "schema/problem.h"
#include "schema/wire.h"

#define CALL_URL_MAX 512
#define CALL_TIMEOUT_MS 10000
#define REPLY_MAX (2 * JSON_BODY_MAX)

enum call_kind { CALL_ENROLL, CALL_BEAT, CALL_POLL };
#define CALL_KINDS 3
static const char *const call_names[] = {"enroll", "heartbeat", "assignment"};

/* One call under way; its memory lives until libcurl is done with it. */
struct call {
    struct control *control;
    enum call_kind kind;
    bool abandoned; /* replaced by a newer one */
    int handle;
    char url[CALL_URL_MAX];
    struct buf body, reply;
    struct call *next;
};

struct control {
    struct control_config config;
    struct session *session;
    struct call *calls;            /* all under way */
    struct call *call[CALL_KINDS]; /* the one of each kind that counts, or NULL */
    bool call_failing[CALL_KINDS]; /* said in the log */
    struct heartbeat *heartbeat;   /* too large for a stack */
    struct report_batch *batch;
    struct generation *generation; /* the present one, or one that has been given up and still ends */
    bool discarded;                /* it was given up */
    struct assignment *assignment; /* while its event is handled */
    uint64_t snapshot_revision;
    uint64_t metrics_lost;
    int phase; /* as logged */
    char exit_reason[MESSAGE_SIZE];
};

static void handle(struct control *control, struct session_event *event);

/* ---- calls ---- */

static void release_call(struct call *call)
{
    buf_done(&call->body);
    buf_done(&call->reply);
    free(call);
}

static void free_call(struct call *call)
{
    struct control *control = call->control;
    for (struct call **at = &control->calls; *at; at = &(*at)->next) {
        if (*at == call) {
            *at = call->next;
            break;
        }
    }
    if (control->call[call->kind] == call) {
        control->call[call->kind] = NULL;
    }
    release_call(call);
}

static void fail_event(enum call_kind kind, struct session_event *event)
{
    static const enum session_event_type types[] = {SESSION_ENROLL_FAILED, SESSION_BEAT_FAILED, SESSION_POLL_FAILED};
    memset(event, 0, sizeof(*event));
    event->type = types[kind];
}

/* Once when it begins to fail, once when it works again: not at each try. */
static void log_failing(struct control *control, enum call_kind kind, const char *why)
{
    if (!control->call_failing[kind]) {
        control->call_failing[kind] = true;
        log_warn("coordinator_call_failed", "call=%s error=%s", call_names[kind], log_quote(why).text);
    }
}

static void log_working(struct control *control, enum call_kind kind)
{
    if (control->call_failing[kind]) {
        control->call_failing[kind] = false;
        log_info("coordinator_call_works", "call=%s", call_names[kind]);
    }
}

/* What an answer other than 2xx means. */
static void judge(const struct call *call, const struct http_result *result, struct session_event *event)
{
    fail_event(call->kind, event);
    char message[MESSAGE_SIZE];
    const enum problem_code code = problem_read(call->reply.data ? call->reply.data : "", call->reply.size, message);
    (void)snprintf(event->failed.text, sizeof(event->failed.text), "the coordinator answers %d: %.200s", result->status,
                   message);
    event->failed.retry_after_ms = result->retry_after_ms;
    if (code == PROBLEM_UNKNOWN_DEVICE) {
        event->failed.failure = FAILURE_UNKNOWN;
    } else if (code == PROBLEM_STALE_BOOT) {
        event->failed.failure = FAILURE_STALE_BOOT;
    } else if (result->status == 429 || result->status >= 500) {
        event->failed.failure = FAILURE_NETWORK;
    } else {
        event->failed.failure = FAILURE_REFUSED;
    }
}

static int read_enrolled(struct control *control, const struct call *call, struct err *err)
{
    struct session_event event = {.type = SESSION_ENROLLED};
    int rc = wire_read(&enroll_reply_record, call->reply.data, call->reply.size, &event.enrolled, NULL, err);
    if (rc == 0) {
        control->config.device->id = event.enrolled.device;
        log_info("enrolled", "device=%s", event.enrolled.device.text);
        handle(control, &event);
    }
    return rc;
}

static int read_beaten(struct control *control, const struct call *call, struct err *err)
{
    struct heartbeat_reply reply = {0};
    int rc = wire_read(&heartbeat_reply_record, call->reply.data, call->reply.size, &reply, NULL, err);
    if (rc == 0) {
        struct session_event event = {.type = SESSION_BEATEN, .reply = &reply};
        handle(control, &event);
    }
    return rc;
}

static int read_assigned(struct control *control, const struct call *call, struct err *err)
{
    struct assignment *assignment = calloc(1, sizeof(*assignment));
    if (!assignment) {
        return err_set(err, ERR_MEMORY, "assignment");
    }
    assignment->run.job_spec = job_spec_default;
    int rc = wire_read(&assignment_record, call->reply.data, call->reply.size, assignment, NULL, err);
    rc = rc ? rc : assignment_check(assignment, err);
    if (rc != 0) {
        record_done(&assignment_record, assignment);
        free(assignment);
        return rc;
    }
    control->assignment = assignment;
    struct session_event event = {.type = SESSION_ASSIGNED, .assignment = assignment};
    handle(control, &event);
    if (control->assignment) {
        record_done(&assignment_record, control->assignment);
        free(control->assignment);
        control->assignment = NULL;
    }
    return 0;
}

static int read_answer(struct control *control, const struct call *call, const struct http_result *result,
                       struct err *err)
{
    if (call->kind == CALL_POLL && result->status != 200) {
        struct session_event event = {.type = SESSION_POLL_ENDED};
        handle(control, &event);
        return 0;
    }
    switch (call->kind) {
    case CALL_ENROLL: return read_enrolled(control, call, err);
    case CALL_BEAT: return read_beaten(control, call, err);
    case CALL_POLL: return read_assigned(control, call, err);
    }
    return 0;
}

static void call_done(void *arg, int code, const struct http_result *result, const struct err *why)
{
    struct call *call = arg;
    struct control *control = call->control;
    struct err err = {0};
    struct session_event event;
    if (call->abandoned) {
        free_call(call);
        return;
    }
    control->call[call->kind] = NULL;
    if (code == 0 && result->status >= 200 && result->status < 300) {
        if (read_answer(control, call, result, &err) == 0) {
            log_working(control, call->kind);
        } else {
            fail_event(call->kind, &event);
            (void)snprintf(event.failed.text, sizeof(event.failed.text), "the answer cannot be read: %.200s", err.text);
            log_failing(control, call->kind, event.failed.text);
            handle(control, &event);
        }
    } else {
        if (code == 0) {
            judge(call, result, &event);
        } else {
            fail_event(call->kind, &event);
            (void)snprintf(event.failed.text, sizeof(event.failed.text), "%.*s", MESSAGE_SIZE - 1, why->text);
        }
        log_failing(control, call->kind, event.failed.text);
        handle(control, &event);
    }
    free_call(call);
}

/* A new call of a kind, in place of the one under way. NULL when out of memory. */
static struct call *new_call(struct control *control, enum call_kind kind)
{
    struct call *old = control->call[kind];
    if (old) {
        old->abandoned = true;
        control->call[kind] = NULL;
        http_multi_cancel(control->config.multi, old->handle);
    }
    struct call *call = calloc(1, sizeof(*call));
    if (call) {
        call->control = control;
        call->kind = kind;
        call->next = control->calls;
        control->calls = call;
        control->call[kind] = call;
        buf_init(&call->body, JSON_BODY_MAX);
        buf_init(&call->reply, REPLY_MAX);
    }
    return call;
}

/* Send it; what cannot even be begun fails like a call. */
static void start_call(struct control *control, struct call *call, int code, struct err *err)
{
    static const int64_t timeouts_ms[] = {CALL_TIMEOUT_MS, CALL_TIMEOUT_MS,
                                          SESSION_WAIT_SECONDS * 1000 + CALL_TIMEOUT_MS};
    const struct http_call http = {
        .method = call->kind == CALL_POLL ? "GET" : "POST",
        .url = call->url,
        .content_type = call->kind == CALL_POLL ? NULL : "application/json",
        .body = {{call->body.data, call->body.size}},
        .reply = &call->reply,
        .timeout_ms = timeouts_ms[call->kind],
    };
    if (code == 0) {
        call->handle = http_multi_start(control->config.multi, &http, call_done, call, err);
        code = call->handle < 0 ? call->handle : 0;
    }
    if (code != 0) {
        call_done(call, code, NULL, err);
    }
}

static void no_memory(struct control *control, enum call_kind kind)
{
    struct session_event event;
    fail_event(kind, &event);
    log_failing(control, kind, "out of memory");
    handle(control, &event);
}

static void enroll(struct control *control)
{
    struct call *call = new_call(control, CALL_ENROLL);
    if (!call) {
        no_memory(control, CALL_ENROLL);
        return;
    }
    struct err err = {0};
    (void)snprintf(call->url, sizeof(call->url), "%s/v1/agent/enroll", control->config.device->coordinator);
    const int rc = wire_write(&enroll_request_record, &control->config.enroll, &call->body, &err);
    start_call(control, call, rc, &err);
}

static void beat(struct control *control)
{
    struct call *call = new_call(control, CALL_BEAT);
    if (!call) {
        no_memory(control, CALL_BEAT);
        return;
    }
    struct err err = {0};
    struct heartbeat *heartbeat = control->heartbeat;
    session_heartbeat(control->session, heartbeat);
    (void)snprintf(heartbeat->address, sizeof(heartbeat->address), "%s", control->config.enroll.address);
    heartbeat->resident_bytes = inventory_resident();
    if (control->generation && !control->discarded) {
        generation_measure(control->generation, heartbeat);
    }
    if (heartbeat->all_holdings) {
        heartbeat->holding_count = snapshot_list(control->config.device->snapshots, heartbeat->holding);
    }
    (void)snprintf(call->url, sizeof(call->url), "%s/v1/agent/heartbeat", control->config.device->coordinator);
    const int rc = wire_write(&heartbeat_record, heartbeat, &call->body, &err);
    start_call(control, call, rc, &err);
}

static void poll_assignment(struct control *control, int64_t after)
{
    struct call *call = new_call(control, CALL_POLL);
    if (!call) {
        no_memory(control, CALL_POLL);
        return;
    }
    struct err err = {0};
    (void)snprintf(call->url, sizeof(call->url), "%s/v1/agent/assignment?device=%s&boot=%s&after=%" PRId64 "&wait=%d",
                   control->config.device->coordinator, control->config.device->id.text, control->config.device->boot,
                   after, SESSION_WAIT_SECONDS);
    start_call(control, call, 0, &err);
}

/* ---- actions ---- */

static void prepare(struct control *control, int64_t serial)
{
    const struct assignment_run *run = &control->assignment->run;
    log_info("generation_prepares",
             "job=%s generation=%" PRId64 " stage=%" PRId64 " units=%" PRId64 "-%" PRId64 " version=%" PRId64,
             run->job.text, run->generation, run->stage_index, run->first, run->end - 1, run->resume_version);
    const struct generation_config config = {
        .device = control->config.device, .reports = control->config.reports, .serial = serial};
    struct err err = {0};
    int rc = generation_start(&config, &control->assignment, &control->generation, &control->generation, &err);
    control->discarded = false;
    if (rc != 0) {
        struct session_event event = {.type = SESSION_FAILED, .serial = serial};
        (void)snprintf(event.error.code, sizeof(event.error.code), rc == ERR_MEMORY ? "memory" : "internal");
        (void)snprintf(event.error.message, sizeof(event.error.message), "%.*s", MESSAGE_SIZE - 1, err.text);
        reports_event(control->config.reports, &event);
    }
}

static void discard(struct control *control)
{
    if (control->generation) {
        generation_cancel(control->generation);
        control->discarded = true;
    }
}

static void do_action(struct control *control, const struct session_action *action)
{
    struct generation *generation = control->discarded ? NULL : control->generation;
    switch (action->type) {
    case SESSION_DO_ENROLL: enroll(control); break;
    case SESSION_DO_BEAT: beat(control); break;
    case SESSION_DO_POLL: poll_assignment(control, action->after); break;
    case SESSION_DO_CALLERS: access_set_callers(control->config.device->access, control->assignment); break;
    case SESSION_DO_DROP: snapshot_drop(control->config.device->snapshots, &action->drop); break;
    case SESSION_DO_PREPARE: prepare(control, action->serial); break;
    case SESSION_DO_DISCARD: discard(control); break;
    case SESSION_DO_EXIT: (void)snprintf(control->exit_reason, sizeof(control->exit_reason), "%s", action->text); break;
    case SESSION_DO_RUN:
    case SESSION_DO_STOP:
    case SESSION_DO_HOLD:
    case SESSION_DO_RELEASE:
    case SESSION_DO_UPLOAD:
        if (!generation) {
            break; /* it could not be started: its error is on the way */
        }
        if (action->type == SESSION_DO_RUN) {
            generation_run(generation);
        } else if (action->type == SESSION_DO_STOP) {
            generation_stop(generation);
        } else if (action->type == SESSION_DO_UPLOAD) {
            generation_upload(generation, action->version);
        } else {
            generation_hold(generation, action->type == SESSION_DO_HOLD);
        }
        break;
    }
}

static void log_phase(struct control *control)
{
    const int phase = session_phase(control->session);
    if (phase != control->phase) {
        control->phase = phase;
        log_info("phase", "phase=%s", phase_names[phase]);
    }
    const uint64_t lost = session_metrics_lost(control->session);
    if (lost != control->metrics_lost) {
        log_warn("metrics_lost", "count=%" PRIu64 " reason=%s", lost - control->metrics_lost, "coordinator_away");
        control->metrics_lost = lost;
    }
}

static void handle(struct control *control, struct session_event *event)
{
    struct session_actions actions;
    actions.count = 0;
    event->now_ms = clock_now_ms();
    session_step(control->session, event, &actions);
    for (size_t i = 0; i < actions.count; i++) {
        do_action(control, &actions.item[i]);
    }
    log_phase(control);
}

/* ---- turns ---- */

static void take_reports(struct control *control)
{
    struct report_batch *batch = control->batch;
    reports_take(control->config.reports, batch);
    for (size_t i = 0; i < batch->metric_count; i++) {
        struct session_event event = {.type = SESSION_METRIC, .serial = batch->metric[i].serial};
        event.metric = batch->metric[i].metric;
        handle(control, &event);
    }
    for (size_t i = 0; i < batch->event_count; i++) {
        if (batch->event[i].type == SESSION_FAILED) {
            log_error("generation_failed", "code=%s error=%s", batch->event[i].error.code,
                      log_quote(batch->event[i].error.message).text);
        }
        handle(control, &batch->event[i]);
    }
    if (batch->lost > 0) {
        log_warn("metrics_lost", "count=%" PRIu64 " reason=%s", batch->lost, "too_fast");
    }
}

void control_start(struct control *control, int64_t now_ms)
{
    struct session_event event = {.type = SESSION_START, .now_ms = now_ms};
    handle(control, &event);
}

void control_turn(struct control *control, int64_t now_ms)
{
    const uint64_t revision = snapshot_revision(control->config.device->snapshots);
    if (revision != control->snapshot_revision) {
        control->snapshot_revision = revision;
        struct session_event event = {.type = SESSION_HOLDINGS_CHANGED};
        handle(control, &event);
    }
    take_reports(control);
    if (session_deadline_ms(control->session) <= now_ms) {
        struct session_event event = {.type = SESSION_TICK};
        handle(control, &event);
    }
    if (control->discarded && control->generation && generation_ended(control->generation)) {
        generation_free(&control->generation);
        control->discarded = false;
    }
}

int64_t control_deadline_ms(const struct control *control)
{
    return session_deadline_ms(control->session);
}

const char *control_exit_reason(const struct control *control)
{
    return control->exit_reason[0] ? control->exit_reason : NULL;
}

bool control_leave(struct control *control)
{
    discard(control);
    if (control->generation && !generation_ended(control->generation)) {
        return false;
    }
    generation_free(&control->generation);
    return true;
}

static int fill(struct control *control, struct err *err)
{
    struct session_config session = {.seed = (uint64_t)clock_wall_ms()};
    memcpy(session.boot, control->config.device->boot, sizeof(session.boot));
    control->heartbeat = calloc(1, sizeof(*control->heartbeat));
    control->batch = calloc(1, sizeof(*control->batch));
    if (!control->heartbeat || !control->batch) {
        return err_set(err, ERR_MEMORY, "control");
    }
    return session_new(&session, &control->session, err);
}

int control_new(const struct control_config *config, struct control **out, struct err *err)
{
    struct control *control = calloc(1, sizeof(*control));
    if (!control) {
        return err_set(err, ERR_MEMORY, "control");
    }
    control->config = *config;
    int rc = fill(control, err);
    if (rc != 0) {
        control_free(&control);
        return rc;
    }
    *out = control;
    return 0;
}

void control_free(struct control **control)
{
    struct control *dying = *control;
    if (!dying) {
        return;
    }
    generation_free(&dying->generation);
    for (struct call *call = dying->calls, *next; call; call = next) {
        next = call->next;
        release_call(call);
    }
    session_free(&dying->session);
    free(dying->heartbeat);
    free(dying->batch);
    free(dying);
    *control = NULL;
}
