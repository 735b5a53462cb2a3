/* token.h: bearer tokens of the API and the roles that routes ask for. A token's secret is known to
 * its holder only: its row has the SHA-256. Plain structs; wire form by the records below. */
#ifndef SCHEMA_TOKEN_H
#define SCHEMA_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/limits.h"

/* Who may call a route. Tokens have the last four, in rising order: each may do all that those
 * before it may. */
enum role {
    ROLE_NONE, /* of no route */
    ROLE_OPEN, /* anybody */
    ROLE_DEVICE,
    ROLE_READ,
    ROLE_SUBMIT,
    ROLE_OPERATE,
    ROLE_ADMIN,
};
extern const char *const role_names[];
/* The names from ROLE_READ on. */
extern const char *const token_role_names[];

enum token_state { TOKEN_ACTIVE, TOKEN_EXPIRED, TOKEN_REVOKED };
extern const char *const token_state_names[];

struct token {
    char id[ID_SIZE];
    char name[NAME_SIZE];
    int role;  /* index of token_role_names */
    int state; /* enum token_state, as of the answer */
    char sha256[SHA256_SIZE];
    int64_t revision;
    int64_t created_ms, expires_ms, last_used_ms, revoked_ms; /* wall times; 0: never, not yet */
};
extern const struct record token_record;     /* as the API shows it */
extern const struct record token_row_record; /* with the hash, without the state */

/* Whether a token's role allows a route of role `needed`. */
bool role_allows(enum role had, enum role needed);
enum role token_role(const struct token *token);
enum token_state token_state_at(const struct token *token, int64_t wall_ms);

/* POST /v1/tokens */
struct token_request {
    char name[NAME_SIZE];
    int role;
    int64_t expires_seconds; /* 0: never */
};
extern const struct record token_request_record;

/* The answer to it. */
struct token_created {
    struct token token;
    char secret[TOKEN_TEXT_SIZE]; /* "" in a repeated answer */
};
extern const struct record token_created_record;

#define TOKEN_BYTES 32
/* "pl_" and the bytes in the URL-safe alphabet of base 64. */
void token_write(const uint8_t secret[TOKEN_BYTES], char out[TOKEN_TEXT_SIZE]);
/* Whether a text has the form of token_write. */
bool token_valid(const char *text);

#endif
