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

/* Answer with the object's text and a newline; revision > 0 becomes the ETag. */
void answer_object(struct http_exchange *exchange, int status, int64_t revision, struct buf *body);
/* Write the object and answer 200 with its revision as ETag. */
void answer_kind(struct http_exchange *exchange, enum object_kind kind, const void *object);
void answer_record(struct http_exchange *exchange, int status, const struct record *record,
                   const void *value);

void answer_problem(struct http_exchange *exchange, enum problem_code code, const char *format, ...)
    PRINTF_LIKE(3, 4);
/* Answer disk_full, because a commit is held (turn.h). */
void answer_held(struct http_exchange *exchange);
/* Commit the changes of earlier calls of the turn, before an answer that shows them. false: the
 * commit failed, and a problem was sent. */
bool answer_settled(struct http_exchange *exchange, struct turn *turn);
/* Answer that a device, job, checkpoint, incident or token is unknown, and name the list of valid
 * ids. */
void answer_unknown(struct http_exchange *exchange, enum problem_code code, const char *id);
/* answer_problem with a text of the core: a text about a field begins with its JSON pointer
 * ("/cuts: ..."). */
void answer_core_problem(struct http_exchange *exchange, enum problem_code code, const char *text);
/* Answer invalid_fields with every fault. */
void answer_faults(struct http_exchange *exchange, const struct record_faults *faults);
/* Answer with the problem for an error of our own (disk full, not found ...) and its text. */
void answer_err(struct http_exchange *exchange, const struct err *err);
/* The same if an upload could not begin: then ERR_LIMIT means too many uploads. */
void answer_upload_err(struct http_exchange *exchange, const struct err *err);

/* Reject query parameters outside of `allowed` (NULL-terminated); false: a problem was sent. */
bool answer_check_query(struct http_exchange *exchange, const char *const *allowed);
/* Read an integer parameter within [min, max], or fallback if it is absent. false, here and below:
 * a problem was sent. */
bool answer_query_int(struct http_exchange *exchange, const char *name, int64_t min, int64_t max,
                      int64_t fallback, int64_t *out);
/* Read a required integer parameter. */
bool answer_query_needed(struct http_exchange *exchange, const char *name, int64_t min, int64_t max,
                         int64_t *out);
/* Read a boolean parameter; *out is false if it is absent. */
bool answer_query_bool(struct http_exchange *exchange, const char *name, bool *out);
/* Check that the content type of the body is JSON. */
bool answer_check_json_type(struct http_exchange *exchange);
/* Reject an upload with a content type that a web form could send. */
bool answer_check_upload_type(struct http_exchange *exchange);
/* Check the body of a verb without arguments: empty or {}. */
bool answer_no_body(struct http_exchange *exchange);
/* Read a JSON body as a value, which the caller owns. */
bool answer_read_json(struct http_exchange *exchange, json_t **out);
/* Read a JSON body strictly into *out, which holds the defaults. With allow_empty an empty body
 * counts as {}. */
bool answer_read_body(struct http_exchange *exchange, const struct record *record, bool allow_empty,
                      void *out);
/* The same from a parsed body, with the fields of protocol version `version`. */
bool answer_read_version(struct http_exchange *exchange, const struct record *record, int version,
                         const json_t *body, void *out);
/* Read the revision of If-Match, 0 if the header is absent. */
bool answer_if_match(struct http_exchange *exchange, int64_t *revision);

/* Answer 400: the cursor is not from this list. */
void answer_bad_cursor(struct http_exchange *exchange, const char *cursor);

#endif
