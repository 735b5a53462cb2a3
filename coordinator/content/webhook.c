#include "coordinator/content/webhook.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "coordinator/content/disk.h"
#include "coordinator/content/webhook_message.h"
#include "coordinator/content/work.h"
#include "coordinator/coordinator.h"
#include "net/http_client.h"
#include "schema/wire.h"

#define CURSOR_ROW "webhook_cursor"
#define ROWS_A_LOOK 256 /* of other events, so that the loop can do other work in between */
#define CALL_MS 10000
#define BODY_MAX 4096 /* a stored event has less */
#define REPLY_MAX ((size_t)64 << 10)

/* One call, on a worker between submit and done. */
struct call {
    struct work_job job; /* first */
    struct webhook *webhook;
    struct webhook_headers headers;
    int code;
    struct http_result result;
    struct err err;
};

struct webhook {
    struct coordinator *coordinator;
    const char *url;
    struct webhook_key key;
    char cursor[ID_SIZE]; /* events up to this one are settled; "": none was published yet */
    uint64_t seen;        /* published events at the last look that found no more */
    bool behind;          /* further rows wait for the next look */
    char id[ID_SIZE];     /* of the message under way; "": none */
    struct buf body;
    bool sending;
    int64_t next_ms; /* of the next attempt */
    struct call call;
    struct webhook_statistics statistics;
};

/* ---- the row ---- */

static bool read_cursor(void *arg, const struct state_row *row)
{
    struct webhook *webhook = arg;
    snprintf(webhook->cursor, sizeof(webhook->cursor), "%s", row->document);
    return false;
}

static bool read_newest(void *arg, const struct state_row *row)
{
    struct webhook *webhook = arg;
    snprintf(webhook->cursor, sizeof(webhook->cursor), "%s", row->id);
    return false;
}

/* On a full disk the row is not updated, and a restart repeats some messages. */
static void store_cursor(const struct webhook *webhook)
{
    const struct coordinator *coordinator = webhook->coordinator;
    struct state_store *state = coordinator->state;
    struct err err = {0};
    if (turn_held(coordinator->turn) || state_in_transaction(state) ||
        disk_check_rows(coordinator, &err)) {
        return;
    }
    const struct state_row row = {
        CURSOR_ROW, "", 1, clock_wall_ms(), webhook->cursor, strlen(webhook->cursor)};
    int rc = state_begin(state, &err);
    rc = rc ? rc : state_put(state, STATE_META, &row, &err);
    rc = rc ? rc : state_commit(state, &err);
    if (state_in_transaction(state)) {
        state_rollback(state);
    }
    if (rc) {
        log_warn("webhook_cursor_not_written", "error=%s", log_quote(err.text).text);
    }
}

/* The first start begins with the next event and records that in the row, so that a later start
 * does not skip an event that waits for its receiver. */
static int load_cursor(struct webhook *webhook, struct err *err)
{
    struct state_store *state = webhook->coordinator->state;
    int rc = state_get(state, STATE_META, CURSOR_ROW, read_cursor, webhook, err);
    if (rc == ERR_NOT_FOUND) {
        rc = state_list(state, STATE_EVENTS, NULL, "", 1, true, read_newest, webhook, err);
        if (!rc) {
            store_cursor(webhook);
        }
    }
    return rc;
}

/* ---- one message ---- */

static void settle(struct webhook *webhook)
{
    snprintf(webhook->cursor, sizeof(webhook->cursor), "%s", webhook->id);
    webhook->id[0] = '\0';
    webhook->statistics.attempts = 0;
    store_cursor(webhook);
}

