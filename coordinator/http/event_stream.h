/* event_stream.h: keeps public events as rows of state.db, the newest also in a ring. Readers of
 * GET /v1/events (server-sent events) copy from the ring at their own pace. The loop's thread. */
#ifndef COORDINATOR_HTTP_EVENT_STREAM_H
#define COORDINATOR_HTTP_EVENT_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "coordinator/core/action.h"
#include "net/http_server.h"

struct event_stream;
struct state_store;

/* Open the stream. It continues after the newest event of the store. */
NODISCARD int event_stream_new(struct state_store *state, uint64_t seed, struct event_stream **out,
                               struct err *err);
void event_stream_free(struct event_stream **stream);
/* Write an ACTION_PUBLISH as a row (inside the turn's transaction) and keep it for
 * event_stream_publish. */
NODISCARD int event_stream_add(struct event_stream *stream, const struct action *action,
                               struct err *err);
/* After the commit, send readers the new events. */
void event_stream_publish(struct event_stream *stream);
/* Answer with the events after last_event_id ("" or NULL: only new events). job: only events of
 * this job and of its parts; NULL: all. */
void event_stream_serve(struct event_stream *stream, struct http_exchange *exchange,
                        const char *last_event_id, const char *job);
/* Send ": ping" to readers without a recent event. Returns the time of the next call; INT64_MAX: no
 * readers. */
int64_t event_stream_ping(struct event_stream *stream, int64_t now_ms);
/* Send readers the remaining events and end their streams, because the program stops. */
void event_stream_end(struct event_stream *stream);
/* Return the number of events published since the start. */
uint64_t event_stream_published(const struct event_stream *stream);
/* Visit all types of events with the number of events added since the start. */
void event_stream_each_type(const struct event_stream *stream,
                            void (*visit)(void *arg, const char *type, uint64_t count), void *arg);
size_t event_stream_readers(const struct event_stream *stream);

#endif
