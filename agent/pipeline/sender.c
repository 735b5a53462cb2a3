#include "agent/pipeline/sender.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/timing.h"
#include "agent/peer/message.h"
#include "agent/peer/reach.h"
#include "agent/runtime/thread.h"
#include "base/clock.h"

struct sender {
    struct sender_config config;
    struct stage *stage; /* a reference */
    size_t boundary;
    struct reach reach;
    struct reach_caller caller;
    struct coder *coder; /* NULL: tensors travel as they are */
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

/* A tensor on its way. */
struct delivery {
    struct sender *sender;
    const struct stage_outgoing *outgoing;
    struct http_call call;
};

/* One try: the code of repeat.h. */
static int try_once(void *arg, struct err *err)
{
    const struct delivery *delivery = arg;
    struct sender *sender = delivery->sender;
    const struct http_call *call = &delivery->call;
    struct http_result result;
    int rc = reach_try(&sender->reach, &sender->caller, call, &result, err);
    rc = rc ? rc : reach_judge(&sender->reach, &sender->caller, REPEAT_TENSOR, result.status, err);
    if (rc == 0 && !delivery->outgoing->last &&
        transfer_info(&delivery->outgoing->transfer)->measures_link) {
        add_link(sender, (double)(call->body[0].size + call->body[1].size), result.seconds);
    }
    return rc;
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
    char header[MESSAGE_HEADER_MAX];
    const struct http_piece data = data_of(sender, outgoing);
    const struct message_note note = {
        .last = outgoing->last, .coded_bytes = data.size, .mark = outgoing->mark};
    const struct message_path path =
        message_tensor_path(sender->config.peer.url, &stage->job, stage->generation,
                            &outgoing->transfer, sender->boundary);
    struct repeat repeat;
    repeat_begin(&repeat, REPEAT_TENSOR, sender->config.peer_ms);
    struct delivery delivery = {
        sender, outgoing,
        reach_call(&sender->reach, &sender->caller, "PUT", path.text, repeat_stall_ms(&repeat))};
    delivery.call.content_type = "application/octet-stream";
    delivery.call.body[0] =
        (struct http_piece){header, message_write_header(&outgoing->tensor, &note, header)};
    delivery.call.body[1] = data;
    const struct reach_tries tries = {.once = try_once, .arg = &delivery};
    return reach_repeat(&sender->reach, &sender->caller, &repeat, &tries, err);
}

static void *carry(void *arg)
{
    struct sender *sender = arg;
    struct stage_outgoing outgoing;
    thread_set_name(sender->config.direction == STAGE_TO_NEXT ? "send-next" : "send-prev");
    for (;;) {
        if (!stage_wait_outgoing(sender->stage, sender->config.direction,
                                 REPEAT_IDLE_MS * NS_PER_MS)) {
            reach_ask(&sender->reach, &sender->caller);
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
    reach_caller_done(&sender->caller);
    coder_free(&sender->coder);
    stage_release(&sender->stage);
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
    sender->boundary = config->direction == STAGE_TO_NEXT ? stage->end : stage->first;
    sender->link.report.device = config->peer.device;
    if (stage->codec[config->direction] != CODEC_NONE) {
        (void)snprintf(sender->link.report.codec, sizeof(sender->link.report.codec), "%s",
                       codec_info(stage->codec[config->direction])->name);
    }
    const struct reach_config reach = {
        .peer = &sender->config.peer,
        .plan = &sender->config.plan,
        .job = &stage->job,
        .generation = stage->generation,
        .ways = config->ways,
        .trust = config->trust,
        .troubles = config->troubles,
        .source = config->direction == STAGE_TO_NEXT ? TROUBLE_NEXT : TROUBLE_PREVIOUS,
        .cancel = keeper_cancelled(stage_keeper(sender->stage)),
        .peer_ms = config->peer_ms,
    };
    reach_init(&sender->reach, &reach);
    int rc = reach_caller_init(&sender->caller, err);
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
