/* answer.h: how every route answers: JSON objects with ETag, lists with cursors, problems. The
 * loop's thread only. */
#ifndef COORDINATOR_HTTP_ANSWER_H
#define COORDINATOR_HTTP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "coordinator/core/action.h"
#include "net/http_server.h"
#include "schema/problem.h"

struct turn;

/* The object's text, to which a newline is added; revision > 0 becomes the ETag. */
void answer_object(struct http_exchange *exchange, int status, int64_t revision, struct buf *body);
/* Write the object and answer 200 with its revision as ETag. */
void answer_kind(struct http_exchange *exchange, enum object_kind kind, const void *object);
void answer_record(struct http_exchange *exchange, int status, const struct record *record,
                   const void *value);

void answer_problem(struct http_exchange *exchange, enum problem_code code, const char *format, ...)
    PRINTF_LIKE(3, 4);
/* disk_full: a commit is held (turn.h). */
void answer_held(struct http_exchange *exchange);
/* Store the changes of earlier calls of the turn, before an answer that shows them. false: the
 * store has failed and a problem was sent. */
bool answer_settled(struct http_exchange *exchange, struct turn *turn);
/* For an unknown device, job, checkpoint, incident or token; the answer names the list of such ids.
 */
void answer_unknown(struct http_exchange *exchange, enum problem_code code, const char *id);
/* answer_problem with a text as the core makes it: one about a field begins with its JSON pointer
 * ("/cuts: ..."). */
void answer_core_problem(struct http_exchange *exchange, enum problem_code code, const char *text);
/* invalid_fields with every fault. */
void answer_faults(struct http_exchange *exchange, const struct record_faults *faults);
/* The problem that fits a failure of ours (disk full, not found ...), with its text. */
void answer_err(struct http_exchange *exchange, const struct err *err);
/* The same where an upload could not begin: a limit then is one on their number. */
void answer_upload_err(struct http_exchange *exchange, const struct err *err);

/* Reject query parameters that are not in `allowed` (NULL at its end); false: a problem was
 * sent. */
bool answer_check_query(struct http_exchange *exchange, const char *const *allowed);
/* An integer parameter within [min, max], or fallback when it is absent: false when answered. */
bool answer_query_int(struct http_exchange *exchange, const char *name, int64_t min, int64_t max,
                      int64_t fallback, int64_t *out);
/* The same of a parameter that must be there. */
bool answer_query_needed(struct http_exchange *exchange, const char *name, int64_t min, int64_t max,
                         int64_t *out);
/* A parameter that is true or false, false when it is absent: false when answered. */
bool answer_query_bool(struct http_exchange *exchange, const char *name, bool *out);
/* Whether the body is announced as JSON: false when answered. */
bool answer_check_json_type(struct http_exchange *exchange);
/* Reject an upload with a content type that a web form could send: false when answered. */
bool answer_check_upload_type(struct http_exchange *exchange);
/* Verbs without arguments take no body, or {}: false when answered. */
bool answer_no_body(struct http_exchange *exchange);
/* A JSON body as a value, owned by the caller: false when answered. */
bool answer_read_json(struct http_exchange *exchange, json_t **out);
/* A JSON body into *out (which holds the defaults), strictly: false when answered. An empty body is
 * read as {} where allow_empty. */
bool answer_read_body(struct http_exchange *exchange, const struct record *record, bool allow_empty,
                      void *out);
/* The same from a parsed body, by the fields that `version` of the protocol has. */
bool answer_read_version(struct http_exchange *exchange, const struct record *record, int version,
                         const json_t *body, void *out);
/* The revision of If-Match, 0 if there is none; false: a problem was sent. */
bool answer_if_match(struct http_exchange *exchange, int64_t *revision);

/* 400: the cursor is not from this list. */
void answer_bad_cursor(struct http_exchange *exchange, const char *cursor);

#endif
