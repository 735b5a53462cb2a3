#include "agent/peer/sender.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent/peer/message.h"
#include "agent/runtime/thread.h"
#include "agent/runtime/timing.h"
#include "base/buf.h"
#include "net/http_client.h"
#include "schema/problem.h"

#define RETRY_NS_FIRST INT64_C(5000000)
#define RETRY_NS_MAX INT64_C(250000000)
/* How long there is nothing to send before the neighbour is asked whether it is there. */
#define IDLE_NS INT64_C(250000000)
#define REPLY_MAX 4096

struct sender {
    struct sender_config config;
    struct stage *stage;
    enum trouble_source source;
    size_t boundary;
    struct http_client *client;
    struct buf reply;
    pthread_t thread;
    pthread_mutex_t lock;
    struct link_report link;       /* guarded by lock; its seconds are filled in when it is taken */
    struct timing_window transfer; /* guarded by lock */
};

static void add_link(struct sender *sender, double bytes, double seconds)
{
    (void)pthread_mutex_lock(&sender->lock);
    struct link_report *link = &sender->link;
    link->count++;
    link->bytes_sum += bytes;
    link->bytes_squared_sum += bytes * bytes;
    timing_window_add(&sender->transfer, seconds);
    (void)pthread_mutex_unlock(&sender->lock);
}

/* One try. 0: delivered; ERR_STALE: the neighbour is ahead; ERR_STATE: it has no room, or is not
 * there yet; ERR_NETWORK, ERR_TIMEOUT: try again; anything else is final. */
static int try_once(struct sender *sender, const struct http_call *call,
                    const struct stage_parcel *parcel, struct err *err)
{
    struct http_result result;
    int rc = http_client_call(sender->client, call, &result, err);
    if (rc != 0) {
        return rc;
    }
    if (result.status == 204) {
        if (!parcel->last && transfer_info(&parcel->transfer)->measures_link) {
            const double bytes = (double)(call->body[0].size + call->body[1].size);
            add_link(sender, bytes, result.seconds);
        }
        return 0;
    }
    char message[MESSAGE_SIZE];
    (void)problem_read(sender->reply.data ? sender->reply.data : "", sender->reply.size, message);
    const int code = result.status == 409   ? ERR_STALE
                     : result.status == 503 ? ERR_STATE
                                            : ERR_PROTOCOL;
    return err_set(err, code, "%s answers %d %s", sender->config.peer.device.text, result.status,
                   message);
}

/* Report a failure of the network, the `failures`th in a row. The first broken connection is
 * retried at once and not reported: a connection that was kept for too long breaks as well. Returns
 * how long to wait. */
static int64_t report_trouble(struct sender *sender, int rc, unsigned failures, int64_t wait_ns)
{
    const enum peer_trouble kind = trouble_kind(rc, http_client_breakage(sender->client));
    if (kind == PEER_BROKEN && failures == 1) {
        return 0;
    }
    troubles_report(sender->config.troubles, sender->source, &sender->config.peer.device, kind);
    return wait_ns;
}

static int deliver(struct sender *sender, const struct stage_parcel *parcel, struct err *err)
{
    const struct stage_config *stage = stage_config(sender->stage);
    const struct peer *peer = &sender->config.peer;
    struct cancel *cancel = stage_cancelled(sender->stage);
    char header[MESSAGE_HEADER_MAX];
    const struct message_note note = {.last = parcel->last, .mark = parcel->mark};
    const struct message_path path = message_tensor_path(peer->url, &stage->job, stage->generation,
                                                         &parcel->transfer, sender->boundary);
    const struct http_call call = {
        .method = "PUT",
        .url = path.text,
        .bearer = peer->ticket,
        .content_type = "application/octet-stream",
        .body = {{header, message_write_header(&parcel->tensor, &note, header)},
                 {parcel->data, message_data_bytes(&parcel->tensor)}},
        .reply = &sender->reply,
        .connect_timeout_ms = sender->config.peer_ms,
        .stall_ms = sender->config.peer_ms,
        .cancel = &cancel->flag,
    };
    unsigned failures = 0; /* of the network, in a row */
    int64_t wait_ns = RETRY_NS_FIRST;
    for (;;) {
        const int rc = try_once(sender, &call, parcel, err);
        const bool broken = rc == ERR_NETWORK || rc == ERR_TIMEOUT;
        if (!broken && rc != ERR_CANCELLED) {
            failures = 0;
            troubles_clear(sender->config.troubles, sender->source);
        }
        if (!broken && rc != ERR_STATE) {
            return rc;
        }
        if (cancel_wait(cancel,
                        broken ? report_trouble(sender, rc, ++failures, wait_ns) : wait_ns)) {
            return err_set(err, ERR_CANCELLED, "cancelled");
        }
        wait_ns = 2 * wait_ns < RETRY_NS_MAX ? 2 * wait_ns : RETRY_NS_MAX;
    }
}

