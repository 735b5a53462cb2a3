#include "coordinator/turn/turn.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "coordinator/content/awaited.h"
#include "coordinator/coordinator.h"
#include "coordinator/content/export.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/replay.h"
#include "coordinator/turn/objects.h"
#include "coordinator/content/tuned.h"

#define OUTBOX_MAX 4096 /* replies held back for one commit; a full outbox commits early */
#define OUTBOX_BODY_KEPT_BYTES                                                                     \
    1024 /* heartbeats need no more; a burst of large replies does not stay */
#define LATE_MAX (2 * ACTIONS_MAX) /* beyond half of it the turn commits before the next event */

/* A reply that waits for the commit. */
struct outgoing {
    struct http_exchange *exchange; /* NULL: the client is gone */
    enum problem_code problem;      /* PROBLEM_NONE: body is the object */
    int status;
    int64_t revision;
    char text[MESSAGE_SIZE];
    struct buf body;
};

struct turn {
    struct coordinator *coordinator;
    struct actions actions;
    struct outgoing outbox[OUTBOX_MAX];
    size_t outbox_count;
    struct action late[LATE_MAX]; /* exports, kernels, deletions and public events of the turn */
    size_t late_count;
    size_t late_stored; /* public events among the first so many are rows of the open transaction */
    bool committing;
    bool held; /* the disk is full: the commit is tried again and again, and nobody learns anything
                  before */
    int code;  /* the first failure; from then on nothing is stored or answered, turn_commit reports
                  it */
    struct err err;
};

int turn_new(struct coordinator *coordinator, struct turn **out, struct err *err)
{
    /* Large and mostly untouched: pages are used as turns need them. */
    struct turn *turn = calloc(1, sizeof *turn);
    struct action *item = calloc(ACTIONS_MAX, sizeof *item);
    if (!turn || !item) {
        free(turn);
        free(item);
        return err_set(err, ERR_MEMORY, "turn: out of memory");
    }
    turn->coordinator = coordinator;
    turn->actions.item = item;
    *out = turn;
    return 0;
}

void turn_free(struct turn **pointer)
{
    struct turn *turn = *pointer;
    if (!turn) {
        return;
    }
    for (size_t index = 0; index < OUTBOX_MAX; index++) {
        buf_done(&turn->outbox[index].body);
    }
    free(turn->actions.item);
    free(turn);
    *pointer = NULL;
}

static void fail(struct turn *turn, int code, const struct err *err)
{
    if (code && !turn->code) {
        turn->code = code;
        turn->err = *err;
    }
}

/* Open the turn's transaction at the first row. */
static bool begin(struct turn *turn)
{
    struct state_store *state = turn->coordinator->state;
    struct err err = {0};
    if (!turn->code && !state_in_transaction(state)) {
        fail(turn, state_begin(state, &err), &err);
    }
    return !turn->code;
}

static void persist(struct turn *turn, const struct action *action)
{
    struct object_row name;
    object_describe(action->kind, action->object, &name);
    BUF_AUTO struct buf document;
    buf_init(&document, JSON_BODY_MAX);
    struct err err = {0};
    int code = object_write_row(action->kind, action->object, &document, &err);
    if (!code && begin(turn)) {
        struct state_row row = {name.id,         name.parent,   name.revision,
                                name.created_ms, document.data, document.size};
        code = state_put(turn->coordinator->state, object_facts(action->kind)->table, &row, &err);
    }
    if (!code && action->kind == OBJECT_INCIDENT) {
        code = incident_log_note(&turn->coordinator->incidents, action->object, &err);
    }
    fail(turn, code, &err);
}

