#include "coordinator/access/tokens.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/store/state.h"
#include "net/hash.h"
#include "schema/id.h"
#include "schema/wire.h"

#define REQUIRED_ROW "tokens"  /* of meta */
#define USE_WRITTEN_MS 60000ll /* at most one row a minute and token */
#define ROW_BYTES_MAX 4096
#define ID_END 8 /* characters of an id that make a name */

struct entry {
    struct token token;    /* id "": free */
    int64_t used_ms;       /* the last use; the token has the last one that was written */
    int64_t written_bytes; /* its used_bytes as they were written */
};

struct tokens {
    struct state_store *state;
    struct entry entry[TOKENS_MAX];
    bool required;
    bool used; /* a use waits to be written */
    int code;  /* the first failure of reading */
    struct err err;
};

static bool is_there(const struct tokens *tokens, size_t place)
{
    return tokens->entry[place].token.id[0] != '\0';
}

static size_t free_place(const struct tokens *tokens)
{
    size_t place = 0;
    while (place < TOKENS_MAX && is_there(tokens, place)) {
        place++;
    }
    return place < TOKENS_MAX ? place : TOKENS_NONE;
}

static bool read_row(void *arg, const struct state_row *row)
{
    struct tokens *tokens = arg;
    const size_t place = free_place(tokens);
    struct record_faults faults = {0};
    struct token token = {0};
    if (place == TOKENS_NONE) {
        tokens->code = err_set(&tokens->err, ERR_LIMIT, "more than %d tokens", TOKENS_MAX);
        return false;
    }
    tokens->code = wire_read(&token_row_record, row->document, row->document_size, &token, &faults,
                             &tokens->err);
    if (tokens->code) {
        tokens->code = err_wrap(&tokens->err, "token '%s'", row->id);
        return false;
    }
    tokens->entry[place] = (struct entry){
        .token = token, .used_ms = token.last_used_ms, .written_bytes = token.used_bytes};
    return true;
}

static bool note_required(void *arg, const struct state_row *row)
{
    (void)row;
    struct tokens *tokens = arg;
    tokens->required = true;
    return false;
}

int tokens_new(struct state_store *state, struct tokens **out, struct err *err)
{
    AUTO(tokens_free) struct tokens *tokens = calloc(1, sizeof(*tokens));
    if (!tokens) {
        return err_set(err, ERR_MEMORY, "tokens: out of memory");
    }
    tokens->state = state;
    int rc = state_list(state, STATE_TOKENS, NULL, "", SIZE_MAX, false, read_row, tokens, err);
    if (!rc && tokens->code) {
        return err_set(err, tokens->code, "%s", tokens->err.text);
    }
    rc = rc ? rc : state_get(state, STATE_META, REQUIRED_ROW, note_required, tokens, err);
    if (rc && rc != ERR_NOT_FOUND) {
        return rc;
    }
    *out = tokens;
    tokens = NULL;
    return 0;
}

void tokens_free(struct tokens **tokens)
{
    free(*tokens);
    *tokens = NULL;
}

bool tokens_required(const struct tokens *tokens)
{
    return tokens->required;
}

const struct token *tokens_at(const struct tokens *tokens, size_t place)
{
    ASSERT(place < TOKENS_MAX);
    return is_there(tokens, place) ? &tokens->entry[place].token : NULL;
}

size_t tokens_find(const struct tokens *tokens, const char *id)
{
    for (size_t i = 0; i < TOKENS_MAX; i++) {
        if (is_there(tokens, i) && id_equal(tokens->entry[i].token.id, id)) {
            return i;
        }
    }
    return TOKENS_NONE;
}

size_t tokens_find_name(const struct tokens *tokens, const char *name, int64_t wall_ms)
{
    for (size_t i = 0; i < TOKENS_MAX; i++) {
        const struct token *token = &tokens->entry[i].token;
        if (is_there(tokens, i) && strcmp(token->name, name) == 0 &&
            token_state_at(token, wall_ms) == TOKEN_ACTIVE) {
            return i;
        }
    }
    return TOKENS_NONE;
}

