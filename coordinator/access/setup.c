#include "coordinator/access/setup.h"

#include <stdio.h>

#include "base/clock.h"
#include "coordinator/access/tokens.h"
#include "coordinator/store/state.h"

static bool any_place(void *arg, size_t place)
{
    (void)arg;
    (void)place;
    return true;
}

static int make(struct tokens *tokens, const struct token_request *request, int64_t wall_ms,
                char secret[TOKEN_TEXT_SIZE], struct err *err)
{
    size_t place;
    return tokens_create(tokens, request, wall_ms, any_place, NULL, &place, secret, err);
}

static int make_in_transaction(struct tokens *tokens, char admin[TOKEN_TEXT_SIZE],
                               char join[TOKEN_TEXT_SIZE], struct err *err)
{
    const int64_t wall_ms = clock_wall_ms();
    struct token_request request = {.name = "admin", .role = TOKEN_ROLE(ROLE_ADMIN)};
    const struct token_request joins = {.role = TOKEN_ROLE(ROLE_JOIN),
                                        .expires_seconds = TOKEN_JOIN_SECONDS,
                                        .uses = SETUP_JOIN_USES};
    for (int i = 2; tokens_find_name(tokens, request.name, wall_ms) != TOKENS_NONE; i++) {
        (void)snprintf(request.name, sizeof(request.name), "admin-%d", i);
    }
    int rc = make(tokens, &request, wall_ms, admin, err);
    rc = rc || !join ? rc : make(tokens, &joins, wall_ms, join, err);
    return rc ? rc : tokens_require(tokens, wall_ms, err);
}

static int make_tokens(struct state_store *state, struct tokens *tokens,
                       char admin[TOKEN_TEXT_SIZE], char join[TOKEN_TEXT_SIZE], struct err *err)
{
    int rc = state_begin(state, err);
    if (rc) {
        return rc;
    }
    rc = make_in_transaction(tokens, admin, join, err);
    if (rc) {
        state_rollback(state);
        return rc;
    }
    return state_commit(state, err);
}

int access_make_tokens(const char *state_dir, char admin[TOKEN_TEXT_SIZE],
                       char join[TOKEN_TEXT_SIZE], struct err *err)
{
    AUTO(state_close) struct state_store *state = NULL;
    AUTO(tokens_free) struct tokens *tokens = NULL;
    int rc = state_open(state_dir, &state, err);
    rc = rc ? rc : tokens_new(state, &tokens, err);
    rc = rc ? rc : make_tokens(state, tokens, admin, join, err);
    return rc ? err_wrap(err, "--state-dir '%s'", state_dir) : 0;
}
