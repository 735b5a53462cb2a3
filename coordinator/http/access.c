#include "coordinator/http/access.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"
#include "coordinator/access/tokens.h"
#include "coordinator/content/disk.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"

/* Refused attempts of an address: enough for a person or a script with a wrong token. */
#define REFUSALS_PER_SECOND 10
#define REFUSALS_BURST 500
/* A token may spend its requests of this many seconds at once. */
#define BURST_SECONDS 2
#define CALLER_STREAMS_MAX 256 /* a quarter of all readers of events */
#define CALLER_CHECKPOINTS_MAX 8
#define CALLER_DATASETS_MAX 32

/* A mark is the place of the caller's share, plus 1, and the kinds that it holds besides
 * SHARE_REQUESTS. */
#define MARK_PLACE UINT64_C(0xffffffff)
#define MARK_HOLDS(kind) (UINT64_C(1) << (32 + (kind)))
#define CHALLENGE "Bearer realm=\"paceline\""

int access_open(struct coordinator *coordinator, uint64_t seed, struct err *err)
{
    struct edge_access *access = &coordinator->edge->access;
    const size_t strangers = coordinator->connections_max - coordinator->connections_max / 4;
    const int64_t per_second = coordinator->config->requests_per_second;
    const struct shares_limits limits = {
        .requests = {.per_second = per_second, .burst = per_second * BURST_SECONDS},
        .refusals = {.per_second = REFUSALS_PER_SECOND, .burst = REFUSALS_BURST},
        .held = {[SHARE_REQUESTS] = strangers / 2,
                 [SHARE_STREAMS] = CALLER_STREAMS_MAX,
                 [SHARE_CHECKPOINTS] = CALLER_CHECKPOINTS_MAX,
                 [SHARE_DATASETS] = CALLER_DATASETS_MAX},
    };
    int rc = tokens_new(coordinator->state, &access->tokens, err);
    access->looked_ms = clock_wall_ms();
    return rc ? rc : shares_new(&limits, TOKENS_MAX, seed, &access->shares, err);
}

void access_close(struct edge *edge)
{
    tokens_free(&edge->access.tokens);
    shares_free(&edge->access.shares);
}

void access_log_mode(const struct coordinator *coordinator)
{
    if (tokens_required(coordinator->edge->access.tokens)) {
        log_info("access_by_token", "requests_per_second=%" PRId64,
                 coordinator->config->requests_per_second);
    } else {
        log_info("access_open", "message=\"no tokens: whoever reaches this address may do "
                                "everything\"");
    }
}

/* ---- refusals ---- */

static size_t share_of_address(struct coordinator *coordinator,
                               const struct http_exchange *exchange)
{
    struct address address;
    http_client_address(exchange, &address);
    return shares_of_address(coordinator->edge->access.shares,
                             address_client_key((const struct sockaddr *)&address.storage),
                             clock_now_ms());
}

static void answer_limited(struct coordinator *coordinator, struct http_exchange *exchange,
                           const char *text)
{
    coordinator->edge->access.limited++;
    answer_problem(exchange, PROBLEM_TOO_MANY, "%s", text);
}

/* Answer unauthorized, or too_many to an address with too many attempts. */
static bool refuse(struct coordinator *coordinator, struct http_exchange *exchange,
                   const char *challenge, const char *text)
{
    struct edge_access *access = &coordinator->edge->access;
    const size_t place = share_of_address(coordinator, exchange);
    if (!shares_spend_refusal(access->shares, place, clock_now_ms())) {
        answer_limited(coordinator, exchange,
                       "too many requests without a valid token from this address");
        return false;
    }
    access->unauthorized++;
    http_reply_header(exchange, "WWW-Authenticate", challenge);
    answer_problem(exchange, PROBLEM_UNAUTHORIZED, "%s", text);
    return false;
}

static bool refuse_token(struct coordinator *coordinator, struct http_exchange *exchange,
                         const char *text)
{
    return refuse(coordinator, exchange, CHALLENGE ", error=\"invalid_token\"", text);
}

