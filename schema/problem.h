/* problem.h: every error the API can answer, as one table: code, HTTP status, title, retryable.
 * Wire form: application/problem+json, RFC 9457. */
#ifndef SCHEMA_PROBLEM_H
#define SCHEMA_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/limits.h"

enum problem_code {
    PROBLEM_NONE,
    PROBLEM_INVALID_JSON,           /* 400 */
    PROBLEM_INVALID_FIELDS,         /* 422, with errors[] */
    PROBLEM_INVALID_PARAMETER,      /* 400: query, header or path */
    PROBLEM_UNAUTHORIZED,           /* 401: no token, or one that is not accepted */
    PROBLEM_FORBIDDEN,              /* 403: the token's role is too low */
    PROBLEM_QUOTA_EXCEEDED,         /* 403: the token has used up what it may upload or submit */
    PROBLEM_INVALID_DATASET,        /* 422 */
    PROBLEM_INVALID_CHECKPOINT,     /* 422 */
    PROBLEM_INVALID_BLOB,           /* 422: hash or length is not as announced */
    PROBLEM_UNSUPPORTED_MEDIA_TYPE, /* 415 */
    PROBLEM_BODY_TOO_LARGE,         /* 413 */
    PROBLEM_NOT_FOUND,              /* 404: no such route */
    PROBLEM_UNKNOWN_DEVICE,         /* 404 */
    PROBLEM_UNKNOWN_JOB,
    PROBLEM_UNKNOWN_MODEL,
    PROBLEM_UNKNOWN_DATASET,
    PROBLEM_UNKNOWN_PLAN,
    PROBLEM_UNKNOWN_CHECKPOINT,
    PROBLEM_UNKNOWN_INCIDENT,
    PROBLEM_UNKNOWN_BLOB,
    PROBLEM_UNKNOWN_TOKEN,
    PROBLEM_METHOD_NOT_ALLOWED,   /* 405 */
    PROBLEM_NAME_TAKEN,           /* 409 */
    PROBLEM_WRONG_STATE,          /* 409: the verb is not possible in this state */
    PROBLEM_IN_USE,               /* 409: the detail names the jobs */
    PROBLEM_GROUP_OF_JOB,         /* 409: verbs act on the parent of a group */
    PROBLEM_IDEMPOTENCY_MISMATCH, /* 409 */
    PROBLEM_REVISION_MISMATCH,    /* 412 */
    PROBLEM_STALE_GENERATION,     /* 409 */
    PROBLEM_STALE_BOOT,           /* 409 */
    PROBLEM_IDENTITY_IN_USE,      /* 409 */
    PROBLEM_PROTOCOL_VERSION,     /* 409: agent and coordinator do not share a protocol version */
    PROBLEM_NOT_ENOUGH_DEVICES,   /* 409: replans and questions only; a job waits */
    PROBLEM_MODEL_TOO_LARGE, /* 422: needs more memory than the devices have: which unit, how much,
                                where */
    PROBLEM_BAD_SPLIT,       /* 422: a group would have too few samples */
    PROBLEM_RANGE_NOT_SATISFIABLE, /* 416 */
    PROBLEM_WRONG_KEY,             /* 403: with TLS, not the device's certificate */
    PROBLEM_FORBIDDEN_ORIGIN,      /* 403: foreign Host or Origin */
    PROBLEM_TOO_MANY,              /* 429: a bound of limits.h is reached */
    PROBLEM_DISK_FULL,             /* 507 */
    PROBLEM_BUSY,                  /* 503: no slot or no memory for another request */
    PROBLEM_STOPPING,              /* 503: the coordinator is shutting down */
    PROBLEM_INTERNAL,              /* 500 */
    PROBLEM_COUNT,
};

struct problem_kind {
    const char *code; /* "unknown_job" */
    int status;
    const char *title;
    bool retryable;
};
/* problem_kinds[PROBLEM_COUNT], indexed by enum problem_code. */
extern const struct problem_kind problem_kinds[];

#define PROBLEM_DETAIL_SIZE 512
#define PROBLEM_INSTANCE_SIZE 256

/* The fields of the wire form. Texts that do not fit are truncated. */
struct problem {
    char type[NAME_SIZE]; /* "urn:paceline:problem:unknown_job" */
    char title[NAME_SIZE];
    int64_t status;
    char detail[PROBLEM_DETAIL_SIZE];
    char instance[PROBLEM_INSTANCE_SIZE]; /* the request's path */
    char code[REASON_SIZE];
    char request_id[NAME_SIZE];
    bool retryable;
    struct record_faults errors;
};
extern const struct record problem_record;

/* Return a new problem+json object. instance (the path), request_id and faults may be NULL. With
 * several faults the detail describes the first one and their number. NULL when out of memory. */
json_t *problem_write(enum problem_code code, const char *detail, const char *instance,
                      const char *request_id, const struct record_faults *faults);

/* Read a problem+json body. Returns its code, or PROBLEM_NONE if this version does not know it.
 * message: one line for people with the detail and, unless the detail contains it, the first fault;
 * "" if there is none. */
enum problem_code problem_read(const char *text, size_t size, char message[MESSAGE_SIZE]);

#endif
