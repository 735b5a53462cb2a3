#include "coordinator/http/event_stream.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "coordinator/http/answer.h"
#include "coordinator/store/state.h"
#include "schema/event.h"
#include "schema/id.h"
#include "schema/wire.h"

#define RING_EVENTS 1024
#define READERS_MAX 1024
/* A message of nothing but control characters, escaped, and the rest. */
#define EVENT_TEXT_MAX 2048
#define EVENTS_KEEP 100000 /* rows */
#define PING_MS 15000
#define TYPES_MAX 64    /* of public_event_types */
#define SKIPPED_MAX 256 /* rows of other jobs in one read: the loop also has other work */

struct frame {
    char text[EVENT_TEXT_MAX]; /* "id: ...\nevent: ...\ndata: {...}\n\n" */
    size_t size;
    char id[ID_SIZE];
    struct job_id job, parent; /* "": none */
};

struct reader {
    struct event_stream *stream;
    struct http_exchange *exchange; /* NULL: free */
    struct job_id job;              /* reads only events of this job; "": all */
    uint64_t next;                  /* number of the event it reads next */
    size_t sent;                    /* bytes of that event already given */
    char replay_after[ID_SIZE];   /* events older than the ring: read from the store after this id;
                                     "" when caught up */
    char pending[EVENT_TEXT_MAX]; /* one event of the store, or a ping */
    size_t pending_size, pending_sent;
    int64_t last_ms; /* time of its last read or check for a ping */
};

struct event_stream {
    struct state_store *state;
    struct rng_stream words;
    struct id_series ids; /* readers resume by id, so ids rise regardless of the clock */
    bool ending;
    struct frame *ring;        /* [RING_EVENTS]; event number n lies at n % RING_EVENTS */
    uint64_t added, published; /* event numbers */
    struct reader *reader;     /* [READERS_MAX] */
    size_t readers;
    uint64_t since_trim;
    uint64_t count[TYPES_MAX]; /* of the events added, by the place of their type */
};

static bool note_newest(void *arg, const struct state_row *row)
{
    struct event_stream *stream = arg;
    stream->ids.ms = row->created_ms;
    return false;
}

int event_stream_new(struct state_store *state, uint64_t seed, struct event_stream **out,
                     struct err *err)
{
    struct event_stream *stream = calloc(1, sizeof(*stream));
    if (stream) {
        stream->ring = calloc(RING_EVENTS, sizeof(*stream->ring));
        stream->reader = calloc(READERS_MAX, sizeof(*stream->reader));
    }
    if (!stream || !stream->ring || !stream->reader) {
        event_stream_free(&stream);
        return err_set(err, ERR_MEMORY, "event stream: out of memory");
    }
    stream->state = state;
    stream->words = rng_stream(seed, RNG_ID, 1, 0);
    int rc = state_list(state, STATE_EVENTS, NULL, "", 1, true, note_newest, stream, err);
    if (rc) {
        event_stream_free(&stream);
        return rc;
    }
    stream->ids.ms++;
    *out = stream;
    return 0;
}

void event_stream_free(struct event_stream **pointer)
{
    struct event_stream *stream = *pointer;
    if (stream) {
        free(stream->ring);
        free(stream->reader);
        free(stream);
    }
    *pointer = NULL;
}

/* One server-sent event; returns its size, 0 when it does not fit. */
static size_t format_frame(char out[EVENT_TEXT_MAX], const char *id, const char *type,
                           const char *data, size_t data_size)
{
    int length = snprintf(out, EVENT_TEXT_MAX, "id: %s\nevent: %s\ndata: %.*s\n\n", id, type,
                          (int)data_size, data);
    return length > 0 && length < EVENT_TEXT_MAX ? (size_t)length : 0;
}