static void run_call(struct work_job *job)
{
    struct call *call = (struct call *)job;
    const struct webhook *webhook = call->webhook;
    struct http_client *client AUTO(http_client_free) = NULL;
    BUF_AUTO struct buf reply;
    buf_init(&reply, REPLY_MAX);
    const struct http_call request = {
        .method = "POST",
        .url = webhook->url,
        .content_type = "application/json",
        .header = {call->headers.id, call->headers.timestamp, call->headers.signature},
        .body = {{webhook->body.data, webhook->body.size}},
        .reply = &reply,
        .timeout_ms = CALL_MS,
        .cancel = work_stop_flag(webhook->coordinator->work)};
    call->code = http_client_new(&client, &call->err);
    if (!call->code) {
        call->code = http_client_call(client, &request, &call->result, &call->err);
    }
    /* The answer's text is ignored. */
    call->code = call->code == ERR_LIMIT && call->result.status > 0 ? 0 : call->code;
}

/* The path and query of the URL may be secret, so the log gets only the error. */
static void describe(const struct webhook *webhook, char *out, size_t size)
{
    const struct call *call = &webhook->call;
    const char *at = call->code ? strstr(call->err.text, webhook->url) : NULL;
    const char *rest = at ? at + strlen(webhook->url) : NULL;
    if (!call->code) {
        snprintf(out, size, "the receiver answers %d", call->result.status);
    } else if (rest) {
        snprintf(out, size, "%s", rest + strspn(rest, ": "));
    } else {
        snprintf(out, size, "%s", call->err.text);
    }
}

static void judge(struct webhook *webhook)
{
    struct webhook_statistics *statistics = &webhook->statistics;
    const struct call *call = &webhook->call;
    const int status = call->code ? 0 : call->result.status;
    const int attempt = statistics->attempts;
    int64_t delay_ms;
    char why[ERR_TEXT_MAX];
    describe(webhook, why, sizeof(why));
    switch (webhook_judge(status, attempt, call->result.retry_after_ms, &delay_ms)) {
    case WEBHOOK_DELIVERED:
        statistics->delivered++;
        if (attempt > 1) {
            log_info("webhook_works", "id=%s attempts=%d", webhook->id, attempt);
        }
        settle(webhook);
        break;
    case WEBHOOK_AGAIN:
        statistics->failures++;
        webhook->next_ms = clock_now_ms() + delay_ms;
        if (attempt == 1) {
            log_warn("webhook_failed", "id=%s error=%s", webhook->id, log_quote(why).text);
        }
        break;
    case WEBHOOK_REFUSED:
    case WEBHOOK_GIVEN_UP:
        statistics->failures++;
        statistics->dropped++;
        log_error("webhook_dropped", "id=%s attempts=%d error=%s", webhook->id, attempt,
                  log_quote(why).text);
        settle(webhook);
        break;
    }
}

static void call_done(struct work_job *job)
{
    struct webhook *webhook = ((struct call *)job)->webhook;
    webhook->sending = false;
    /* A coordinator that stops sends the message again after its next start. */
    if (!job->cancelled && !webhook->coordinator->stopping) {
        judge(webhook);
    }
}

static void send_message(struct webhook *webhook, int64_t now_ms)
{
    struct call *call = &webhook->call;
    *call = (struct call){.job = {.run = run_call, .done = call_done}, .webhook = webhook};
    if (webhook_sign(&webhook->key, webhook->id, clock_wall_ms(), webhook->body.data,
                     webhook->body.size, &call->headers, &call->err)) {
        log_warn("webhook_failed", "id=%s error=%s", webhook->id, log_quote(call->err.text).text);
        webhook->next_ms = now_ms + 1000;
        return;
    }
    webhook->statistics.attempts++;
    webhook->sending = true;
    work_submit(webhook->coordinator->work, &call->job);
}

/* ---- finding messages ---- */

struct search {
    struct webhook *webhook;
    size_t rows;
    int64_t wall_ms;
};

