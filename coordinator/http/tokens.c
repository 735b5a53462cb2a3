#include "coordinator/access/tokens.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "coordinator/http/access.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/audit.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/list.h"
#include "coordinator/http/replay.h"
#include "coordinator/http/routes.h"
#include "schema/wire.h"

static const char *const no_query[] = {NULL};

/* Return the token as answers show it, with its present state. */
static struct token shown(const struct token *token)
{
    struct token copy = *token;
    copy.state = (int)token_state_at(token, clock_wall_ms());
    return copy;
}

/* ---- reading ---- */

struct token_page {
    const struct tokens *tokens;
    struct list list;
    struct buf text;
};

static bool list_token(void *arg, const struct state_row *row)
{
    struct token_page *page = arg;
    const size_t place = tokens_find(page->tokens, row->id);
    if (place == TOKENS_NONE) { /* a row of an open transaction: reads settle it first */
        return true;
    }
    const struct token token = shown(tokens_at(page->tokens, place));
    buf_clear(&page->text);
    page->list.failed = wire_write(&token_record, &token, &page->text, &page->list.err) != 0;
    return !page->list.failed && list_text(&page->list, row->id, page->text.data, page->text.size);
}

void serve_tokens(void *context, struct http_exchange *exchange)
{
    static const struct list_form form = {.key = &token_id_form};
    struct coordinator *coordinator = context;
    struct token_page page = {.tokens = coordinator->edge->access.tokens};
    if (list_begin(exchange, &form, &page.list)) {
        buf_init(&page.text, JSON_BODY_MAX);
        list_rows(exchange, &page.list, coordinator->state, STATE_TOKENS, NULL, list_token, &page);
        buf_done(&page.text);
    }
}

static void answer_token(struct http_exchange *exchange, int status, const struct token *token)
{
    const struct token now = shown(token);
    BUF_AUTO struct buf body;
    buf_init(&body, JSON_BODY_MAX);
    struct err err = {0};
    if (wire_write(&token_record, &now, &body, &err)) {
        answer_err(exchange, &err);
    } else {
        answer_object(exchange, status, now.revision, &body);
    }
}

/* Return the place of the path's token; TOKENS_NONE: a problem was sent. */
static size_t named_token(const struct coordinator *coordinator, struct http_exchange *exchange)
{
    const char *id = http_param(exchange, "id");
    const size_t place = tokens_find(coordinator->edge->access.tokens, id);
    if (place == TOKENS_NONE) {
        answer_unknown(exchange, PROBLEM_UNKNOWN_TOKEN, id);
    }
    return place;
}

void serve_token(void *context, struct http_exchange *exchange)
{
    struct coordinator *coordinator = context;
    if (!answer_check_query(exchange, no_query)) {
        return;
    }
    const size_t place = named_token(coordinator, exchange);
    if (place != TOKENS_NONE) {
        answer_token(exchange, 200, tokens_at(coordinator->edge->access.tokens, place));
    }
}

void serve_own_token(void *context, struct http_exchange *exchange)
{
    if (!answer_check_query(exchange, no_query)) {
        return;
    }
    const struct token *token = access_token(context, exchange);
    if (token) {
        answer_token(exchange, 200, token);
    } else {
        answer_problem(exchange, PROBLEM_UNKNOWN_TOKEN,
                       "this coordinator needs no tokens; 'paceline-coordinator init' makes the "
                       "first one");
    }
}

/* ---- changing ---- */

static bool may_drop(void *arg, size_t place)
{
    return shares_idle(arg, place);
}

static int begin(struct coordinator *coordinator, struct err *err)
{
    return state_in_transaction(coordinator->state) ? 0 : state_begin(coordinator->state, err);
}

/* Store the audit row and the answer for the Idempotency-Key in the transaction of the change. */
static int note(struct coordinator *coordinator, const struct http_exchange *exchange,
                const struct turn_extra *extra, const struct record *record, const void *value,
                const struct token *token, int status, struct err *err)
{
    struct turn_reply reply = {.status = status, .revision = token->revision};
    buf_init(&reply.body, JSON_BODY_MAX);
    int rc = audit_add(coordinator, exchange, NULL, token->id, status, err);
    if (!rc && extra->replay_key[0]) {
        rc = wire_write(record, value, &reply.body, err);
        rc = rc ? rc : replay_store(coordinator, extra, &reply, err);
    }
    buf_done(&reply.body);
    return rc;
}

/* Commit; false: a problem was sent. */
static bool settle(struct coordinator *coordinator, struct http_exchange *exchange)
{
    if (!answer_settled(exchange, coordinator->turn)) {
        return false;
    }
    if (turn_held(coordinator->turn)) {
        answer_held(exchange);
    }
    return !turn_held(coordinator->turn);
}

/* A join token also names the authority by which a machine verifies this coordinator. */
static void write_secret(const struct coordinator *coordinator, const struct token *token,
                         const char *secret, char out[JOIN_TOKEN_SIZE])
{
    struct join_token text = {.ca_sha256 = ""};
    memcpy(text.secret, secret, sizeof(text.secret));
    if (token_role(token) == ROLE_JOIN) {
        memcpy(text.ca_sha256, coordinator->authority_sha256, sizeof(text.ca_sha256));
    }
    join_token_write(&text, out);
}