/* Compare all hashes completely, so that the time reveals neither equal bytes nor the place of the
 * token. */
size_t tokens_find_secret(const struct tokens *tokens, const char *secret)
{
    char sha256[HASH_TEXT_SIZE];
    size_t found = TOKENS_NONE;
    sha256_text(secret, strlen(secret), sha256);
    for (size_t i = 0; i < TOKENS_MAX; i++) {
        const bool equal = id_secret_equal(tokens->entry[i].token.sha256, sha256);
        found = equal ? i : found;
    }
    return found;
}

size_t tokens_admins(const struct tokens *tokens, int64_t wall_ms)
{
    size_t count = 0;
    for (size_t i = 0; i < TOKENS_MAX; i++) {
        const struct token *token = &tokens->entry[i].token;
        count += is_there(tokens, i) && token_role(token) == ROLE_ADMIN &&
                 token_state_at(token, wall_ms) == TOKEN_ACTIVE;
    }
    return count;
}

static int put(struct tokens *tokens, const struct token *token, struct err *err)
{
    BUF_AUTO struct buf document;
    buf_init(&document, ROW_BYTES_MAX);
    int rc = wire_write(&token_row_record, token, &document, err);
    if (rc) {
        return rc;
    }
    const struct state_row row = {token->id,     "",           token->revision, token->created_ms,
                                  document.data, document.size};
    return state_put(tokens->state, STATE_TOKENS, &row, err);
}

/* When an ended token ended. */
static int64_t ended_ms(const struct token *token, int64_t wall_ms)
{
    return token->revoked_ms                                 ? token->revoked_ms
           : token_state_at(token, wall_ms) == TOKEN_USED_UP ? token->last_used_ms
                                                             : token->expires_ms;
}

/* Find a free place, else that of the token that ended first, and delete that token's row. */
static int make_room(struct tokens *tokens, int64_t wall_ms,
                     bool (*may_drop)(void *arg, size_t place), void *arg, size_t *out,
                     struct err *err)
{
    *out = free_place(tokens);
    if (*out != TOKENS_NONE) {
        return 0;
    }
    for (size_t i = 0; i < TOKENS_MAX; i++) {
        const struct token *token = &tokens->entry[i].token;
        if (token_state_at(token, wall_ms) != TOKEN_ACTIVE && may_drop(arg, i) &&
            (*out == TOKENS_NONE ||
             ended_ms(token, wall_ms) < ended_ms(&tokens->entry[*out].token, wall_ms))) {
            *out = i;
        }
    }
    if (*out == TOKENS_NONE) {
        return err_set(err, ERR_LIMIT, "there are %d active tokens, the limit: revoke one first",
                       TOKENS_MAX);
    }
    return state_delete(tokens->state, STATE_TOKENS, tokens->entry[*out].token.id, err);
}

/* Set the given name or, without one, the role and the end of the id. */
static void name_token(struct token *token, const char *given)
{
    const char *end = token->id + strlen(token->id) - ID_END;
    (void)snprintf(token->name, sizeof(token->name), "%s", given);
    if (given[0] == '\0') {
        (void)snprintf(token->name, sizeof(token->name), "%s-%s", token_role_names[token->role],
                       end);
        for (char *at = token->name; *at; at++) {
            *at = (char)tolower((unsigned char)*at);
        }
    }
}