static bool refuse_role(struct coordinator *coordinator, struct http_exchange *exchange,
                        const struct token *token, enum role role)
{
    const char *needed = role_names[role];
    char challenge[128];
    (void)snprintf(challenge, sizeof(challenge),
                   CHALLENGE ", error=\"insufficient_scope\", scope=\"%s\"", needed);
    coordinator->edge->access.forbidden++;
    http_reply_header(exchange, "WWW-Authenticate", challenge);
    answer_problem(exchange, PROBLEM_FORBIDDEN,
                   "token '%s' has the role '%s'; this route needs '%s'", token->name,
                   token_role_names[token->role], needed);
    return false;
}

/* ---- admission ---- */

/* Charge the request; false: it was answered. */
static bool charge(struct coordinator *coordinator, struct http_exchange *exchange, size_t place)
{
    struct shares *shares = coordinator->edge->access.shares;
    if (!shares_spend(shares, place, clock_now_ms())) {
        answer_limited(coordinator, exchange, "too many requests a second from this caller");
        return false;
    }
    if (!shares_take(shares, place, SHARE_REQUESTS)) {
        answer_limited(coordinator, exchange, "too many open requests of this caller");
        return false;
    }
    http_set_mark(exchange, place + 1);
    return true;
}

/* The text after "Bearer " in any case; NULL: another scheme. */
static const char *bearer_of(const char *header)
{
    static const char scheme[] = "bearer ";
    const size_t size = sizeof(scheme) - 1;
    return strncasecmp(header, scheme, size) == 0 ? header + size + strspn(header + size, " ")
                                                  : NULL;
}

/* Return the place of a token in any state; TOKENS_NONE: unknown. */
static size_t find_token(const struct coordinator *coordinator, const char *text)
{
    struct join_token read;
    return text && join_token_read(text, &read)
               ? tokens_find_secret(coordinator->edge->access.tokens, read.secret)
               : TOKENS_NONE;
}

/* Check that the token at the place is active; false: a problem was sent, `unknown` if there is no
 * token. The holder of a token that is no longer accepted may know the reason. */
static bool check_active(struct coordinator *coordinator, struct http_exchange *exchange,
                         size_t place, const char *unknown)
{
    static const char *const ends[] = {[TOKEN_ACTIVE] = "",
                                       [TOKEN_EXPIRED] = "has expired",
                                       [TOKEN_REVOKED] = "was revoked",
                                       [TOKEN_USED_UP] = "has no uses left"};
    if (place == TOKENS_NONE) {
        return refuse_token(coordinator, exchange, unknown);
    }
    const struct token *token = tokens_at(coordinator->edge->access.tokens, place);
    const enum token_state state = token_state_at(token, clock_wall_ms());
    if (state != TOKEN_ACTIVE) {
        char why[128];
        (void)snprintf(why, sizeof(why), "token '%s' %s", token->name, ends[state]);
        return refuse_token(coordinator, exchange, why);
    }
    return true;
}

/* Admit a request with a token. */
static bool admit_token(struct coordinator *coordinator, struct http_exchange *exchange,
                        const char *secret)
{
    struct tokens *tokens = coordinator->edge->access.tokens;
    const size_t place = find_token(coordinator, secret);
    if (!check_active(coordinator, exchange, place,
                      "the Authorization header has no token of this coordinator; it takes "
                      "'Bearer TOKEN'")) {
        return false;
    }
    const struct token *token = tokens_at(tokens, place);
    if (token_role(token) != ROLE_JOIN) { /* its uses are devices */
        tokens_use(tokens, place, clock_wall_ms());
    }
    if (!charge(coordinator, exchange, place)) {
        return false;
    }
    return role_allows(token_role(token), http_role(exchange)) ||
           refuse_role(coordinator, exchange, token, (enum role)http_role(exchange));
}