static void forget(struct turn *turn, const struct action *action)
{
    struct err err = {0};
    struct state_store *state = turn->coordinator->state;
    if (!begin(turn)) {
        return;
    }
    if (action->kind == OBJECT_CENTER_UNIT) {
        char below[OBJECT_ROW_ID_SIZE];
        object_center_unit_id(below, action->id, action->version, -1);
        const char *limit = action->version == INT64_MAX ? NULL : below;
        fail(turn, state_delete_children(state, STATE_CENTER_UNITS, action->id, limit, &err), &err);
    } else {
        fail(turn, state_delete(state, object_facts(action->kind)->table, action->id, &err), &err);
    }
}

/* The answer of a repeated Idempotency-Key, in the transaction of the effect. */
static void remember_reply(struct turn *turn, const struct turn_extra *extra,
                           const struct outgoing *out)
{
    struct err err = {0};
    BUF_AUTO struct buf document;
    buf_init(&document, 3 * JSON_BODY_MAX);
    int64_t wall_ms = clock_wall_ms();
    char id[REPLAY_ROW_ID_SIZE];
    replay_row_id(id, wall_ms, extra->replay_key);
    int code = replay_write(&document, extra->request_sha256, out->status, out->revision,
                            &out->body, &err);
    if (!code && begin(turn)) {
        struct state_row row = {id, "", 1, wall_ms, document.data, document.size};
        code = state_put(turn->coordinator->state, STATE_REPLAYS, &row, &err);
        turn->coordinator->replays.count++;
    }
    fail(turn, code, &err);
}

static void client_gone(void *arg)
{
    struct outgoing *out = arg;
    out->exchange = NULL;
}

static void reply(struct turn *turn, const struct action *action, struct http_exchange *exchange,
                  const struct turn_extra *extra)
{
    ASSERT(exchange && turn->outbox_count < OUTBOX_MAX);
    struct outgoing *out = &turn->outbox[turn->outbox_count++];
    out->exchange = exchange;
    http_on_end(exchange, client_gone, out); /* a full disk may hold the answer for long */
    out->problem = PROBLEM_NONE;
    out->status = action->status;
    out->revision = 0;
    out->text[0] = '\0';
    if (!out->body.limit) {
        buf_init(&out->body, 2 * JSON_BODY_MAX);
    }
    buf_clear(&out->body);
    if (action->type == ACTION_PROBLEM) {
        out->problem = action->problem;
        memcpy(out->text, action->text, sizeof out->text);
        return;
    }
    if (action->kind != OBJECT_NOTHING) {
        struct err err = {0};
        if (object_write(action->kind, action->object, &out->body, &err)) {
            out->problem = PROBLEM_INTERNAL;
            snprintf(out->text, sizeof out->text, "%.*s", (int)sizeof out->text - 1, err.text);
            return;
        }
        if (object_facts(action->kind)->table != STATE_TABLES) {
            struct object_row name;
            object_describe(action->kind, action->object, &name);
            out->revision = name.revision;
        }
    }
    if (extra && extra->replay_key[0]) {
        remember_reply(turn, extra, out);
    }
}

static void metric(struct turn *turn, const struct action *action)
{
    struct err err = {0};
    const struct metric *value = &action->metric;
    int code = state_metric(turn->coordinator->state, action->id, value->step,
                            metric_name_names[value->name], value->value, &err);
    if (code) {
        log_warn("metric_dropped", "job=%s error=%s", action->id, log_quote(err.text).text);
    }
}

static void carry_out(struct turn *turn, const struct action *action,
                      struct http_exchange *exchange, const struct turn_extra *extra)
{
    switch (action->type) {
    case ACTION_PERSIST: persist(turn, action); return;
    case ACTION_FORGET: forget(turn, action); return;
    case ACTION_REPLY:
    case ACTION_PROBLEM: reply(turn, action, exchange, extra); return;
    case ACTION_METRIC: metric(turn, action); return;
    case ACTION_WAKE: parked_wake(turn->coordinator->parked, action->kind, action->id); return;
    case ACTION_EXPORT:
    case ACTION_TUNE:
    case ACTION_DELETE_BLOB:
    case ACTION_PUBLISH:
        ASSERT(turn->late_count < LATE_MAX);
        turn->late[turn->late_count++] = *action;
        return;
    }
}

