#include "schema/token.h"

#include <stdio.h>
#include <string.h>

#include "schema/id.h"

#define PREFIX "pl_"
#define PREFIX_SIZE (sizeof(PREFIX) - 1)

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const char *const role_names[] = {
    [ROLE_NONE] = "none",       [ROLE_OPEN] = "open",   [ROLE_DEVICE] = "device",
    [ROLE_JOIN] = "join",       [ROLE_READ] = "read",   [ROLE_SUBMIT] = "submit",
    [ROLE_OPERATE] = "operate", [ROLE_ADMIN] = "admin", NULL,
};
const char *const token_role_names[] = {"join", "read", "submit", "operate", "admin", NULL};

const char *const token_state_names[] = {
    [TOKEN_ACTIVE] = "active",
    [TOKEN_EXPIRED] = "expired",
    [TOKEN_REVOKED] = "revoked",
    [TOKEN_USED_UP] = "used_up",
    NULL,
};

/* The fields of a token in struct T; `m` is the path to the token, or empty if T is the token. */
#define TOKEN_FIELDS(T, m)                                                                         \
    MEMBER_FORM(T, m id, "id", FIELD_REQUIRED, &token_id_form),                                    \
        MEMBER_INT(T, m revision, "revision", FIELD_REQUIRED, 1, INTEGER_MAX),                     \
        MEMBER_FORM(T, m name, "name", FIELD_REQUIRED, &name_form,                                 \
                    .about = "The token's name. No two active tokens have the same name."),        \
        MEMBER_ENUM(T, m role, "role", FIELD_REQUIRED, token_role_names,                           \
                    .about = "What the token may do. From `read` on, each role also may do what "  \
                             "the roles before it may; `join` only lets devices join."),           \
        MEMBER_TIME(T, m created_ms, "created_at", FIELD_REQUIRED),                                \
        MEMBER_TIME(T, m expires_ms, "expires_at", FIELD_NULLABLE,                                 \
                    .about = "Null: the token does not expire."),                                  \
        MEMBER_TIME(T, m last_used_ms, "last_used_at", FIELD_NULLABLE,                             \
                    .about = "The last use, to the minute; null: not used yet."),                  \
        MEMBER_TIME(T, m revoked_ms, "revoked_at", FIELD_NULLABLE,                                 \
                    .about = "Null: the token was not revoked."),                                  \
        MEMBER_INT(                                                                                \
            T, m max_bytes, "max_bytes", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,                         \
            .about =                                                                               \
                "How many bytes the token may upload, all uploads together. Absent: any number."), \
        MEMBER_INT(T, m used_bytes, "used_bytes", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,                \
                   .about = "How many of `max_bytes` the token has uploaded."),                    \
        MEMBER_INT(T, m max_jobs, "max_jobs", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,                    \
                   .about = "How many jobs the token may submit or clone. Absent: any number."),   \
        MEMBER_INT(T, m used_jobs, "used_jobs", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,                  \
                   .about = "How many of `max_jobs` the token has submitted or cloned."),          \
        MEMBER_INT(T, m uses_left, "uses_left", FIELD_SKIP_EMPTY, 0, TOKEN_USES_MAX,               \
                   .about = "How many devices may still join with the token. Absent: none."),      \
        MEMBER_BOOL(T, m pending, "pending", FIELD_SKIP_EMPTY,                                     \
                    .about = "Devices that join with the token wait until a user accepts them."),  \
        MEMBER_FORM(                                                                               \
            T, m device, "device", FIELD_SKIP_EMPTY, &device_id_form,                              \
            .about = "The device whose key the token replaces. Absent: the token adds devices.")
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
    MEMBER_FORM(struct token_request, name, "name", FIELD_NULLABLE, &name_form,
                .about = "The token's name, which no other active token has. Default: the role and "
                         "a part of the id."),
    MEMBER_ENUM(struct token_request, role, "role", FIELD_REQUIRED, token_role_names,
                .about = "`read` sees everything but tokens and the audit; `submit` also uploads "
                         "and submits; `operate` also changes jobs and devices; `admin` also sees "
                         "and changes tokens; `join` lets devices join and may do nothing else."),
    MEMBER_INT(
        struct token_request, expires_seconds, "expires_seconds", FIELD_NULLABLE, 1,
        TOKEN_SECONDS_MAX,
        .about =
            "Seconds from now on. Default: a day for the role `join`; other tokens do not expire."),
    MEMBER_INT(struct token_request, max_bytes, "max_bytes", FIELD_NULLABLE, 1, INTEGER_MAX,
               .about = "Roles `submit`, `operate` and `admin`: how many bytes the token may "
                        "upload, all uploads together, failed ones included. Default: any number."),
    MEMBER_INT(struct token_request, max_jobs, "max_jobs", FIELD_NULLABLE, 1, INTEGER_MAX,
               .about = "Roles `submit`, `operate` and `admin`: how many jobs the token may submit "
                        "or clone, deleted ones included. Default: any number."),
    MEMBER_INT(struct token_request, uses, "uses", FIELD_NULLABLE, 1, TOKEN_USES_MAX,
               .about = "Role `join` only: how many devices may join. Default: 1."),
    MEMBER_BOOL(struct token_request, pending, "pending", 0,
                .about = "Role `join` only: the devices wait until a user accepts them."),
    MEMBER_FORM(struct token_request, device, "device", FIELD_NULLABLE, &device_id_form,
                .about = "Role `join` only: the machine that joins becomes this device, with its "
                         "name and measurements. The device's present key is no longer accepted. "
                         "Use it for a reinstalled machine."),
};
const struct record token_request_record = RECORD_WITH(
    struct token_request, "token_request", request_fields, .about = "A token to create.");