bool access_admit(struct coordinator *coordinator, struct http_exchange *exchange)
{
    const int role = http_role(exchange);
    /* An agent proves its identity to the handler: by its boot, its tickets, with TLS its key, and
     * when it joins, by a token. */
    if (role == ROLE_DEVICE || !tokens_required(coordinator->edge->access.tokens)) {
        return true;
    }
    if (role == ROLE_OPEN || role == ROLE_NONE) { /* none: not_found or method_not_allowed */
        return charge(coordinator, exchange, share_of_address(coordinator, exchange));
    }
    const char *header = http_header(exchange, "Authorization");
    return header ? admit_token(coordinator, exchange, bearer_of(header))
                  : refuse(coordinator, exchange, CHALLENGE,
                           "this route needs a token: send 'Authorization: Bearer TOKEN'");
}

/* The same of a token for joining. */
static bool check_joins(struct coordinator *coordinator, struct http_exchange *exchange,
                        const char *text, size_t place)
{
    if (text[0] == '\0') {
        return refuse(coordinator, exchange, CHALLENGE,
                      "a machine needs a token to join; 'paceline token create --join' makes one");
    }
    if (!check_active(coordinator, exchange, place,
                      "the token is not one of this coordinator; 'paceline token create --join' "
                      "makes one")) {
        return false;
    }
    const struct token *token = tokens_at(coordinator->edge->access.tokens, place);
    return token_role(token) == ROLE_JOIN || refuse_role(coordinator, exchange, token, ROLE_JOIN);
}

bool access_admit_join(struct coordinator *coordinator, struct http_exchange *exchange,
                       const char *text, bool joined, const struct token **token)
{
    const struct tokens *tokens = coordinator->edge->access.tokens;
    const size_t place = find_token(coordinator, text);
    *token = NULL;
    if (!tokens_required(tokens)) {
        return true;
    }
    if (!joined && !check_joins(coordinator, exchange, text, place)) {
        return false;
    }
    const struct token *found = place == TOKENS_NONE ? NULL : tokens_at(tokens, place);
    if (found && token_role(found) == ROLE_JOIN &&
        token_state_at(found, clock_wall_ms()) == TOKEN_ACTIVE) {
        *token = found;
    }
    return true;
}

bool access_admit_stranger(struct coordinator *coordinator, struct http_exchange *exchange,
                           const char *name)
{
    char text[256];
    if (!tokens_required(coordinator->edge->access.tokens)) {
        return true;
    }
    (void)snprintf(text, sizeof(text),
                   "device '%s' has not joined: run 'paceline-agent join URL TOKEN' on it; "
                   "'paceline token create --join' makes TOKEN",
                   name);
    return refuse(coordinator, exchange, CHALLENGE, text);
}

void access_end(struct coordinator *coordinator, const struct http_exchange *exchange)
{
    struct shares *shares = coordinator->edge->access.shares;
    const uint64_t mark = http_mark(exchange);
    if (!mark) {
        return;
    }
    const size_t place = (size_t)(mark & MARK_PLACE) - 1;
    shares_give_back(shares, place, SHARE_REQUESTS);
    for (int kind = SHARE_REQUESTS + 1; kind < SHARE_KINDS; kind++) {
        if (mark & MARK_HOLDS(kind)) {
            shares_give_back(shares, place, (enum share_kind)kind);
        }
    }
}

bool access_take(struct coordinator *coordinator, struct http_exchange *exchange,
                 enum share_kind kind)
{
    const uint64_t mark = http_mark(exchange);
    if (mark &&
        !shares_take(coordinator->edge->access.shares, (size_t)(mark & MARK_PLACE) - 1, kind)) {
        answer_limited(coordinator, exchange,
                       kind == SHARE_STREAMS ? "too many open event streams of this caller"
                                             : "too many uploads at once of this caller");
        return false;
    }
    http_set_mark(exchange, mark ? mark | MARK_HOLDS(kind) : 0);
    return true;
}

const struct token *access_token(const struct coordinator *coordinator,
                                 const struct http_exchange *exchange)
{
    const uint64_t place = http_mark(exchange) & MARK_PLACE;
    return place > 0 && place <= TOKENS_MAX
               ? tokens_at(coordinator->edge->access.tokens, (size_t)place - 1)
               : NULL;
}

/* ---- quotas ---- */

