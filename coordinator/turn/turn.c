#include "coordinator/turn/turn.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/pages.h"
#include "coordinator/core/core.h"
#include "coordinator/store/state.h"
#include "coordinator/turn/incident_log.h"
#include "coordinator/turn/measured_rows.h"
#include "coordinator/turn/objects.h"

#define OUTBOX_MAX 4096 /* replies held back for one commit; a full outbox commits early */
#define OUTBOX_BODY_KEPT_BYTES                                                                     \
    1024 /* heartbeats need no more; a burst of large replies does not stay */
#define LATE_MAX (2 * ACTIONS_MAX) /* beyond half of it the turn commits before the next event */

/* A reply that waits for the commit. */
struct outgoing {
    struct http_exchange *exchange; /* NULL: the client has disconnected */
    struct turn_reply reply;
};

struct turn {
    struct core *core;
    struct state_store *state;
    struct turn_effects effects;
    struct incident_log incidents;
    struct turn_statistics statistics;
    struct actions actions;
    struct outgoing outbox[OUTBOX_MAX];
    size_t outbox_count;
    struct action late[LATE_MAX]; /* exports, kernels, plans, deletions and public events */
    size_t late_count;
    size_t late_stored; /* public events before this index are rows of the open transaction */
    bool committing;
    bool held; /* the disk is full: the loop retries the commit, and until then nothing leaves */
    int code;  /* the first failure; from then on nothing is stored or answered, turn_commit reports
                  it */
    struct err err;
};

int turn_new(struct core *core, struct state_store *state, const struct turn_effects *effects,
             struct turn **out, struct err *err)
{
    struct turn *turn = pages_new(1, sizeof(*turn));
    struct action *item = pages_new(ACTIONS_MAX, sizeof(*item));
    if (!turn || !item) {
        pages_free(turn);
        pages_free(item);
        return err_set(err, ERR_MEMORY, "turn: out of memory");
    }
    turn->core = core;
    turn->state = state;
    turn->effects = *effects;
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
    for (size_t i = 0; i < OUTBOX_MAX; i++) {
        buf_done(&turn->outbox[i].reply.body);
    }
    incident_log_done(&turn->incidents);
    pages_free(turn->actions.item);
    pages_free(turn);
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
    struct state_store *state = turn->state;
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
    int rc = object_write_row(action->kind, action->object, &document, &err);
    if (!rc && begin(turn)) {
        struct state_row row = {name.id,         name.parent,   name.revision,
                                name.created_ms, document.data, document.size};
        rc = state_put(turn->state, object_facts(action->kind)->table, &row, &err);
    }
    if (!rc && action->kind == OBJECT_INCIDENT) {
        rc = incident_log_note(&turn->incidents, action->object, &err);
    }
    fail(turn, rc, &err);
    turn->effects.wake(turn->effects.context, action->kind, name.id);
}

static void forget(struct turn *turn, const struct action *action)
{
    struct err err = {0};
    struct state_store *state = turn->state;
    if (!begin(turn)) {
        return;
    }
    if (action->kind == OBJECT_CENTER_UNIT) {
        char below[OBJECT_ROW_ID_SIZE];
        object_center_unit_id(below, action->id, action->version, -1);
        const char *limit = action->version == INT64_MAX ? NULL : below;
        fail(turn, state_delete_children(state, STATE_CENTER_UNITS, action->id, limit, &err), &err);
        return;
    }
    if (action->kind == OBJECT_JOB) { /* the store deletes its plans, incidents and metrics */
        fail(turn, state_delete_children(state, STATE_CHECKPOINTS, action->id, NULL, &err), &err);
        fail(turn, state_delete_children(state, STATE_CENTER_UNITS, action->id, NULL, &err), &err);
    }
    fail(turn, state_delete(state, object_facts(action->kind)->table, action->id, &err), &err);
    turn->effects.wake(turn->effects.context, action->kind, action->id);
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
    struct turn_reply *answer = &out->reply;
    answer->problem = PROBLEM_NONE;
    answer->status = action->status;
    answer->revision = 0;
    answer->text[0] = '\0';
    if (!answer->body.limit) {
        buf_init(&answer->body, 2 * JSON_BODY_MAX);
    }
    buf_clear(&answer->body);
    struct err err = {0};
    if (action->type == ACTION_PROBLEM) {
        answer->problem = action->problem;
        memcpy(answer->text, action->text, sizeof(answer->text));
        return;
    }
    if (action->kind != OBJECT_NOTHING) {
        if (object_write_version(action->kind, action->protocol, action->object, &answer->body,
                                 &err)) {
            answer->problem = PROBLEM_INTERNAL;
            snprintf(answer->text, sizeof(answer->text), "%.*s", (int)sizeof(answer->text) - 1,
                     err.text);
            return;
        }
        if (object_facts(action->kind)->table != STATE_TABLES) {
            struct object_row name;
            object_describe(action->kind, action->object, &name);
            answer->revision = name.revision;
        }
    }
    if (extra && extra->replay_key[0] && begin(turn)) {
        fail(turn, turn->effects.remember(turn->effects.context, extra, answer, &err), &err);
    }
}

