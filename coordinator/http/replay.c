#include "coordinator/http/replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "coordinator/http/access.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"

#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define STATUS_AT SHA256_SIZE /* "<64 digits> <3 digits> <19 digits> " before the body */
#define REVISION_AT (STATUS_AT + 3 + 1)
#define BODY_AT (REVISION_AT + 19 + 1)

struct stored {
    int64_t now_ms;
    bool found;
    int64_t status, revision;
    char request_sha256[SHA256_SIZE];
    struct buf body;
    struct err err;
    int code;
};

void replay_row_id(char out[REPLAY_ROW_ID_SIZE], int64_t wall_ms, const char *key)
{
    snprintf(out, REPLAY_ROW_ID_SIZE, "%08" PRId64 "/%s", wall_ms / DAY_MS, key);
}

static int write_document(struct buf *out, const char *request_sha256,
                          const struct turn_reply *reply, struct err *err)
{
    int rc = buf_printf(out, err, "%s %03d %019" PRId64 " ", request_sha256, reply->status,
                        reply->revision);
    return rc || reply->body.size == 0 ? rc
                                       : buf_append(out, reply->body.data, reply->body.size, err);
}

int replay_store(struct coordinator *coordinator, const struct turn_extra *extra,
                 const struct turn_reply *reply, struct err *err)
{
    BUF_AUTO struct buf document;
    buf_init(&document, 3 * JSON_BODY_MAX);
    int64_t wall_ms = clock_wall_ms();
    char id[REPLAY_ROW_ID_SIZE];
    replay_row_id(id, wall_ms, extra->replay_key);
    int rc = write_document(&document, extra->request_sha256, reply, err);
    if (rc) {
        return rc;
    }
    struct state_row row = {id, "", 1, wall_ms, document.data, document.size};
    coordinator->edge->replays.count++;
    return state_put(coordinator->state, STATE_REPLAYS, &row, err);
}

static int read_number(const char *from, size_t size, int64_t *out, struct err *err)
{
    char digits[24] = "";
    memcpy(digits, from, size);
    return parse_i64(digits, 0, INT64_MAX, out, err);
}

static bool take_stored(void *arg, const struct state_row *row)
{
    struct stored *stored = arg;
    if (stored->now_ms - row->created_ms > DAY_MS) {
        return false;
    }
    stored->found = true;
    if (row->document_size < BODY_AT) {
        stored->code =
            err_set(&stored->err, ERR_IO, "the stored answer of '%s' is damaged", row->id);
        return false;
    }
    memcpy(stored->request_sha256, row->document, SHA256_SIZE - 1);
    stored->code = read_number(row->document + STATUS_AT, 3, &stored->status, &stored->err);
    if (!stored->code) {
        stored->code =
            read_number(row->document + REVISION_AT, 19, &stored->revision, &stored->err);
    }
    if (!stored->code) {
        stored->code = buf_append(&stored->body, row->document + BODY_AT,
                                  row->document_size - BODY_AT, &stored->err);
    }
    return false;
}

/* Find the answer to a key that was used today or yesterday. */
static int find_stored(struct coordinator *coordinator, const char *key, struct stored *stored)
{
    int rc = 0;
    stored->now_ms = clock_wall_ms();
    for (int64_t day = 0; !rc && !stored->found && day <= 1; day++) {
        char id[REPLAY_ROW_ID_SIZE];
        replay_row_id(id, stored->now_ms - day * DAY_MS, key);
        rc = state_get(coordinator->state, STATE_REPLAYS, id, take_stored, stored, &stored->err);
        rc = rc == ERR_NOT_FOUND ? 0 : rc;
    }
    return rc ? rc : stored->code;
}

/* Once a day, delete answers older than yesterday's and count the others. */
static int forget_old(struct coordinator *coordinator, struct err *err)
{
    struct replays *replays = &coordinator->edge->replays;
    const int64_t wall_ms = clock_wall_ms(), day = wall_ms / DAY_MS;
    if (replays->day == day) {
        return 0;
    }
    char oldest[REPLAY_ROW_ID_SIZE];
    replay_row_id(oldest, wall_ms - DAY_MS, "");
    int rc = state_in_transaction(coordinator->state) ? 0 : state_begin(coordinator->state, err);
    rc = rc ? rc : state_delete_children(coordinator->state, STATE_REPLAYS, "", oldest, err);
    rc = rc ? rc : state_count(coordinator->state, STATE_REPLAYS, &replays->count, err);
    replays->day = rc ? 0 : day;
    return rc;
}