/* Ask whether the neighbour is there; any answer says so. */
static void ask(struct sender *sender)
{
    const struct stage_config *stage = stage_config(sender->stage);
    const struct message_path path =
        message_ping_path(sender->config.peer.url, &stage->job, stage->generation);
    const struct http_call call = {
        .method = "GET",
        .url = path.text,
        .bearer = sender->config.peer.ticket,
        .reply = &sender->reply,
        .connect_timeout_ms = sender->config.peer_ms,
        .stall_ms = sender->config.peer_ms,
        .cancel = &stage_cancelled(sender->stage)->flag,
    };
    struct http_result result;
    struct err err = {0};
    for (unsigned failures = 1;; failures++) {
        const int rc = http_client_call(sender->client, &call, &result, &err);
        if (rc == 0) {
            troubles_clear(sender->config.troubles, sender->source);
        }
        if ((rc != ERR_NETWORK && rc != ERR_TIMEOUT) ||
            report_trouble(sender, rc, failures, 1) > 0) {
            return;
        }
    }
}

static void *carry(void *arg)
{
    struct sender *sender = arg;
    struct stage_parcel parcel;
    thread_set_name(sender->config.direction == STAGE_TO_NEXT ? "send-next" : "send-prev");
    for (;;) {
        if (!stage_wait_parcel(sender->stage, sender->config.direction, IDLE_NS)) {
            ask(sender);
            continue;
        }
        if (!stage_next_parcel(sender->stage, sender->config.direction, &parcel)) {
            break;
        }
        struct err err = {0};
        const int rc = deliver(sender, &parcel, &err);
        if (rc == 0) {
            stage_parcel_sent(sender->stage, &parcel);
            continue;
        }
        if (rc != ERR_STALE && rc != ERR_CANCELLED) {
            sender->config.failed(sender->config.arg, &err);
            stage_cancel(sender->stage);
        }
        break;
    }
    return NULL;
}

static void free_sender(struct sender *sender)
{
    http_client_free(&sender->client);
    stage_release(&sender->stage);
    buf_done(&sender->reply);
    (void)pthread_mutex_destroy(&sender->lock);
    free(sender);
}

int sender_start(const struct sender_config *config, struct sender **out, struct err *err)
{
    struct sender *sender = calloc(1, sizeof(*sender));
    if (!sender || pthread_mutex_init(&sender->lock, NULL) != 0) {
        free(sender);
        return err_set(err, ERR_MEMORY, "sender");
    }
    const struct stage_config *stage = stage_config(config->stage);
    sender->config = *config;
    sender->stage = stage_retain(config->stage);
    sender->source = config->direction == STAGE_TO_NEXT ? TROUBLE_NEXT : TROUBLE_PREVIOUS;
    sender->boundary = config->direction == STAGE_TO_NEXT ? stage->end : stage->first;
    sender->link.device = config->peer.device;
    buf_init(&sender->reply, REPLY_MAX);
    int rc = http_client_new(&sender->client, err);
    rc = rc ? rc : thread_start(&sender->thread, carry, sender, err);
    if (rc != 0) {
        free_sender(sender);
        return rc;
    }
    *out = sender;
    return 0;
}

void sender_free(struct sender **sender)
{
    if (*sender) {
        (void)pthread_join((*sender)->thread, NULL);
        free_sender(*sender);
        *sender = NULL;
    }
}

/* All tensors of a boundary have one size, except their headers: a slow one says nothing of sizes.
 * Each counts with the mean of the newest, in which a moment when the neighbour stood still is not
 * taken for the link. */
bool sender_take_link(struct sender *sender, struct link_report *out)
{
    (void)pthread_mutex_lock(&sender->lock);
    *out = sender->link;
    const double seconds = timing_window_clipped_mean(&sender->transfer);
    sender->link = (struct link_report){.device = out->device};
    (void)pthread_mutex_unlock(&sender->lock);
    out->seconds_sum = (double)out->count * seconds;
    out->bytes_seconds_sum = out->bytes_sum * seconds;
    return out->count > 0;
}