/* What a job, a posted model or a data set names by its hash, before the row that names it. */
static void store_description(struct turn *turn, const struct turn_extra *extra)
{
    struct err err = {0};
    struct state_row row = {extra->description_sha256, "", 1, clock_wall_ms(), extra->description,
                            extra->description_size};
    if (begin(turn)) {
        fail(turn, state_put(turn->coordinator->state, STATE_DESCRIPTIONS, &row, &err), &err);
    }
}

static bool names_description(const struct action *action)
{
    return action->type == ACTION_PERSIST &&
           (action->kind == OBJECT_JOB || action->kind == OBJECT_MODEL ||
            action->kind == OBJECT_DATASET);
}

static void send_reply(struct outgoing *out)
{
    struct http_exchange *exchange = out->exchange;
    out->exchange = NULL;
    if (!exchange) {
        return;
    }
    http_on_end(exchange, NULL, NULL);
    if (out->problem != PROBLEM_NONE) {
        answer_core_problem(exchange, out->problem, out->text);
    } else {
        answer_object(exchange, out->status, out->revision, &out->body);
    }
}

static void send_outbox(struct turn *turn)
{
    for (size_t index = 0; index < turn->outbox_count; index++) {
        struct outgoing *out = &turn->outbox[index];
        send_reply(out);
        if (out->body.capacity > OUTBOX_BODY_KEPT_BYTES) {
            buf_done(&out->body);
        }
    }
    turn->outbox_count = 0;
}

/* Whether everything that an answer can tell is in the store: public events that wait for the
 * commit are rows too. */
static bool is_stored(const struct turn *turn)
{
    return !turn->code && turn->late_count == 0 && !state_in_transaction(turn->coordinator->state);
}

/* An early commit when the next event might not find room. */
static void make_room(struct turn *turn)
{
    if (turn->outbox_count < OUTBOX_MAX && turn->late_count <= LATE_MAX / 2) {
        return;
    }
    struct err err = {0};
    fail(turn, turn_commit(turn, &err), &err);
    if (turn->held && turn->late_count > LATE_MAX / 2) {
        fail(turn, err_set(&err, ERR_FULL, "the disk is full and too much waits for it"), &err);
    }
    turn->outbox_count = turn->code ? 0 : turn->outbox_count; /* nobody is answered any more */
    turn->late_count = turn->code ? 0 : turn->late_count;
}

void turn_event(struct turn *turn, struct event *event, struct http_exchange *exchange,
                const struct turn_extra *extra)
{
    struct coordinator *coordinator = turn->coordinator;
    make_room(turn);
    if (turn->held && exchange) {
        answer_held(exchange);
        return;
    }
    double start = clock_now_seconds();
    event->now_ms = clock_now_ms();
    event->wall_ms = clock_wall_ms();
    event->request = exchange ? 1 : 0;
    turn->actions.count = 0;
    core_step(coordinator->core, event, &turn->actions);
    bool stored = !extra || !extra->description;
    bool replied = false;
    for (size_t index = 0; index < turn->actions.count; index++) {
        const struct action *action = &turn->actions.item[index];
        if (!stored && names_description(action)) {
            stored = true;
            store_description(turn, extra);
        }
        replied = replied || action->type == ACTION_REPLY || action->type == ACTION_PROBLEM;
        carry_out(turn, action, exchange, extra);
    }
    ASSERT(replied || !exchange);
    if (exchange && is_stored(turn)) {
        send_outbox(turn);
    }
    double seconds = clock_now_seconds() - start;
    coordinator->statistics.events++;
    if (seconds > coordinator->statistics.turn_seconds_max) {
        coordinator->statistics.turn_seconds_max = seconds;
    }
}