/* Take the next wanted event; rows before it are settled. */
static bool look_at_row(void *arg, const struct state_row *row)
{
    struct search *search = arg;
    struct webhook *webhook = search->webhook;
    struct public_event event = {0};
    struct record_faults faults = {0};
    struct err err = {0};
    search->rows++;
    if (wire_read(&public_event_record, row->document, row->document_size, &event, &faults, &err)) {
        log_error("event_row_damaged", "id=%s error=%s", row->id, log_quote(err.text).text);
    } else if (webhook_wants(&event, search->wall_ms)) {
        buf_clear(&webhook->body);
        if (buf_append(&webhook->body, row->document, row->document_size, &err)) {
            log_error("webhook_dropped", "id=%s attempts=0 error=%s", row->id,
                      log_quote(err.text).text);
            webhook->statistics.dropped++;
        } else {
            snprintf(webhook->id, sizeof(webhook->id), "%s", row->id);
            return false;
        }
    }
    snprintf(webhook->cursor, sizeof(webhook->cursor), "%s", row->id);
    return true;
}

static void find(struct webhook *webhook, uint64_t events)
{
    struct search search = {.webhook = webhook, .wall_ms = clock_wall_ms()};
    struct err err = {0};
    if (state_list(webhook->coordinator->state, STATE_EVENTS, NULL, webhook->cursor, ROWS_A_LOOK,
                   false, look_at_row, &search, &err)) {
        log_error("webhook_failed", "id=none error=%s", log_quote(err.text).text);
        webhook->seen = events; /* the next event triggers a retry */
        webhook->behind = false;
        return;
    }
    webhook->behind = search.rows == ROWS_A_LOOK || webhook->id[0] != '\0';
    webhook->seen = events;
    if (search.rows == ROWS_A_LOOK && webhook->id[0] == '\0') {
        store_cursor(webhook);
    }
}

void webhook_look(struct webhook *webhook, uint64_t events, int64_t now_ms)
{
    if (!webhook || webhook->sending || webhook->coordinator->stopping ||
        now_ms < webhook->next_ms) {
        return;
    }
    if (webhook->id[0] == '\0' && (webhook->behind || webhook->seen != events)) {
        find(webhook, events);
    }
    if (webhook->id[0] != '\0') {
        send_message(webhook, now_ms);
    }
}

int64_t webhook_deadline_ms(const struct webhook *webhook)
{
    const bool waits = webhook && !webhook->sending && !webhook->coordinator->stopping &&
                       (webhook->id[0] != '\0' || webhook->behind);
    return waits ? webhook->next_ms : INT64_MAX;
}

const struct webhook_statistics *webhook_statistics(const struct webhook *webhook)
{
    return webhook ? &webhook->statistics : NULL;
}

/* ---- life ---- */

static int open_webhook(struct webhook *webhook, struct err *err)
{
    char secret[SECRET_SIZE];
    int rc = secret_read(webhook->coordinator->config->webhook_secret, secret, err);
    rc = rc ? rc : webhook_key_read(secret, &webhook->key, err);
    if (rc) {
        return err_wrap(err, "--webhook-secret");
    }
    return load_cursor(webhook, err);
}

int webhook_new(struct coordinator *coordinator, struct webhook **out, struct err *err)
{
    *out = NULL;
    if (coordinator->config->webhook[0] == '\0') {
        return 0;
    }
    struct webhook *webhook = calloc(1, sizeof(*webhook));
    if (!webhook) {
        return err_set(err, ERR_MEMORY, "webhook: out of memory");
    }
    webhook->coordinator = coordinator;
    webhook->url = coordinator->config->webhook;
    webhook->behind = true; /* events of an earlier life may wait */
    buf_init(&webhook->body, BODY_MAX);
    const int rc = open_webhook(webhook, err);
    if (rc) {
        webhook_free(&webhook);
        return rc;
    }
    *out = webhook;
    return 0;
}

void webhook_free(struct webhook **webhook)
{
    if (*webhook) {
        buf_done(&(*webhook)->body);
        free(*webhook);
        *webhook = NULL;
    }
}
