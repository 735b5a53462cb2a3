/* webhook_message.h: selects the public events for the webhook, signs messages, and decides when to
 * send a message again. Pure.
 *
 * Messages follow "Standard Webhooks" 1.0.0 (https://www.standardwebhooks.com): the headers
 * webhook-id, webhook-timestamp and webhook-signature. The body is the event as GET /v1/events
 * sends it. */
#ifndef COORDINATOR_CONTENT_WEBHOOK_MESSAGE_H
#define COORDINATOR_CONTENT_WEBHOOK_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/secret.h"
#include "schema/event.h"

/* A receiver that fails for longer (some 4 hours) misses the event. */
#define WEBHOOK_ATTEMPTS_MAX 60
/* After an outage of the coordinator older events are not news. */
#define WEBHOOK_EVENT_AGE_MS (24ll * 3600 * 1000)

/* Return whether an event goes to the webhook: ends of whole jobs, incidents and lost devices, no
 * older than WEBHOOK_EVENT_AGE_MS. */
bool webhook_wants(const struct public_event *event, int64_t wall_ms);

struct webhook_key {
    uint8_t bytes[SECRET_SIZE];
    size_t size;
};
/* Read the key of a secret: the decoded base64 after "whsec_", or the characters of any other
 * secret. ERR_INVALID: not base64 after "whsec_". */
NODISCARD int webhook_key_read(const char *secret, struct webhook_key *out, struct err *err);

#define WEBHOOK_HEADER_SIZE 96
struct webhook_headers {
    char id[WEBHOOK_HEADER_SIZE], timestamp[WEBHOOK_HEADER_SIZE], signature[WEBHOOK_HEADER_SIZE];
};
/* Write the headers of a message ("name: value"), signed at wall_ms. ERR_MEMORY. */
NODISCARD int webhook_sign(const struct webhook_key *key, const char *id, int64_t wall_ms,
                           const char *body, size_t body_size, struct webhook_headers *out,
                           struct err *err);

enum webhook_verdict {
    WEBHOOK_DELIVERED,
    WEBHOOK_AGAIN,    /* after *delay_ms */
    WEBHOOK_REFUSED,  /* the receiver rejects the message: a retry cannot help */
    WEBHOOK_GIVEN_UP, /* too many attempts */
};
/* Judge attempt number `attempt` (from 1). status: of the answer; 0: no answer. Delays double from
 * a second to five minutes; a receiver may ask for more, up to five minutes. */
enum webhook_verdict webhook_judge(int status, int attempt, int64_t retry_after_ms,
                                   int64_t *delay_ms);

#endif
