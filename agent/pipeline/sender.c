#include "agent/pipeline/sender.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/timing.h"
#include "agent/peer/message.h"
#include "agent/runtime/thread.h"
#include "base/buf.h"
#include "net/http_client.h"
#include "schema/problem.h"

#define MS_NS INT64_C(1000000)
#define REPLY_MAX 4096

struct sender {
    struct sender_config config;
    struct stage *stage; /* a reference */
    enum trouble_source source;
    size_t boundary;
    struct http_client *client;
    struct tls_client tls;
    struct coder *coder; /* NULL: tensors travel as they are */
    struct buf reply;
    pthread_t thread;
    pthread_mutex_t lock;
    struct timing_link link; /* guarded by lock */
};

static void add_link(struct sender *sender, double bytes, double seconds)
{
    (void)pthread_mutex_lock(&sender->lock);
    timing_link_add(&sender->link, bytes, seconds);
    (void)pthread_mutex_unlock(&sender->lock);
}

static int call_peer(struct sender *sender, const struct http_call *call,
                     struct http_result *result, struct err *err)
{
    const struct way_target target = {.device = &sender->config.peer.device,
                                      .plan = &sender->config.plan,
                                      .relay_ticket = sender->config.peer.relay_ticket};
    bool other; /* the next try follows anyway */
    return ways_call(sender->config.ways, &target, sender->client, call, result, &other, err);
}

/* One try: the code of repeat.h. */
static int try_once(struct sender *sender, const struct http_call *call,
                    const struct stage_outgoing *outgoing, struct err *err)
{
    struct http_result result;
    int rc = call_peer(sender, call, &result, err);
    if (rc != 0) {
        return rc;
    }
    rc = repeat_code(REPEAT_TENSOR, result.status);
    if (rc == 0) {
        if (!outgoing->last && transfer_info(&outgoing->transfer)->measures_link) {
            const double bytes = (double)(call->body[0].size + call->body[1].size);
            add_link(sender, bytes, result.seconds);
        }
        return 0;
    }
    char message[MESSAGE_SIZE];
    (void)problem_read(sender->reply.data ? sender->reply.data : "", sender->reply.size, message);
    return err_set(err, rc, "%s answers %d %s", sender->config.peer.device.text, result.status,
                   message);
}

/* A try has ended: note what it shows of the neighbour. */
static void take_try(struct sender *sender, struct repeat *repeat, int rc, const struct err *why,
                     struct repeat_next *next)
{
    const struct repeat_try tried = {
        .code = rc,
        .trouble = trouble_kind(rc, http_client_breakage(sender->client)),
    };
    repeat_tried(repeat, &tried, next);
    troubles_note(sender->config.troubles, sender->source, &sender->config.peer.device, next->news,
                  tried.trouble, why);
}

/* Encode a tensor whose form says so. Returns what to send. */
static struct http_piece data_of(struct sender *sender, const struct stage_outgoing *outgoing)
{
    const struct work_tensor *tensor = &outgoing->tensor;
    if (tensor->codec == CODEC_NONE) {
        return (struct http_piece){outgoing->data, message_data_bytes(tensor)};
    }
    const enum coder_data data =
        outgoing->transfer.kind == TRANSFER_GRADIENT ? CODER_GRADIENT : CODER_ACTIVATION;
    const size_t size = coder_encode(sender->coder, data, outgoing->data,
                                     tensor->samples * shape_elements(tensor->shape));
    return (struct http_piece){coder_buffer(sender->coder), size};
}

