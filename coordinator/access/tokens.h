/* tokens.h: the table of bearer tokens, which finds the token of a secret. Its rows are in
 * state.db; the caller owns the transaction around a put. The loop's thread only. */
#ifndef COORDINATOR_ACCESS_TOKENS_H
#define COORDINATOR_ACCESS_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "schema/token.h"

struct state_store;
struct tokens;

#define TOKENS_NONE SIZE_MAX

/* Create the table from the rows. state is borrowed. */
NODISCARD int tokens_new(struct state_store *state, struct tokens **out, struct err *err);
void tokens_free(struct tokens **tokens);
/* Return whether requests need a token. This stays true when no token is left. */
bool tokens_required(const struct tokens *tokens);

/* Return the token at a place; NULL: the place is free. A token keeps its place, which is below
 * TOKENS_MAX. */
const struct token *tokens_at(const struct tokens *tokens, size_t place);
/* Return the place of the token with an id, of the active token with a name, of the token with a
 * secret; TOKENS_NONE: none. The time of a search for a secret reveals none of its bytes. */
size_t tokens_find(const struct tokens *tokens, const char *id);
size_t tokens_find_name(const struct tokens *tokens, const char *name, int64_t wall_ms);
size_t tokens_find_secret(const struct tokens *tokens, const char *secret);
/* Return the number of active tokens of role admin. */
size_t tokens_admins(const struct tokens *tokens, int64_t wall_ms);

/* Make a token, in the open transaction; the request is settled (token_request_settle) and its name
 * is free. *place is its place, secret gets its text. If the table is full, the new token replaces
 * the token that ended first and that may_drop allows to drop. ERR_LIMIT: all TOKENS_MAX tokens are
 * active or must stay by may_drop. */
NODISCARD int tokens_create(struct tokens *tokens, const struct token_request *request,
                            int64_t wall_ms, bool (*may_drop)(void *arg, size_t place), void *arg,
                            size_t *place, char secret[TOKEN_TEXT_SIZE], struct err *err);
/* Count a use of a join token, or a job of a token with max_jobs, in the open transaction. At least
 * one must be left. */
NODISCARD int tokens_spend(struct tokens *tokens, const char *id, int64_t wall_ms, struct err *err);
/* Revoke a token, in the open transaction. */
NODISCARD int tokens_revoke(struct tokens *tokens, size_t place, int64_t wall_ms, struct err *err);
/* Count bytes of an upload. tokens_used is true at once, and tokens_write_uses writes them. */
void tokens_add_bytes(struct tokens *tokens, size_t place, int64_t bytes);
/* Note a use of a token. It is not written within a minute of the last use that was written. */
void tokens_use(struct tokens *tokens, size_t place, int64_t wall_ms);
bool tokens_used(const struct tokens *tokens);
/* Write the waiting uses in the open transaction. */
NODISCARD int tokens_write_uses(struct tokens *tokens, struct err *err);
/* Require a token for requests from now on, in the open transaction. */
NODISCARD int tokens_require(struct tokens *tokens, int64_t wall_ms, struct err *err);

#endif