int event_stream_add(struct event_stream *stream, const struct action *action, struct err *err)
{
    struct public_event event = {0};
    const int type = public_event_type(action->event);
    ASSERT(type < TYPES_MAX);
    event.created_ms =
        id_series_next(&stream->ids, &stream->words, "evt_", clock_wall_ms(), event.id);
    snprintf(event.type, sizeof(event.type), "%s", action->event);
    snprintf(event.subject, sizeof(event.subject), "%.*s", ID_SIZE - 1, action->id);
    event.job = action->job;
    event.of = action->of;
    snprintf(event.message, sizeof(event.message), "%s", action->text);
    BUF_AUTO struct buf document;
    buf_init(&document, EVENT_TEXT_MAX);
    int rc = wire_write(&public_event_record, &event, &document, err);
    if (rc) {
        return rc;
    }
    struct state_row row = {event.id, "", 1, event.created_ms, document.data, document.size};
    rc = state_put(stream->state, STATE_EVENTS, &row, err);
    if (!rc && ++stream->since_trim >= EVENTS_KEEP / 10) {
        stream->since_trim = 0;
        rc = state_trim(stream->state, STATE_EVENTS, EVENTS_KEEP, err);
    }
    if (rc) {
        return rc;
    }
    struct frame *frame = &stream->ring[stream->added % RING_EVENTS];
    memcpy(frame->id, event.id, sizeof(frame->id));
    frame->size = format_frame(frame->text, event.id, event.type, document.data, document.size);
    frame->job = event.job;
    frame->parent = event.of.parent;
    stream->added++;
    if (type >= 0) { /* the contract test holds the table to what the core publishes */
        stream->count[type]++;
    }
    return 0;
}

static void wake_readers(struct event_stream *stream)
{
    size_t left = stream->readers;
    for (struct reader *reader = stream->reader; left > 0; reader++) {
        if (reader->exchange) {
            http_exchange_ready(reader->exchange);
            left--;
        }
    }
}

void event_stream_publish(struct event_stream *stream)
{
    if (stream->published != stream->added) {
        stream->published = stream->added;
        wake_readers(stream);
    }
}

void event_stream_end(struct event_stream *stream)
{
    stream->ending = true;
    wake_readers(stream);
}

static bool wants(const struct reader *reader, const struct job_id *job,
                  const struct job_id *parent)
{
    return reader->job.text[0] == '\0' || id_equal(reader->job.text, job->text) ||
           id_equal(reader->job.text, parent->text);
}

/* Returns whether to continue with the next row. */
static bool replay_row(void *arg, const struct state_row *row)
{
    struct reader *reader = arg;
    struct public_event event = {0};
    struct record_faults faults = {0};
    struct err err = {0};
    snprintf(reader->replay_after, sizeof(reader->replay_after), "%s", row->id);
    if (wire_read(&public_event_record, row->document, row->document_size, &event, &faults, &err)) {
        log_error("event_row_damaged", "id=%s error=%s", row->id, log_quote(err.text).text);
        return false;
    }
    if (!wants(reader, &event.job, &event.of.parent)) {
        return true;
    }
    reader->pending_size =
        format_frame(reader->pending, event.id, event.type, row->document, row->document_size);
    return false;
}

/* The oldest event number that the ring still holds. */
static uint64_t ring_start(const struct event_stream *stream)
{
    return stream->added > RING_EVENTS ? stream->added - RING_EVENTS : 0;
}

/* Copy the next event that is older than the ring into `pending`. If there is none, end the replay
 * and continue in the ring. All rows are published, because no event is added meanwhile. */
static int replay_next(struct event_stream *stream, struct reader *reader)
{
    struct err err = {0};
    uint64_t start = ring_start(stream);
    for (uint64_t number = start; number < stream->published; number++) {
        int order = strcmp(stream->ring[number % RING_EVENTS].id, reader->replay_after);
        if (order == 0) {
            reader->next = number + 1;
            reader->replay_after[0] = '\0';
            return 0;
        }
        if (order > 0) {
            break; /* ids rise: it is older */
        }
    }
    char before[ID_SIZE];
    memcpy(before, reader->replay_after, sizeof(before));
    const size_t most = reader->job.text[0] == '\0' ? 1 : SKIPPED_MAX;
    int rc = state_list(stream->state, STATE_EVENTS, NULL, before, most, false, replay_row, reader,
                        &err);
    if (rc) {
        log_error("event_replay_failed", "error=%s", log_quote(err.text).text);
    } else if (strcmp(before, reader->replay_after) == 0) {
        reader->next = stream->published; /* nothing newer in the store */
        reader->replay_after[0] = '\0';
    } else if (reader->pending_size == 0) { /* a comment, so that the client's turn comes again */
        reader->pending_size = (size_t)snprintf(reader->pending, sizeof(reader->pending), ":\n\n");
    }
    return rc;
}

