/* webhook.h: tells another program of ends of jobs, incidents and lost devices (--webhook): one
 * signed POST per public event, in their order, each until the receiver has taken it. The queue is
 * the table of events: a row of state.db says which one was taken last, so that a restart neither
 * loses nor skips one. An event may arrive twice, under the same id. The loop's thread only; the
 * calls themselves run on a worker. */
#ifndef COORDINATOR_CONTENT_WEBHOOK_H
#define COORDINATOR_CONTENT_WEBHOOK_H

#include <stdint.h>

#include "base/err.h"

struct coordinator;
struct webhook;

/* *out is NULL without --webhook. A first start begins with the next event. */
NODISCARD int webhook_new(struct coordinator *coordinator, struct webhook **out, struct err *err);
/* After the workers have ended. */
void webhook_free(struct webhook **webhook);
/* Send what is due, after a commit; events: how many were published since the start. webhook may be
 * NULL, here and below. */
void webhook_look(struct webhook *webhook, uint64_t events, int64_t now_ms);
/* When webhook_look is due without a new event; INT64_MAX: never. */
int64_t webhook_deadline_ms(const struct webhook *webhook);

struct webhook_statistics {
    uint64_t delivered, failures, dropped; /* messages, attempts, messages */
    int attempts;                          /* of the message under way; 0: none waits */
};
/* NULL: without --webhook. Borrowed. */
const struct webhook_statistics *webhook_statistics(const struct webhook *webhook);

#endif