int tokens_create(struct tokens *tokens, const struct token_request *request, int64_t wall_ms,
                  bool (*may_drop)(void *arg, size_t place), void *arg, size_t *out,
                  char secret[TOKEN_TEXT_SIZE], struct err *err)
{
    struct token token = {
        .role = request->role,
        .revision = 1,
        .created_ms = wall_ms,
        .expires_ms = request->expires_seconds ? wall_ms + request->expires_seconds * 1000 : 0,
        .max_bytes = request->max_bytes,
        .max_jobs = request->max_jobs,
        .uses_left = request->uses,
        .pending = request->pending};
    uint8_t bytes[TOKEN_BYTES];
    struct rng_block words;
    char text[TOKEN_TEXT_SIZE];
    size_t place;
    int rc = random_bytes(bytes, sizeof(bytes), err);
    rc = rc ? rc : random_bytes(&words, sizeof(words), err);
    rc = rc ? rc : make_room(tokens, wall_ms, may_drop, arg, &place, err);
    if (rc) {
        return rc;
    }
    memcpy(token.device, request->device, sizeof(token.device));
    id_make(token.id, "tok_", wall_ms, words);
    name_token(&token, request->name);
    token_write(bytes, text);
    sha256_text(text, strlen(text), token.sha256);
    rc = put(tokens, &token, err);
    if (rc) {
        return rc;
    }
    tokens->entry[place] = (struct entry){.token = token};
    memcpy(secret, text, sizeof(text));
    *out = place;
    return 0;
}

int tokens_spend(struct tokens *tokens, const char *id, int64_t wall_ms, struct err *err)
{
    const size_t place = tokens_find(tokens, id);
    ASSERT(place != TOKENS_NONE);
    struct token token = tokens->entry[place].token;
    if (token_role(&token) == ROLE_JOIN) {
        ASSERT(token.uses_left > 0);
        token.uses_left--;
    } else {
        ASSERT(token.used_jobs < token.max_jobs);
        token.used_jobs++;
    }
    token.last_used_ms = wall_ms;
    token.revision++;
    int rc = put(tokens, &token, err);
    if (!rc) {
        tokens->entry[place] =
            (struct entry){.token = token, .used_ms = wall_ms, .written_bytes = token.used_bytes};
    }
    return rc;
}

int tokens_revoke(struct tokens *tokens, size_t place, int64_t wall_ms, struct err *err)
{
    struct token token = tokens->entry[place].token;
    token.revoked_ms = wall_ms;
    token.revision++;
    int rc = put(tokens, &token, err);
    if (!rc) {
        tokens->entry[place].token = token;
    }
    return rc;
}

/* Whether a use waits to be written. After the clock was set back, no row is written until it
 * catches up. */
static bool is_due(const struct entry *entry)
{
    return entry->used_ms - entry->token.last_used_ms >= USE_WRITTEN_MS ||
           entry->token.used_bytes != entry->written_bytes;
}

void tokens_add_bytes(struct tokens *tokens, size_t place, int64_t bytes)
{
    tokens->entry[place].token.used_bytes += bytes;
    tokens->used = true;
}

void tokens_use(struct tokens *tokens, size_t place, int64_t wall_ms)
{
    struct entry *entry = &tokens->entry[place];
    entry->used_ms = wall_ms;
    tokens->used = tokens->used || is_due(entry);
}

bool tokens_used(const struct tokens *tokens)
{
    return tokens->used;
}

int tokens_write_uses(struct tokens *tokens, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < TOKENS_MAX; i++) {
        struct entry *entry = &tokens->entry[i];
        if (is_there(tokens, i) && is_due(entry)) {
            struct token token = entry->token;
            token.last_used_ms = entry->used_ms;
            rc = put(tokens, &token, err);
            if (!rc) {
                entry->token = token;
                entry->written_bytes = token.used_bytes;
            }
        }
    }
    tokens->used = rc != 0;
    return rc;
}

int tokens_require(struct tokens *tokens, int64_t wall_ms, struct err *err)
{
    static const char document[] = "required";
    const struct state_row row = {REQUIRED_ROW, "", 1, wall_ms, document, sizeof(document) - 1};
    int rc = state_put(tokens->state, STATE_META, &row, err);
    tokens->required = tokens->required || !rc;
    return rc;
}