static int deliver(struct sender *sender, const struct stage_outgoing *outgoing, struct err *err)
{
    const struct stage_config *stage = stage_config(sender->stage);
    const struct peer *peer = &sender->config.peer;
    struct cancel *cancel = keeper_cancelled(stage_keeper(sender->stage));
    char header[MESSAGE_HEADER_MAX];
    const struct http_piece data = data_of(sender, outgoing);
    const struct message_note note = {
        .last = outgoing->last, .coded_bytes = data.size, .mark = outgoing->mark};
    const struct message_path path = message_tensor_path(peer->url, &stage->job, stage->generation,
                                                         &outgoing->transfer, sender->boundary);
    struct repeat repeat;
    struct repeat_next next;
    repeat_begin(&repeat, REPEAT_TENSOR, sender->config.peer_ms);
    const struct http_call call = {
        .method = "PUT",
        .url = path.text,
        .bearer = peer->ticket,
        .tls = &sender->tls,
        .content_type = "application/octet-stream",
        .body = {{header, message_write_header(&outgoing->tensor, &note, header)}, data},
        .reply = &sender->reply,
        .connect_timeout_ms = repeat_stall_ms(&repeat),
        .stall_ms = repeat_stall_ms(&repeat),
        .cancel = &cancel->flag,
    };
    for (;;) {
        const int rc = try_once(sender, &call, outgoing, err);
        take_try(sender, &repeat, rc, err, &next);
        if (!next.again) {
            return rc;
        }
        if (cancel_wait(cancel, next.wait_ms * MS_NS)) {
            return err_set(err, ERR_CANCELLED, "cancelled");
        }
    }
}

/* Check that the neighbour is reachable; any answer shows it. */
static void ask(struct sender *sender)
{
    const struct stage_config *stage = stage_config(sender->stage);
    const struct message_path path =
        message_ping_path(sender->config.peer.url, &stage->job, stage->generation);
    struct repeat repeat;
    struct repeat_next next;
    repeat_begin(&repeat, REPEAT_ALIVE, sender->config.peer_ms);
    const struct http_call call = {
        .method = "GET",
        .url = path.text,
        .bearer = sender->config.peer.ticket,
        .tls = &sender->tls,
        .reply = &sender->reply,
        .connect_timeout_ms = repeat_stall_ms(&repeat),
        .stall_ms = repeat_stall_ms(&repeat),
        .cancel = &keeper_cancelled(stage_keeper(sender->stage))->flag,
    };
    struct http_result result;
    struct err err = {0};
    do {
        const int rc = call_peer(sender, &call, &result, &err);
        take_try(sender, &repeat, rc, &err, &next);
    } while (next.again);
}

static void *carry(void *arg)
{
    struct sender *sender = arg;
    struct stage_outgoing outgoing;
    thread_set_name(sender->config.direction == STAGE_TO_NEXT ? "send-next" : "send-prev");
    for (;;) {
        if (!stage_wait_outgoing(sender->stage, sender->config.direction, REPEAT_IDLE_MS * MS_NS)) {
            ask(sender);
            continue;
        }
        if (!stage_next_outgoing(sender->stage, sender->config.direction, &outgoing)) {
            break;
        }
        struct err err = {0};
        const int rc = deliver(sender, &outgoing, &err);
        if (rc == 0) {
            stage_outgoing_sent(sender->stage, &outgoing);
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
    coder_free(&sender->coder);
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
    sender->stage = config->stage;
    (void)work_retain(stage_work(sender->stage));
    sender->source = config->direction == STAGE_TO_NEXT ? TROUBLE_NEXT : TROUBLE_PREVIOUS;
    sender->boundary = config->direction == STAGE_TO_NEXT ? stage->end : stage->first;
    sender->link.report.device = config->peer.device;
    if (stage->codec[config->direction] != CODEC_NONE) {
        (void)snprintf(sender->link.report.codec, sizeof(sender->link.report.codec), "%s",
                       codec_info(stage->codec[config->direction])->name);
    }
    buf_init(&sender->reply, REPLY_MAX);
    trust_peer(config->trust, config->peer.public_key, &sender->tls);
    int rc = http_client_new(&sender->client, err);
    rc = rc ? rc : stage_new_coder(sender->stage, config->direction, &sender->coder, err);
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

void sender_report_link(struct sender *sender, struct heartbeat *out)
{
    (void)pthread_mutex_lock(&sender->lock);
    timing_link_report(&sender->link, out);
    (void)pthread_mutex_unlock(&sender->lock);
}