/* Check that the answer to a new key can be kept for its time; false: a problem was sent. */
static bool can_keep(struct coordinator *coordinator, struct http_exchange *exchange)
{
    struct err err = {0};
    if (!edge_takes_rows(coordinator, exchange)) {
        return false;
    }
    if (forget_old(coordinator, &err)) {
        answer_err(exchange, &err);
        return false;
    }
    if (coordinator->edge->replays.count >= REPLAYS_MAX) {
        answer_problem(
            exchange, PROBLEM_TOO_MANY,
            "%d answers for an Idempotency-Key are stored, the limit; each is stored for "
            "a day: send this request without a key, or tomorrow",
            REPLAYS_MAX);
        return false;
    }
    return true;
}

static void hash_parameter(void *arg, const char *name, const char *value)
{
    sha256_update(arg, name, strlen(name) + 1);
    sha256_update(arg, value, strlen(value) + 1);
}

/* Two requests are equal if their method, path, parameters and body are equal. */
static int hash_request(const struct http_exchange *exchange, char out[SHA256_SIZE],
                        struct err *err)
{
    struct sha256 *hash = NULL;
    int rc = sha256_new(&hash, err);
    if (rc) {
        return rc;
    }
    sha256_update(hash, http_method(exchange), strlen(http_method(exchange)) + 1);
    sha256_update(hash, http_path(exchange), strlen(http_path(exchange)) + 1);
    http_each_query(exchange, hash_parameter, hash);
    size_t size;
    const char *body = http_body(exchange, &size);
    sha256_update(hash, body, size);
    sha256_finish_text(hash, out);
    sha256_free(&hash);
    return 0;
}

static void answer_stored(struct http_exchange *exchange, const struct turn_extra *extra,
                          struct stored *stored)
{
    if (strcmp(stored->request_sha256, extra->request_sha256) != 0) {
        answer_problem(exchange, PROBLEM_IDEMPOTENCY_MISMATCH,
                       "Idempotency-Key '%.60s' was used for another request; use a new key",
                       http_header(exchange, "Idempotency-Key"));
    } else {
        http_reply_header(exchange, "Idempotent-Replay", "true");
        answer_object(exchange, (int)stored->status, stored->revision, &stored->body);
    }
}

/* Keys are separate for each token, so that no token sees the answers to another one. */
static void note_key(const struct coordinator *coordinator, const struct http_exchange *exchange,
                     const char *key, struct turn_extra *extra)
{
    const struct token *token = access_token(coordinator, exchange);
    (void)snprintf(extra->replay_key, sizeof(extra->replay_key), "%s%s%s", token ? token->id : "",
                   token ? "/" : "", key);
}

bool replay_check(struct coordinator *coordinator, struct http_exchange *exchange,
                  struct turn_extra *extra)
{
    const char *key = http_header(exchange, "Idempotency-Key");
    extra->replay_key[0] = '\0';
    if (!key) {
        return true;
    }
    size_t length = strlen(key);
    if (length == 0 || length >= IDEMPOTENCY_KEY_SIZE) {
        answer_problem(exchange, PROBLEM_INVALID_PARAMETER, "Idempotency-Key: 1 to %zu characters",
                       (size_t)IDEMPOTENCY_KEY_SIZE - 1);
        return false;
    }
    if (!answer_settled(exchange, coordinator->turn)) {
        return false;
    }
    note_key(coordinator, exchange, key, extra);
    struct stored stored = {0};
    buf_init(&stored.body, 2 * JSON_BODY_MAX);
    int rc = hash_request(exchange, extra->request_sha256, &stored.err);
    if (!rc) {
        rc = find_stored(coordinator, extra->replay_key, &stored);
    }
    if (rc) {
        answer_err(exchange, &stored.err);
    } else if (stored.found) {
        answer_stored(exchange, extra, &stored);
    }
    buf_done(&stored.body);
    return !rc && !stored.found && can_keep(coordinator, exchange);
}