static const struct field created_fields[] = {
    TOKEN_FIELDS(struct token_created, token.),
    TOKEN_STATE(struct token_created, token.),
    MEMBER_TEXT(struct token_created, secret, "token", FIELD_SKIP_EMPTY,
                .about = "The secret for `Authorization: Bearer`, or for `paceline-agent join` "
                         "with the role `join`. It is shown here once and not stored: the answer "
                         "to a repeated request does not have it."),
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
    return (enum role)(ROLE_JOIN + token->role);
}

enum token_state token_state_at(const struct token *token, int64_t wall_ms)
{
    if (token->revoked_ms) {
        return TOKEN_REVOKED;
    }
    if (token->expires_ms && wall_ms >= token->expires_ms) {
        return TOKEN_EXPIRED;
    }
    return token_role(token) == ROLE_JOIN && token->uses_left == 0 ? TOKEN_USED_UP : TOKEN_ACTIVE;
}

int token_request_settle(struct token_request *request, struct record_faults *faults,
                         struct err *err)
{
    const struct {
        const char *pointer;
        bool given;
    } fields[] = {{"/uses", request->uses > 0},
                  {"/pending", request->pending},
                  {"/device", request->device[0] != '\0'}};
    const struct {
        const char *pointer;
        bool given;
    } quotas[] = {{"/max_bytes", request->max_bytes > 0}, {"/max_jobs", request->max_jobs > 0}};
    const bool joins = request->role == TOKEN_ROLE(ROLE_JOIN);
    const bool submits = request->role >= TOKEN_ROLE(ROLE_SUBMIT);
    for (size_t i = 0; !submits && i < sizeof(quotas) / sizeof(quotas[0]); i++) {
        if (quotas[i].given) {
            record_fault(faults, quotas[i].pointer, "belongs to roles from 'submit' on");
        }
    }
    for (size_t i = 0; !joins && i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (fields[i].given) {
            record_fault(faults, fields[i].pointer, "belongs to the role 'join' only");
        }
    }
    if (joins && request->device[0] != '\0' && request->uses > 1) {
        record_fault(faults, "/uses", "only one machine can become a device");
    }
    if (joins && request->device[0] != '\0' && request->pending) {
        record_fault(faults, "/pending", "the device was accepted already");
    }
    if (faults->count > 0) {
        return err_set(err, ERR_INVALID, "%s: %s", faults->fault[0].pointer,
                       faults->fault[0].message);
    }
    if (joins) {
        request->uses = request->uses > 0 ? request->uses : 1;
        request->expires_seconds =
            request->expires_seconds > 0 ? request->expires_seconds : TOKEN_JOIN_SECONDS;
    }
    return 0;
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

void join_token_write(const struct join_token *token, char out[JOIN_TOKEN_SIZE])
{
    (void)snprintf(out, JOIN_TOKEN_SIZE, "%s%s%s", token->secret, token->ca_sha256[0] ? "_" : "",
                   token->ca_sha256);
}

bool join_token_read(const char *text, struct join_token *out)
{
    const size_t size = strnlen(text, JOIN_TOKEN_SIZE);
    struct join_token token = {.ca_sha256 = ""};
    if (size < TOKEN_TEXT_SIZE - 1 || size == JOIN_TOKEN_SIZE) {
        return false;
    }
    memcpy(token.secret, text, TOKEN_TEXT_SIZE - 1);
    const char *rest = text + TOKEN_TEXT_SIZE - 1;
    (void)snprintf(token.ca_sha256, sizeof(token.ca_sha256), "%s", rest[0] ? rest + 1 : "");
    if (!token_valid(token.secret) ||
        (rest[0] && (rest[0] != '_' || !sha256_form.valid(token.ca_sha256)))) {
        return false;
    }
    *out = token;
    return true;
}

bool token_is_meant(const char *text)
{
    return strncmp(text, PREFIX, sizeof(PREFIX) - 1) == 0;
}
