/* token.h: bearer tokens of the API and the roles that routes ask for. A token's secret is known to
 * its holder only: its row has the SHA-256. A join token, of role join, lets devices join instead
 * of calling routes. Plain structs; wire form by the records below. */
#ifndef SCHEMA_TOKEN_H
#define SCHEMA_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/limits.h"

/* Who may call a route. Tokens have one of the last five roles. The last four rise: each includes
 * the rights of the preceding ones. A token of role join may call no route. */
enum role {
    ROLE_NONE, /* not the role of any route */
    ROLE_OPEN, /* anybody */
    ROLE_DEVICE,
    ROLE_JOIN,
    ROLE_READ,
    ROLE_SUBMIT,
    ROLE_OPERATE,
    ROLE_ADMIN,
};
extern const char *const role_names[];
/* The role names from ROLE_JOIN on. */
extern const char *const token_role_names[];
#define TOKEN_ROLE(role) ((int)(role) - (int)ROLE_JOIN) /* index in token_role_names */

enum token_state { TOKEN_ACTIVE, TOKEN_EXPIRED, TOKEN_REVOKED, TOKEN_USED_UP };
extern const char *const token_state_names[];

struct token {
    char id[ID_SIZE];
    char name[NAME_SIZE];
    int role;  /* index of token_role_names */
    int state; /* enum token_state at the time of the answer */
    char sha256[SHA256_SIZE];
    int64_t revision;
    int64_t created_ms, expires_ms, last_used_ms, revoked_ms; /* wall times; 0: never, not yet */
    /* Quotas, of the roles from submit on; 0: none. Use without a quota is not counted. */
    int64_t max_bytes, used_bytes; /* of uploads */
    int64_t max_jobs, used_jobs;   /* submitted and cloned ones */
    /* of role join: */
    int64_t uses_left;
    bool pending;         /* a user must accept the devices that join with it */
    char device[ID_SIZE]; /* the device whose key it replaces; "": it adds devices */
};
extern const struct record token_record;     /* as the API shows it */
extern const struct record token_row_record; /* with the hash, without the state */

/* Return whether a token's role allows a route of role `needed`. */
bool role_allows(enum role had, enum role needed);
enum role token_role(const struct token *token);
enum token_state token_state_at(const struct token *token, int64_t wall_ms);

/* POST /v1/tokens */
struct token_request {
    char name[NAME_SIZE]; /* "": the role and a part of the id */
    int role;
    int64_t expires_seconds; /* 0: never, or TOKEN_JOIN_SECONDS with role join */
    int64_t max_bytes;       /* of the roles from submit on; 0: no quota */
    int64_t max_jobs;        /* the same */
    int64_t uses;            /* of role join, as all that follow; 0: one */
    bool pending;
    char device[ID_SIZE];
};
extern const struct record token_request_record;
/* Add a fault for each field that does not fit the role, and fill in the defaults of role join. */
NODISCARD int token_request_settle(struct token_request *request, struct record_faults *faults,
                                   struct err *err);

/* The answer to it. */
struct token_created {
    struct token token;
    char secret[JOIN_TOKEN_SIZE]; /* join_token_write of a join token; "" in a repeated answer */
};
extern const struct record token_created_record;

#define TOKEN_BYTES 32
/* Write "pl_" and the bytes in the URL-safe alphabet of base 64. */
void token_write(const uint8_t secret[TOKEN_BYTES], char out[TOKEN_TEXT_SIZE]);
/* Return whether a text has the form of token_write. */
bool token_valid(const char *text);

/* A join token, as people copy it: the secret, "_", and the SHA-256 of the authority's certificate.
 * A new machine verifies the coordinator by that hash. */
struct join_token {
    char secret[TOKEN_TEXT_SIZE];
    char ca_sha256[SHA256_SIZE]; /* "": the coordinator has no authority of its own */
};
void join_token_write(const struct join_token *token, char out[JOIN_TOKEN_SIZE]);
/* Read a join token, or the token of any other role. false: the text has another form. */
bool join_token_read(const char *text, struct join_token *out);

/* Return whether the text begins like a token. An error must not show such a text, even if it is
 * not a valid token. */
bool token_is_meant(const char *text);

#endif
