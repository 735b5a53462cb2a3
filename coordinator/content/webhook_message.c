#include "coordinator/content/webhook_message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "net/hash.h"

#define DELAY_MS_MIN 1000
#define DELAY_MS_MAX 300000
#define SIGNED_MAX ((size_t)64 << 10)

bool webhook_wants(const struct public_event *event, int64_t wall_ms)
{
    static const struct {
        const char *type;
        bool whole; /* of whole jobs only: a job of sub-models ends once */
    } wanted[] = {
        {"job_succeeded", true},    {"job_failed", true},         {"job_cancelled", true},
        {"incident_opened", false}, {"incident_resolved", false}, {"incident_abandoned", false},
        {"device_lost", false},
    };
    if (event->created_ms < wall_ms - WEBHOOK_EVENT_AGE_MS) {
        return false;
    }
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        if (strcmp(event->type, wanted[i].type) == 0) {
            return !wanted[i].whole || event->of.parent.text[0] == '\0';
        }
    }
    return false;
}

int webhook_key_read(const char *secret, struct webhook_key *out, struct err *err)
{
    static const char prefix[] = "whsec_";
    const size_t prefix_size = sizeof(prefix) - 1;
    const size_t length = strlen(secret);
    if (strncmp(secret, prefix, prefix_size) != 0) {
        memcpy(out->bytes, secret, length);
        out->size = length;
        return 0;
    }
    const int size = base64_decode(secret + prefix_size, out->bytes, sizeof(out->bytes));
    if (size < 0) {
        return err_set(err, ERR_INVALID, "the secret is not base64 after 'whsec_'");
    }
    out->size = (size_t)size;
    return 0;
}

int webhook_sign(const struct webhook_key *key, const char *id, int64_t wall_ms, const char *body,
                 size_t body_size, struct webhook_headers *out, struct err *err)
{
    char signature[HMAC_BASE64_SIZE];
    const int64_t seconds = wall_ms / 1000;
    BUF_AUTO struct buf text;
    buf_init(&text, SIGNED_MAX);
    int rc = buf_printf(&text, err, "%s.%" PRId64 ".", id, seconds);
    rc = rc ? rc : buf_append(&text, body, body_size, err);
    if (rc) {
        return rc;
    }
    hmac_base64(key->bytes, key->size, text.data, text.size, signature);
    (void)snprintf(out->id, sizeof(out->id), "webhook-id: %s", id);
    (void)snprintf(out->timestamp, sizeof(out->timestamp), "webhook-timestamp: %" PRId64, seconds);
    (void)snprintf(out->signature, sizeof(out->signature), "webhook-signature: v1,%s", signature);
    return 0;
}

/* These answers reject the message: the receiver cannot read it (Bad Request, Content Too Large,
 * Unsupported Media Type, Unprocessable Content), or wants no more messages (Gone). Any other
 * answer is about the receiver or a proxy before it, which may be repaired: docs/adr/0130. */
static bool is_rejection(int status)
{
    static const int rejections[] = {400, 410, 413, 415, 422};
    for (size_t i = 0; i < sizeof(rejections) / sizeof(rejections[0]); i++) {
        if (status == rejections[i]) {
            return true;
        }
    }
    return false;
}

enum webhook_verdict webhook_judge(int status, int attempt, int64_t retry_after_ms,
                                   int64_t *delay_ms)
{
    *delay_ms = 0;
    if (status >= 200 && status < 300) {
        return WEBHOOK_DELIVERED;
    }
    if (is_rejection(status)) {
        return WEBHOOK_REFUSED;
    }
    if (attempt >= WEBHOOK_ATTEMPTS_MAX) {
        return WEBHOOK_GIVEN_UP;
    }
    int64_t delay = DELAY_MS_MIN;
    for (int i = 1; i < attempt && delay < DELAY_MS_MAX; i++) {
        delay *= 2;
    }
    delay = delay < retry_after_ms ? retry_after_ms : delay;
    *delay_ms = delay < DELAY_MS_MAX ? delay : DELAY_MS_MAX;
    return WEBHOOK_AGAIN;
}
