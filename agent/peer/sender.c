#include "agent/peer/sender.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent/peer/message.h"
#include "agent/peer/server.h"
#include "agent/runtime/thread.h"
#include "base/buf.h"
#include "base/clock.h"
#include "net/http_client.h"
#include "schema/problem.h"

#define RETRY_NS_FIRST INT64_C(5000000)
#define RETRY_NS_MAX INT64_C(250000000)
#define PEER_MS_MIN 100
#define REPLY_MAX 4096

struct sender {
    struct sender_config config;
    struct stage *stage;
    size_t boundary;
    struct http_client *client;
    struct buf reply;
    pthread_t thread;
    pthread_mutex_t lock;
    struct link_report link; /* guarded by lock */
};

static void add_link(struct sender *sender, double bytes, double seconds)
{
    (void)pthread_mutex_lock(&sender->lock);
    struct link_report *link = &sender->link;
    link->count++;
    link->seconds_sum += seconds;
    link->bytes_sum += bytes;
    link->bytes_squared_sum += bytes * bytes;
    link->bytes_seconds_sum += bytes * seconds;
    (void)pthread_mutex_unlock(&sender->lock);
}

/* One try. 0: delivered; ERR_STALE: the neighbour is ahead; ERR_STATE: it has no room, or is not there yet;
 * ERR_NETWORK, ERR_TIMEOUT: try again; anything else is final. */
static int try_once(struct sender *sender, const struct http_call *call, const struct stage_parcel *parcel,
                    struct err *err)
{
    struct http_result result;
    int rc = http_client_call(sender->client, call, &result, err);
    if (rc != 0) {
        return rc;
    }
    if (result.status == 204) {
        if (!parcel->last && parcel->transfer.kind != TRANSFER_EVALUATION) {
            const double bytes = (double)(call->body[0].size + call->body[1].size);
            add_link(sender, bytes, result.seconds);
        }
        return 0;
    }
    char message[MESSAGE_SIZE];
    (void)problem_read(sender->reply.data ? sender->reply.data : "", sender->reply.size, message);
    const int code = result.status == 409 ? ERR_STALE : result.status == 503 ? ERR_STATE : ERR_PROTOCOL;
    return err_set(err, code, "%s answers %d %s", sender->config.peer.device.text, result.status, message);
}

static int deliver(struct sender *sender, const struct stage_parcel *parcel, struct err *err)
{
    const struct stage_config *stage = stage_config(sender->stage);
    const struct peer *peer = &sender->config.peer;
    struct cancel *cancel = stage_cancelled(sender->stage);
    char header[MESSAGE_HEADER_MAX];
    const struct message_path path =
        message_tensor_path(peer->url, &stage->job, stage->generation, &parcel->transfer, sender->boundary);
    const struct http_call call = {
        .method = "PUT",
        .url = path.text,
        .bearer = peer->ticket,
        .content_type = "application/octet-stream",
        .body = {{header, message_write_header(&parcel->tensor, parcel->last, header)},
                 {parcel->data, message_data_bytes(&parcel->tensor)}},
        .reply = &sender->reply,
        .connect_timeout_ms = sender->config.peer_ms,
        .stall_ms = sender->config.peer_ms + PEER_PARK_MS,
        .cancel = &cancel->flag,
    };
    int64_t give_up_ms = INT64_MAX; /* set by the first failure of the network */
    int64_t wait_ns = RETRY_NS_FIRST;
    for (;;) {
        const int rc = try_once(sender, &call, parcel, err);
        const int64_t now_ms = clock_now_ms();
        const bool broken = rc == ERR_NETWORK || rc == ERR_TIMEOUT;
        if (broken ? now_ms > give_up_ms : rc != ERR_STATE) {
            return rc;
        }
        if (!broken) {
            give_up_ms = INT64_MAX;
        } else if (give_up_ms == INT64_MAX) {
            give_up_ms = now_ms + sender->config.peer_ms;
        }
        if (cancel_wait(cancel, wait_ns)) {
            return err_set(err, ERR_CANCELLED, "cancelled");
        }
        wait_ns = 2 * wait_ns < RETRY_NS_MAX ? 2 * wait_ns : RETRY_NS_MAX;
    }
}

static void *carry(void *arg)
{
    struct sender *sender = arg;
    struct stage_parcel parcel;
    thread_set_name(sender->config.direction == STAGE_TO_NEXT ? "send-next" : "send-prev");
    while (stage_next_parcel(sender->stage, sender->config.direction, &parcel)) {
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
    if (sender->config.peer_ms < PEER_MS_MIN) {
        sender->config.peer_ms = PEER_MS_MIN;
    }
    sender->stage = stage_retain(config->stage);
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

bool sender_take_link(struct sender *sender, struct link_report *out)
{
    (void)pthread_mutex_lock(&sender->lock);
    *out = sender->link;
    sender->link = (struct link_report){.device = out->device};
    (void)pthread_mutex_unlock(&sender->lock);
    return out->count > 0;
}
