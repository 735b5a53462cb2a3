#include "cli/events.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "schema/limits.h"

#define AWAY_PAUSE_MS 500
#define AWAY_MINUTES 5
#define DATA_MARK "data:"
#define TEXT_BYTES 32768

void event_reader_add(struct event_reader *reader, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != '\n' && bytes[i] != '\r') {
            if (reader->used + 1 < sizeof(reader->line)) {
                reader->line[reader->used++] = bytes[i];
            }
            continue;
        }
        reader->line[reader->used] = '\0';
        reader->used = 0;
        if (strncmp(reader->line, DATA_MARK, sizeof(DATA_MARK) - 1) == 0) {
            const char *data = reader->line + sizeof(DATA_MARK) - 1;
            reader->take(reader->arg, data + (*data == ' '));
        }
    }
}

struct follower {
    struct session *session;
    struct event_reader reader;
    char last[ID_SIZE]; /* the id of the newest event; "": none yet */
    bool heard;         /* the current connection has delivered bytes */
    int rc;             /* result of writing */
    struct err err;
};

static const char *text_of(const json_t *event, const char *name)
{
    const char *text = json_string_value(json_object_get(event, name));
    return text ? text : "-";
}

/* "2026-01-31T12:00:02.310Z  job_running  job fashion runs on 2 devices" */
static int write_line(struct follower *follower, const json_t *event, struct buf *out)
{
    struct session *session = follower->session;
    struct err *err = &follower->err;
    if (session->call.options.flag[OPTION_QUIET]) {
        return buf_printf(out, err, "%s", text_of(event, "id"));
    }
    if (session->format == FORMAT_JSON) {
        char *text = json_dumps(event, JSON_COMPACT | JSON_ENSURE_ASCII);
        int rc = text ? buf_printf(out, err, "%s", text)
                      : err_set(err, ERR_MEMORY, "no memory for an event");
        free(text);
        return rc;
    }
    const char *subject = text_of(event, "subject");
    bool wide = session->format == FORMAT_WIDE;
    return buf_printf(out, err, "%s  %s%s%s  %s", text_of(event, "created_at"),
                      text_of(event, "type"), wide ? "  " : "", wide ? subject : "",
                      text_of(event, "message"));
}

static void take_event(void *arg, const char *data)
{
    struct follower *follower = arg;
    json_auto_t *event = NULL;
    BUF_AUTO struct buf line;
    buf_init(&line, TEXT_BYTES);
    if (follower->rc || json_parse(data, strlen(data), &event, NULL)) {
        return; /* a later version may send events that are too long; the next one may fit */
    }
    (void)snprintf(follower->last, sizeof(follower->last), "%s", text_of(event, "id"));
    int rc = write_line(follower, event, &line);
    if (!rc) {
        utf8_repair_line(line.data);
        rc = buf_append(&line, "\n", 1, &follower->err);
    }
    follower->rc = rc ? rc : api_write(follower->session->out, &line, &follower->err);
}

static int receive(void *arg, const void *data, size_t size)
{
    struct follower *follower = arg;
    follower->heard = true;
    event_reader_add(&follower->reader, data, size);
    return follower->rc;
}

/* Follow until the connection ends. */
static int follow(struct follower *follower, struct err *err)
{
    char header[OPTION_TEXT_SIZE + 32];
    (void)snprintf(header, sizeof(header), "Last-Event-ID: %s", follower->last);
    const struct api_call call = {
        .method = "GET",
        .path = follower->session->request.target,
        .header = follower->last[0] != '\0' ? header : NULL,
        .write = receive,
        .write_arg = follower,
        .unlimited = true,
    };
    follower->reader.used = 0;
    follower->heard = false;
    return api_make(&follower->session->api, &call, err);
}

int events_follow(struct session *session, struct err *err)
{
    struct follower follower = {.session = session, .reader = {.take = take_event}};
    int64_t away_since = 0;
    bool answered = false;
    const char *after = session->call.options.text[OPTION_AFTER];
    if (strlen(after) >= sizeof(follower.last)) {
        return err_set(err, ERR_INVALID, "--after: '%.40s...' is not the id of an event", after);
    }
    (void)snprintf(follower.last, sizeof(follower.last), "%s", after);
    follower.reader.arg = &follower;
    for (;;) {
        int rc = follow(&follower, err);
        if (follower.rc) {
            *err = follower.err;
            return follower.rc;
        }
        bool lost = rc == 0 || rc == ERR_NETWORK || rc == ERR_TIMEOUT || rc == ERR_STATE;
        int64_t now = clock_now_ms();
        away_since = follower.heard || away_since == 0 ? now : away_since;
        answered = answered || follower.heard;
        if (!lost || !answered || now - away_since > (int64_t)AWAY_MINUTES * 60000) {
            return rc;
        }
        rc = api_pause(&session->api, session->out, AWAY_PAUSE_MS, err);
        if (rc) {
            return rc;
        }
    }
}