/* A request that changed something is noted beside the change. */
static void audit(struct turn *turn, const struct action *answer,
                  const struct http_exchange *exchange, const struct turn_extra *extra)
{
    struct object_row row;
    struct err err = {0};
    if ((!answer || answer->type == ACTION_REPLY) &&
        object_of_change(&turn->actions, answer, &row) && begin(turn)) {
        fail(turn,
             turn->effects.audit(turn->effects.context, exchange, extra, row.id,
                                 answer ? answer->status : 0, &err),
             &err);
    }
}

static void metric(struct turn *turn, const struct action *action)
{
    struct err err = {0};
    const struct metric *value = &action->metric;
    int rc = state_metric(turn->state, action->id, value->step, metric_name_names[value->name],
                          value->value, &err);
    if (rc) {
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
    case ACTION_MEASURED: measured_rows_put(turn->state, action->measured); return;
    case ACTION_CAPACITY: measured_rows_put_capacity(turn->state, action->capacity); return;
    case ACTION_WAKE: turn->effects.wake(turn->effects.context, action->kind, action->id); return;
    case ACTION_EXPORT:
    case ACTION_TUNE:
    case ACTION_DERIVE:
    case ACTION_HARVEST:
    case ACTION_PLAN:
    case ACTION_DELETE_BLOB:
    case ACTION_DELETE_CHECKPOINT:
    case ACTION_PUBLISH:
        ASSERT(turn->late_count < LATE_MAX);
        turn->late[turn->late_count++] = *action;
        return;
    }
}

/* Write the object that a job, a posted model or a data set names by its hash, before the row with
 * that name. */
static void store_text(struct turn *turn, const char *sha256, const char *text, size_t size)
{
    struct err err = {0};
    struct state_row row = {sha256, "", 1, clock_wall_ms(), text, size};
    if (begin(turn)) {
        fail(turn, state_put(turn->state, STATE_DESCRIPTIONS, &row, &err), &err);
    }
}

static void store_descriptions(struct turn *turn, const struct turn_extra *extra)
{
    if (extra->description) {
        store_text(turn, extra->description_sha256, extra->description, extra->description_size);
    }
    for (size_t i = 0; i < extra->part_count; i++) {
        store_text(turn, extra->parts[i].sha256, extra->parts[i].text, extra->parts[i].size);
    }
}

static bool names_description(const struct action *action)
{
    return action->type == ACTION_PERSIST &&
           (action->kind == OBJECT_JOB || action->kind == OBJECT_MODEL ||
            action->kind == OBJECT_DATASET);
}

static void send_outbox(struct turn *turn)
{
    for (size_t i = 0; i < turn->outbox_count; i++) {
        struct outgoing *out = &turn->outbox[i];
        struct http_exchange *exchange = out->exchange;
        out->exchange = NULL;
        if (exchange) {
            http_on_end(exchange, NULL, NULL);
            turn->effects.answer(turn->effects.context, exchange, &out->reply);
        }
        if (out->reply.body.capacity > OUTBOX_BODY_KEPT_BYTES) {
            buf_done(&out->reply.body);
        }
    }
    turn->outbox_count = 0;
}

/* Whether all state of an answer is in the store: public events that wait for the commit are rows
 * too. */
static bool is_stored(const struct turn *turn)
{
    return !turn->code && turn->late_count == 0 && !state_in_transaction(turn->state);
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
        fail(turn,
             err_set(&err, ERR_FULL, "the disk is full and too many changes wait for the commit"),
             &err);
    }
    turn->outbox_count = turn->code ? 0 : turn->outbox_count; /* no answer leaves after a failure */
    turn->late_count = turn->code ? 0 : turn->late_count;
}

