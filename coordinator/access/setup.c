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

static int make_admin(struct state_store *state, struct tokens *tokens,
                      char secret[TOKEN_TEXT_SIZE], struct err *err)
{
    const int64_t wall_ms = clock_wall_ms();
    struct token_request request = {.name = "admin", .role = ROLE_ADMIN - ROLE_READ};
    for (int i = 2; tokens_find_name(tokens, request.name, wall_ms) != TOKENS_NONE; i++) {
        (void)snprintf(request.name, sizeof(request.name), "admin-%d", i);
    }
    char text[TOKEN_TEXT_SIZE];
    size_t place;
    int rc = state_begin(state, err);
    if (rc) {
        return rc;
    }
    rc = tokens_create(tokens, &request, wall_ms, any_place, NULL, &place, text, err);
    rc = rc ? rc : tokens_require(tokens, wall_ms, err);
    if (rc) {
        state_rollback(state);
        return rc;
    }
    rc = state_commit(state, err);
    if (!rc) {
        (void)snprintf(secret, TOKEN_TEXT_SIZE, "%s", text);
    }
    return rc;
}

int access_make_admin(const char *state_dir, char secret[TOKEN_TEXT_SIZE], struct err *err)
{
    AUTO(state_close) struct state_store *state = NULL;
    AUTO(tokens_free) struct tokens *tokens = NULL;
    int rc = state_open(state_dir, &state, err);
    rc = rc ? rc : tokens_new(state, &tokens, err);
    rc = rc ? rc : make_admin(state, tokens, secret, err);
    return rc ? err_wrap(err, "--state-dir '%s'", state_dir) : 0;
}
