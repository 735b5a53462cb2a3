/* tokens.h: the table of bearer tokens: who a secret belongs to. Its rows are in state.db; the
 * caller owns the transaction around a put. The loop's thread only. */
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

/* Read the rows. state is borrowed. */
NODISCARD int tokens_new(struct state_store *state, struct tokens **out, struct err *err);
void tokens_free(struct tokens **tokens);
/* Whether requests need a token. It stays so when none is left. */
bool tokens_required(const struct tokens *tokens);

/* Tokens have places below TOKENS_MAX, which they keep. NULL: the place is free. */
const struct token *tokens_at(const struct tokens *tokens, size_t place);
/* The places of an id, of the active token of a name, of a secret; TOKENS_NONE. The time that a
 * secret takes says nothing about its bytes. */
size_t tokens_find(const struct tokens *tokens, const char *id);
size_t tokens_find_name(const struct tokens *tokens, const char *name, int64_t wall_ms);
size_t tokens_find_secret(const struct tokens *tokens, const char *secret);
/* The number of active tokens of role admin. */
size_t tokens_admins(const struct tokens *tokens, int64_t wall_ms);

/* Make a token, in the open transaction; the request is settled (token_request_settle) and its name
 * is free. *place is its place, secret gets its text. ERR_LIMIT: TOKENS_MAX are active, or in use
 * as may_drop says. Otherwise the token that ended first makes room. */
NODISCARD int tokens_create(struct tokens *tokens, const struct token_request *request,
                            int64_t wall_ms, bool (*may_drop)(void *arg, size_t place), void *arg,
                            size_t *place, char secret[TOKEN_TEXT_SIZE], struct err *err);
/* Count a use of a join token, or a job of a token with max_jobs, in the open transaction. One is
 * left. */
NODISCARD int tokens_spend(struct tokens *tokens, const char *id, int64_t wall_ms, struct err *err);
/* Revoke a token, in the open transaction. */
NODISCARD int tokens_revoke(struct tokens *tokens, size_t place, int64_t wall_ms, struct err *err);
/* Count bytes of an upload. They are written with the uses, at once. */
void tokens_add_bytes(struct tokens *tokens, size_t place, int64_t bytes);
/* Note a use. Whether it is to be written: not within a minute of the use that was written last. */
void tokens_use(struct tokens *tokens, size_t place, int64_t wall_ms);
bool tokens_used(const struct tokens *tokens);
/* Write the uses that wait, in the open transaction. */
NODISCARD int tokens_write_uses(struct tokens *tokens, struct err *err);
/* In the open transaction: from now on requests need a token. */
NODISCARD int tokens_require(struct tokens *tokens, int64_t wall_ms, struct err *err);

#endif