void turn_event(struct turn *turn, struct event *event, struct http_exchange *exchange,
                const struct turn_extra *extra)
{
    make_room(turn);
    if (turn->held && exchange) {
        turn->effects.refuse(turn->effects.context, exchange);
        return;
    }
    double start = clock_now_seconds();
    event->now_ms = clock_now_ms();
    event->wall_ms = clock_wall_ms();
    event->request = exchange ? 1 : 0;
    turn->actions.count = 0;
    core_step(turn->core, event, &turn->actions);
    bool stored = !extra || (!extra->description && extra->part_count == 0);
    const struct action *answer = NULL;
    for (size_t i = 0; i < turn->actions.count; i++) {
        const struct action *action = &turn->actions.item[i];
        if (!stored && names_description(action)) {
            stored = true;
            store_descriptions(turn, extra);
        }
        answer = action->type == ACTION_REPLY || action->type == ACTION_PROBLEM ? action : answer;
        carry_out(turn, action, exchange, extra);
    }
    ASSERT(answer || !exchange);
    if (exchange || (extra && extra->origin)) {
        audit(turn, answer, exchange, extra);
    }
    if (exchange && is_stored(turn)) {
        send_outbox(turn);
    }
    double seconds = clock_now_seconds() - start;
    struct turn_statistics *statistics = &turn->statistics;
    statistics->events++;
    statistics->seconds_max = seconds > statistics->seconds_max ? seconds : statistics->seconds_max;
}

/* Public events are rows too, so that a reader can resume after a restart. */
static void store_events(struct turn *turn)
{
    for (; turn->late_stored < turn->late_count; turn->late_stored++) {
        const struct action *action = &turn->late[turn->late_stored];
        if (action->type == ACTION_PUBLISH && begin(turn)) {
            struct err err = {0};
            fail(turn, turn->effects.store_event(turn->effects.context, action, &err), &err);
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
    for (size_t i = 0; i < sizeof(warnings) / sizeof(warnings[0]); i++) {
        if (strcmp(event, warnings[i]) == 0) {
            return LOG_LEVEL_WARN;
        }
    }
    return LOG_LEVEL_INFO;
}

static void log_public_event(const struct action *action)
{
    if (!is_logged_elsewhere(action)) {
        log_event(level_of(action->event), action->event, "subject=%s message=%s", action->id,
                  log_quote(action->text).text);
    }
}

static void send_late(struct turn *turn)
{
    const struct turn_effects *effects = &turn->effects;
    for (size_t i = 0; i < turn->late_count; i++) {
        const struct action *action = &turn->late[i];
        struct err err = {0};
        int rc = 0;
        if (action->type == ACTION_PUBLISH) {
            log_public_event(action);
        } else if (action->type == ACTION_EXPORT) {
            rc = effects->export_model(effects->context, action->id, action->version, &err);
        } else if (action->type == ACTION_TUNE) {
            rc = effects->tune_kernels(effects->context, action->id, &err);
        } else if (action->type == ACTION_DERIVE) {
            rc = effects->derive(effects->context, action->id, &err);
        } else if (action->type == ACTION_HARVEST) {
            rc = effects->harvest(effects->context, action->id, &err);
        } else if (action->type == ACTION_PLAN) {
            effects->plan(effects->context, action->question);
        } else if (action->type == ACTION_DELETE_CHECKPOINT) {
            effects->delete_checkpoint(effects->context, action->sha256);
        } else {
            effects->delete_blob(effects->context, action->sha256);
        }
        fail(turn, rc, &err);
    }
    turn->late_count = turn->late_stored = 0;
}

/* 0 too when the disk is full: then the transaction is held. */
static int commit_rows(struct turn *turn)
{
    struct err err = {0};
    int rc = state_commit(turn->state, &err);
    if (rc == ERR_FULL && !turn->held) {
        log_error("commit_held", "error=%s", log_quote(err.text).text);
    } else if (!rc && turn->held) {
        log_info("commit_made_up", "replies=%zu", turn->outbox_count);
    }
    turn->held = rc == ERR_FULL;
    turn->statistics.commits += rc == 0;
    if (!turn->held) {
        fail(turn, rc, &err);
    }
    return turn->code;
}

static int commit(struct turn *turn, struct err *err)
{
    store_events(turn);
    if (!turn->code && state_in_transaction(turn->state)) {
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
    incident_log_write(&turn->incidents);
    send_late(turn);
    turn->effects.publish(turn->effects.context);
    return 0;
}

int turn_commit(struct turn *turn, struct err *err)
{
    ASSERT(!turn->committing);
    turn->committing = true;
    int rc = commit(turn, err);
    turn->committing = false;
    return rc;
}

const struct turn_statistics *turn_statistics(const struct turn *turn)
{
    return &turn->statistics;
}

const struct incident_log *turn_incidents(const struct turn *turn)
{
    return &turn->incidents;
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
    bool open = turn->outbox_count > 0 || turn->late_count > 0 || state_in_transaction(turn->state);
    return !turn->code && (!open || turn_commit(turn, &err) == 0);
}