/* Public events are rows too, so that a reader can resume after a restart. */
static void store_events(struct turn *turn)
{
    for (; turn->late_stored < turn->late_count; turn->late_stored++) {
        const struct action *action = &turn->late[turn->late_stored];
        if (action->type == ACTION_PUBLISH && begin(turn)) {
            struct err err = {0};
            fail(turn, event_stream_add(turn->coordinator->stream, action, &err), &err);
        }
    }
}

/* The end of an incident is logged with all its phases. */
static bool is_logged_elsewhere(const struct action *action)
{
    return strcmp(action->event, "incident_resolved") == 0 ||
           strcmp(action->event, "incident_abandoned") == 0;
}

/* Something went wrong and is survived; the other events are changes of state. */
static enum log_level level_of(const char *event)
{
    static const char *const warnings[] = {
        "device_suspect",    "device_disconnected", "device_lost", "device_shared", "job_stalled",
        "generation_failed", "incident_opened",     "job_failed",  "export_failed"};
    for (size_t index = 0; index < sizeof warnings / sizeof warnings[0]; index++) {
        if (strcmp(event, warnings[index]) == 0) {
            return LOG_LEVEL_WARN;
        }
    }
    return LOG_LEVEL_INFO;
}

/* The next start sweeps blobs that nothing refers to and exports what is whole in the center: a
 * coordinator that stops begins neither. */
static void send_late(struct turn *turn)
{
    struct coordinator *coordinator = turn->coordinator;
    for (size_t index = 0; index < turn->late_count; index++) {
        const struct action *action = &turn->late[index];
        struct err err = {0};
        if (action->type == ACTION_PUBLISH && is_logged_elsewhere(action)) {
            continue;
        }
        if (action->type == ACTION_PUBLISH) {
            log_event(level_of(action->event), action->event, "subject=%s message=%s", action->id,
                      log_quote(action->text).text);
        } else if (coordinator->stopping) {
            continue;
        } else if (action->type == ACTION_EXPORT) {
            fail(turn, export_start(coordinator, action->id, action->version, &err), &err);
        } else if (action->type == ACTION_TUNE) {
            fail(turn, tuned_start(coordinator, action->id, &err), &err);
        } else {
            awaited_delete(coordinator, action->sha256);
        }
    }
    turn->late_count = turn->late_stored = 0;
}

/* 0 too when the disk is full: then the transaction is held. */
static int commit_rows(struct turn *turn)
{
    struct err err = {0};
    int code = state_commit(turn->coordinator->state, &err);
    if (code == ERR_FULL && !turn->held) {
        log_error("commit_held", "error=%s", log_quote(err.text).text);
    } else if (!code && turn->held) {
        log_info("commit_made_up", "replies=%zu", turn->outbox_count);
    }
    turn->held = code == ERR_FULL;
    turn->coordinator->statistics.turns += code == 0;
    if (!turn->held) {
        fail(turn, code, &err);
    }
    return turn->code;
}

static int commit(struct turn *turn, struct err *err)
{
    struct coordinator *coordinator = turn->coordinator;
    store_events(turn);
    if (!turn->code && state_in_transaction(coordinator->state)) {
        (void)commit_rows(turn);
    }
    if (turn->code) {
        *err = turn->err;
        return turn->code;
    }
    if (turn->held) {
        return 0;
    }
    send_outbox(turn);
    incident_log_write(&coordinator->incidents);
    send_late(turn);
    event_stream_publish(coordinator->stream);
    parked_run(coordinator->parked, clock_now_ms());
    return 0;
}

int turn_commit(struct turn *turn, struct err *err)
{
    ASSERT(!turn->committing);
    turn->committing = true;
    int code = commit(turn, err);
    turn->committing = false;
    return code;
}

bool turn_held(const struct turn *turn)
{
    return turn->held;
}

bool turn_settle(struct turn *turn)
{
    struct err err = {0};
    if (turn->held) {
        return true;
    }
    bool open = turn->outbox_count > 0 || turn->late_count > 0 ||
                state_in_transaction(turn->coordinator->state);
    return !turn->code && (!open || turn_commit(turn, &err) == 0);
}