static ssize_t take(char *out, size_t size, const char *text, size_t text_size, size_t *sent)
{
    size_t left = text_size - *sent;
    size_t count = left < size ? left : size;
    memcpy(out, text + *sent, count);
    *sent += count;
    return (ssize_t)count;
}

static ssize_t reader_read(void *arg, uint64_t offset, void *out, size_t size)
{
    (void)offset;
    struct reader *reader = arg;
    struct event_stream *stream = reader->stream;
    reader->last_ms = clock_now_ms();
    for (;;) {
        if (reader->pending_sent < reader->pending_size) {
            return take(out, size, reader->pending, reader->pending_size, &reader->pending_sent);
        }
        reader->pending_size = reader->pending_sent = 0;
        if (reader->replay_after[0] && stream->added != stream->published) {
            return 0; /* the store has rows that are not committed yet */
        }
        if (reader->replay_after[0]) {
            if (replay_next(stream, reader)) {
                return -2;
            }
            continue;
        }
        if (reader->next < ring_start(stream)) {
            return -2; /* too slow: it reconnects with Last-Event-ID and gets the rest from the
                          store */
        }
        if (reader->next == stream->published) {
            return stream->ending ? -1 : 0;
        }
        const struct frame *frame = &stream->ring[reader->next % RING_EVENTS];
        if (reader->sent < frame->size && wants(reader, &frame->job, &frame->parent)) {
            return take(out, size, frame->text, frame->size, &reader->sent);
        }
        reader->next++;
        reader->sent = 0;
    }
}

static void reader_done(void *arg)
{
    struct reader *reader = arg;
    reader->exchange = NULL;
    reader->stream->readers--;
}

void event_stream_serve(struct event_stream *stream, struct http_exchange *exchange,
                        const char *last_event_id, const char *job)
{
    struct reader *reader = NULL;
    for (size_t i = 0; i < READERS_MAX && !reader; i++) {
        reader = stream->reader[i].exchange ? NULL : &stream->reader[i];
    }
    if (!reader) {
        answer_problem(exchange, PROBLEM_TOO_MANY, "%d event streams are open already",
                       READERS_MAX);
        return;
    }
    *reader = (struct reader){.stream = stream,
                              .exchange = exchange,
                              .next = stream->published,
                              .last_ms = clock_now_ms()};
    if (last_event_id && last_event_id[0]) {
        snprintf(reader->replay_after, sizeof(reader->replay_after), "%s", last_event_id);
    }
    snprintf(reader->job.text, sizeof(reader->job.text), "%s", job ? job : "");
    /* A first comment, so that the client sees the headers at once. */
    reader->pending_size =
        (size_t)snprintf(reader->pending, sizeof(reader->pending), ": events\n\n");
    stream->readers++;
    http_reply_header(exchange, "Cache-Control", "no-store");
    struct http_source source = {.read = reader_read, .done = reader_done, .arg = reader};
    http_reply_stream(exchange, 200, "text/event-stream; charset=utf-8", HTTP_SIZE_UNKNOWN,
                      &source);
}

/* A reader in the middle of an event is not reading at present, so it needs no ping. */
static void ping(struct reader *reader)
{
    if (reader->sent == 0 && reader->pending_sent == reader->pending_size) {
        reader->pending_size =
            (size_t)snprintf(reader->pending, sizeof(reader->pending), ": ping\n\n");
        reader->pending_sent = 0;
        http_exchange_ready(reader->exchange);
    }
}

int64_t event_stream_ping(struct event_stream *stream, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;
    size_t left = stream->readers;
    for (struct reader *reader = stream->reader; left > 0; reader++) {
        if (!reader->exchange) {
            continue;
        }
        left--;
        if (now_ms - reader->last_ms >= PING_MS) {
            ping(reader);
            reader->last_ms = now_ms;
        }
        if (reader->last_ms + PING_MS < next_ms) {
            next_ms = reader->last_ms + PING_MS;
        }
    }
    return next_ms;
}

uint64_t event_stream_published(const struct event_stream *stream)
{
    return stream->published;
}

void event_stream_each_type(const struct event_stream *stream,
                            void (*visit)(void *arg, const char *type, uint64_t count), void *arg)
{
    for (int type = 0; public_event_types[type]; type++) {
        visit(arg, public_event_types[type], stream->count[type]);
    }
}

size_t event_stream_readers(const struct event_stream *stream)
{
    return stream->readers;
}