static bool refuse_bytes(struct http_exchange *exchange, const struct token *token)
{
    answer_problem(exchange, PROBLEM_QUOTA_EXCEEDED,
                   "token '%s' has uploaded %" PRId64 " of the %" PRId64
                   " bytes that it may (max_bytes); an admin makes another token",
                   token->name, token->used_bytes, token->max_bytes);
    return false;
}

bool access_check_bytes(struct coordinator *coordinator, struct http_exchange *exchange)
{
    const struct token *token = access_token(coordinator, exchange);
    const int64_t length = http_content_length(exchange);
    if (!token || !token->max_bytes) {
        return true;
    }
    const int64_t left = token->max_bytes - token->used_bytes;
    return (left > 0 && length <= left) || refuse_bytes(exchange, token);
}

bool access_spend_bytes(struct coordinator *coordinator, struct http_exchange *exchange,
                        size_t bytes)
{
    const struct token *token = access_token(coordinator, exchange);
    coordinator->edge->bytes_received += bytes;
    if (!token || !token->max_bytes) {
        return true;
    }
    if (bytes > (uint64_t)(token->max_bytes - token->used_bytes)) {
        return refuse_bytes(exchange, token);
    }
    tokens_add_bytes(coordinator->edge->access.tokens,
                     (size_t)(http_mark(exchange) & MARK_PLACE) - 1, (int64_t)bytes);
    return true;
}

bool access_spend_job(struct coordinator *coordinator, struct http_exchange *exchange,
                      struct turn_extra *extra)
{
    const struct token *token = access_token(coordinator, exchange);
    if (!token || !token->max_jobs) {
        return true;
    }
    if (token->used_jobs >= token->max_jobs) {
        answer_problem(exchange, PROBLEM_QUOTA_EXCEEDED,
                       "token '%s' has submitted the %" PRId64
                       " jobs that it may (max_jobs); an admin makes another token",
                       token->name, token->max_jobs);
        return false;
    }
    memcpy(extra->spent_token, token->id, sizeof(extra->spent_token));
    return true;
}

void access_break_off(struct coordinator *coordinator, size_t place,
                      const struct http_exchange *except)
{
    http_break_off_marked(coordinator->server, place + 1, MARK_PLACE, except);
}

/* ---- every second ---- */

static void end_expired(struct coordinator *coordinator)
{
    struct edge_access *access = &coordinator->edge->access;
    const int64_t now_ms = clock_wall_ms();
    for (size_t place = 0; place < TOKENS_MAX; place++) {
        const struct token *token = tokens_at(access->tokens, place);
        if (token && token_state_at(token, access->looked_ms) == TOKEN_ACTIVE &&
            token_state_at(token, now_ms) != TOKEN_ACTIVE) {
            access_break_off(coordinator, place, NULL);
        }
    }
    access->looked_ms = now_ms;
}

static void write_uses(struct coordinator *coordinator)
{
    struct tokens *tokens = coordinator->edge->access.tokens;
    struct state_store *state = coordinator->state;
    struct err err = {0};
    if (!tokens_used(tokens) || turn_held(coordinator->turn) || state_in_transaction(state) ||
        disk_check_rows(coordinator, &err)) {
        return;
    }
    int rc = state_begin(state, &err);
    rc = rc ? rc : tokens_write_uses(tokens, &err);
    rc = rc ? rc : state_commit(state, &err);
    if (state_in_transaction(state)) {
        state_rollback(state);
    }
    if (rc) {
        log_warn("token_uses_not_written", "error=%s", log_quote(err.text).text);
    }
}

/* One line for a series of refusals. */
static void log_refusals(struct edge_access *access)
{
    const uint64_t refused = access->unauthorized + access->forbidden + access->limited;
    const bool refusing = refused > access->logged;
    if (refusing && !access->refusing) {
        log_warn("access_refused",
                 "unauthorized=%" PRIu64 " forbidden=%" PRIu64 " limited=%" PRIu64,
                 access->unauthorized, access->forbidden, access->limited);
    }
    access->refusing = refusing;
    access->logged = refused;
}

void access_look(struct coordinator *coordinator)
{
    end_expired(coordinator);
    write_uses(coordinator);
    log_refusals(&coordinator->edge->access);
}
