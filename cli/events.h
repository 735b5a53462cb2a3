/* events.h: the events of the coordinator as they happen. */
#ifndef CLI_EVENTS_H
#define CLI_EVENTS_H

#include "cli/session.h"

#define EVENT_LINE_SIZE 8192

/* Read server-sent events (WHATWG HTML, 9.2.6) piece by piece. Starts as zero; pure. */
struct event_reader {
    char line[EVENT_LINE_SIZE]; /* the present one; the end of a longer one is dropped */
    size_t used;
    void (*take)(void *arg, const char *data); /* the data of one event */
    void *arg;
};
void event_reader_add(struct event_reader *reader, const char *bytes, size_t size);

/* Write a line for each event until the program is ended. If a coordinator that has answered stops
 * answering, retry for some minutes, and miss no event. */
NODISCARD int events_follow(struct session *session, struct err *err);

#endif
