#include "schema/token.h"

#include <string.h>

#include "schema/id.h"

#define PREFIX "pl_"
#define PREFIX_SIZE (sizeof(PREFIX) - 1)

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const char *const role_names[] = {
    [ROLE_NONE] = "none",     [ROLE_OPEN] = "open",
    [ROLE_DEVICE] = "device", [ROLE_READ] = "read",
    [ROLE_SUBMIT] = "submit", [ROLE_OPERATE] = "operate",
    [ROLE_ADMIN] = "admin",   NULL,
};
const char *const token_role_names[] = {"read", "submit", "operate", "admin", NULL};

const char *const token_state_names[] = {
    [TOKEN_ACTIVE] = "active",
    [TOKEN_EXPIRED] = "expired",
    [TOKEN_REVOKED] = "revoked",
    NULL,
};

/* Of struct T, in which the token is `m`. */
#define TOKEN_FIELDS(T, m)                                                                         \
    MEMBER_FORM(T, m id, "id", FIELD_REQUIRED, &token_id_form),                                    \
        MEMBER_INT(T, m revision, "revision", FIELD_REQUIRED, 1, INTEGER_MAX),                     \
        MEMBER_FORM(T, m name, "name", FIELD_REQUIRED, &name_form,                                 \
                    .about = "No two active tokens have the same."),                               \
        MEMBER_ENUM(T, m role, "role", FIELD_REQUIRED, token_role_names,                           \
                    .about = "Each role may do all that those before it may."),                    \
        MEMBER_TIME(T, m created_ms, "created_at", FIELD_REQUIRED),                                \
        MEMBER_TIME(T, m expires_ms, "expires_at", FIELD_NULLABLE, .about = "Null: never."),       \
        MEMBER_TIME(T, m last_used_ms, "last_used_at", FIELD_NULLABLE,                             \
                    .about = "To the minute; null: not yet used."),                                \
        MEMBER_TIME(T, m revoked_ms, "revoked_at", FIELD_NULLABLE,                                 \
                    .about = "Null: it was not revoked.")
#define TOKEN_STATE(T, m)                                                                          \
    MEMBER_ENUM(T, m state, "state", FIELD_REQUIRED, token_state_names,                            \
                .about = "Only an active token is accepted.")

static const struct field token_fields[] = {
    TOKEN_FIELDS(struct token, ),
    TOKEN_STATE(struct token, ),
};
const struct record token_record = RECORD_WITH(struct token, "token", token_fields, .answer = true,
                                               .about = "A bearer token, without its secret.");

static const struct field token_row_fields[] = {
    TOKEN_FIELDS(struct token, ),
    MEMBER_FORM(struct token, sha256, "sha256", FIELD_REQUIRED, &sha256_form),
};
const struct record token_row_record = RECORD(struct token, "token_row", token_row_fields);

static const struct field request_fields[] = {
    MEMBER_FORM(struct token_request, name, "name", FIELD_REQUIRED, &name_form,
                .about = "Which no other active token has."),
    MEMBER_ENUM(struct token_request, role, "role", FIELD_REQUIRED, token_role_names,
                .about = "`read` sees everything but tokens and the audit; `submit` also uploads "
                         "and submits; `operate` also changes jobs and devices; `admin` also sees "
                         "and changes tokens."),
    MEMBER_INT(struct token_request, expires_seconds, "expires_seconds", FIELD_NULLABLE, 1,
               TOKEN_SECONDS_MAX, .about = "From now on. Default: the token does not expire."),
};
const struct record token_request_record = RECORD_WITH(
    struct token_request, "token_request", request_fields, .about = "A token to create.");

static const struct field created_fields[] = {
    TOKEN_FIELDS(struct token_created, token.),
    TOKEN_STATE(struct token_created, token.),
    MEMBER_TEXT(struct token_created, secret, "token", FIELD_SKIP_EMPTY,
                .about = "What `Authorization: Bearer` takes. It is shown here once and not "
                         "stored: the answer to a repeated request is without it."),
};
const struct record token_created_record =
    RECORD_WITH(struct token_created, "token_created", created_fields, .answer = true,
                .about = "A new bearer token.");

bool role_allows(enum role had, enum role needed)
{
    return had >= needed;
}

enum role token_role(const struct token *token)
{
    return (enum role)(ROLE_READ + token->role);
}

enum token_state token_state_at(const struct token *token, int64_t wall_ms)
{
    if (token->revoked_ms) {
        return TOKEN_REVOKED;
    }
    return token->expires_ms && wall_ms >= token->expires_ms ? TOKEN_EXPIRED : TOKEN_ACTIVE;
}

void token_write(const uint8_t secret[TOKEN_BYTES], char out[TOKEN_TEXT_SIZE])
{
    char *at = out + PREFIX_SIZE;
    uint32_t bits = 0;
    unsigned count = 0;
    memcpy(out, PREFIX, PREFIX_SIZE);
    for (size_t i = 0; i < TOKEN_BYTES; i++) {
        bits = bits << 8 | secret[i];
        for (count += 8; count >= 6; count -= 6) {
            *at++ = digits[bits >> (count - 6) & 63];
        }
    }
    *at++ = digits[bits << (6 - count) & 63];
    *at = '\0';
}

bool token_valid(const char *text)
{
    return strncmp(text, PREFIX, PREFIX_SIZE) == 0 &&
           strspn(text + PREFIX_SIZE, digits) == TOKEN_TEXT_SIZE - 1 - PREFIX_SIZE &&
           text[TOKEN_TEXT_SIZE - 1] == '\0';
}