static int create(struct coordinator *coordinator, struct http_exchange *exchange,
                  const struct turn_extra *extra, const struct token_request *request,
                  struct token_created *out, struct err *err)
{
    struct edge_access *access = &coordinator->edge->access;
    struct token_created created = {0};
    char secret[TOKEN_TEXT_SIZE];
    size_t place;
    int rc = begin(coordinator, err);
    rc = rc ? rc
            : tokens_create(access->tokens, request, clock_wall_ms(), may_drop, access->shares,
                            &place, secret, err);
    if (rc) {
        return rc;
    }
    shares_reset(access->shares, place);
    created.token = shown(tokens_at(access->tokens, place));
    /* A repeated answer lacks the secret, because only its hash is stored. */
    rc = note(coordinator, exchange, extra, &token_created_record, &created, &created.token, 201,
              err);
    write_secret(coordinator, &created.token, secret, created.secret);
    *out = created;
    return rc;
}

static void answer_created(struct http_exchange *exchange, const struct token_created *created)
{
    BUF_AUTO struct buf body;
    buf_init(&body, JSON_BODY_MAX);
    struct err err = {0};
    if (wire_write(&token_created_record, created, &body, &err)) {
        answer_err(exchange, &err);
        return;
    }
    http_reply_header(exchange, "Cache-Control", "no-store");
    answer_object(exchange, 201, created->token.revision, &body);
}

/* Return whether the requested token may be created; false: a problem was sent. */
static bool may_create(struct coordinator *coordinator, struct http_exchange *exchange,
                       struct token_request *request)
{
    const struct tokens *tokens = coordinator->edge->access.tokens;
    struct record_faults faults = {0};
    struct err err = {0};
    if (!tokens_required(tokens)) {
        answer_problem(exchange, PROBLEM_WRONG_STATE,
                       "this coordinator needs no tokens; stop it and run 'paceline-coordinator "
                       "init', which makes the first one");
        return false;
    }
    if (token_request_settle(request, &faults, &err)) {
        answer_faults(exchange, &faults);
        return false;
    }
    if (request->device[0] && !core_device(coordinator->core, request->device)) {
        answer_unknown(exchange, PROBLEM_UNKNOWN_DEVICE, request->device);
        return false;
    }
    if (tokens_find_name(tokens, request->name, clock_wall_ms()) != TOKENS_NONE) {
        answer_problem(exchange, PROBLEM_NAME_TAKEN,
                       "an active token has the name '%s'; revoke it or take another name",
                       request->name);
        return false;
    }
    return true;
}

void serve_token_post(void *context, struct http_exchange *exchange)
{
    struct coordinator *coordinator = context;
    struct token_request request = {0};
    struct token_created created = {0};
    struct turn_extra extra = {0};
    struct err err = {0};
    if (!answer_check_query(exchange, no_query) || !replay_check(coordinator, exchange, &extra) ||
        !edge_takes_rows(coordinator, exchange) ||
        !answer_read_body(exchange, &token_request_record, false, &request) ||
        !may_create(coordinator, exchange, &request)) {
        return;
    }
    if (create(coordinator, exchange, &extra, &request, &created, &err)) {
        answer_upload_err(exchange, &err);
    } else if (settle(coordinator, exchange)) {
        answer_created(exchange, &created);
    }
}

/* Return whether the token may be revoked; false: a problem was sent. */
static bool is_revocable(const struct tokens *tokens, struct http_exchange *exchange,
                         const struct token *token, int64_t if_revision)
{
    const int64_t wall_ms = clock_wall_ms();
    if (if_revision > 0 && if_revision != token->revision) {
        answer_problem(exchange, PROBLEM_REVISION_MISMATCH, "token '%s' has revision %lld",
                       token->name, (long long)token->revision);
        return false;
    }
    if (token_role(token) == ROLE_ADMIN && token_state_at(token, wall_ms) == TOKEN_ACTIVE &&
        tokens_admins(tokens, wall_ms) == 1) {
        answer_problem(exchange, PROBLEM_WRONG_STATE,
                       "token '%s' is the last active one of role admin; create another first",
                       token->name);
        return false;
    }
    return true;
}

static int revoke(struct coordinator *coordinator, struct http_exchange *exchange,
                  const struct turn_extra *extra, size_t place, struct err *err)
{
    struct tokens *tokens = coordinator->edge->access.tokens;
    int rc = begin(coordinator, err);
    rc = rc ? rc : tokens_revoke(tokens, place, clock_wall_ms(), err);
    if (rc) {
        return rc;
    }
    const struct token token = shown(tokens_at(tokens, place));
    return note(coordinator, exchange, extra, &token_record, &token, &token, 202, err);
}

void serve_token_revoke(void *context, struct http_exchange *exchange)
{
    struct coordinator *coordinator = context;
    const struct tokens *tokens = coordinator->edge->access.tokens;
    struct turn_extra extra = {0};
    struct err err = {0};
    int64_t if_revision;
    if (!answer_check_query(exchange, no_query) || !answer_no_body(exchange) ||
        !answer_if_match(exchange, &if_revision) || !replay_check(coordinator, exchange, &extra)) {
        return;
    }
    const size_t place = named_token(coordinator, exchange);
    if (place == TOKENS_NONE ||
        !is_revocable(tokens, exchange, tokens_at(tokens, place), if_revision)) {
        return;
    }
    if (tokens_at(tokens, place)->revoked_ms) {
        answer_token(exchange, 202, tokens_at(tokens, place));
        return;
    }
    if (revoke(coordinator, exchange, &extra, place, &err)) {
        answer_err(exchange, &err);
        return;
    }
    access_break_off(coordinator, place, exchange);
    if (settle(coordinator, exchange)) {
        answer_token(exchange, 202, tokens_at(tokens, place));
    }
}
