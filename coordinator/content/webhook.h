/* webhook.h: notifies another program of ended jobs, incidents and lost devices (--webhook): one
 * signed POST per public event, in their order, repeated until the receiver accepts it. The queue
 * is the table of events: a row of state.db names the last accepted event, so that a restart loses
 * and skips none. An event may arrive twice, under the same id. The loop's thread only; the calls
 * themselves run on a worker. */
#ifndef COORDINATOR_CONTENT_WEBHOOK_H
#define COORDINATOR_CONTENT_WEBHOOK_H

#include <stdint.h>

#include "base/err.h"

struct coordinator;
struct webhook;

/* Start the webhook. *out is NULL without --webhook. The first start begins with the next event. */
NODISCARD int webhook_new(struct coordinator *coordinator, struct webhook **out, struct err *err);
/* Free the webhook, after the workers have ended. */
void webhook_free(struct webhook **webhook);
/* Send the messages that are due, after a commit. events: number of events published since the
 * start. webhook may be NULL, here and below. */
void webhook_look(struct webhook *webhook, uint64_t events, int64_t now_ms);
/* Return the time at which webhook_look is due without a new event; INT64_MAX: never. */
int64_t webhook_deadline_ms(const struct webhook *webhook);

struct webhook_statistics {
    uint64_t delivered, failures, dropped; /* messages, attempts, messages */
    int attempts;                          /* for the present message; 0: no message waits */
};
/* Return the counters; NULL without --webhook. Borrowed. */
const struct webhook_statistics *webhook_statistics(const struct webhook *webhook);

#endif
