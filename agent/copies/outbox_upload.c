#include "agent/copies/outbox_upload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/copies/outbox_tasks.h"
#include "agent/peer/message.h"
#include "agent/peer/ways.h"
#include "agent/runtime/links.h"
#include "base/buf.h"
#include "base/clock.h"
#include "net/http_client.h"
#include "schema/problem.h"

/* Small, so that tensors are sent between chunks. */
#define CHUNK_BYTES ((size_t)64 << 10)
/* Longest wait of a chunk for the pipeline. Even if the pipeline never pauses, copies get more than
 * a megabyte per second. */
#define YIELD_NS INT64_C(50000000)
#define URL_MAX 768
#define REPLY_MAX 4096

struct outbox_upload {
    struct outbox_upload_config config;
    struct http_client *client[REPLICA_KINDS];
    struct buf reply;
    struct repeat repeat; /* of the neighbor */
    struct tls_client tls[REPLICA_KINDS];
    /* the body under way */
    const struct snapshot *snapshot;
    uint64_t offset;
    double yielded_seconds; /* spent waiting for the pipeline, not for the link */
};

int outbox_upload_new(const struct outbox_upload_config *config, struct outbox_upload **out,
                      struct err *err)
{
    struct outbox_upload *upload = calloc(1, sizeof(*upload));
    if (!upload) {
        return err_set(err, ERR_MEMORY, "uploads of snapshots");
    }
    upload->config = *config;
    trust_peer(config->trust, config->neighbor.public_key, &upload->tls[REPLICA_NEIGHBOR]);
    if (config->trust) {
        upload->tls[REPLICA_CENTER] = config->trust->coordinator;
    }
    repeat_begin(&upload->repeat, REPEAT_REPLICA, config->peer_ms);
    buf_init(&upload->reply, REPLY_MAX);
    int rc = 0;
    for (int kind = 0; rc == 0 && kind < REPLICA_KINDS; kind++) {
        rc = http_client_new(&upload->client[kind], err);
    }
    if (rc != 0) {
        outbox_upload_free(&upload);
        return rc;
    }
    *out = upload;
    return 0;
}

void outbox_upload_free(struct outbox_upload **upload)
{
    if (*upload) {
        for (int kind = 0; kind < REPLICA_KINDS; kind++) {
            http_client_free(&(*upload)->client[kind]);
        }
        buf_done(&(*upload)->reply);
        free(*upload);
        *upload = NULL;
    }
}

static ssize_t read_chunk(void *arg, void *out, size_t size)
{
    struct outbox_upload *upload = arg;
    struct err err = {0};
    const size_t count = size < CHUNK_BYTES ? size : CHUNK_BYTES;
    const double began = clock_now_seconds();
    keeper_wait_quiet(upload->config.keeper, YIELD_NS);
    upload->yielded_seconds += clock_now_seconds() - began;
    if (snapshot_read(upload->snapshot, upload->offset, out, count, &err) != 0) {
        return -1;
    }
    upload->offset += count;
    return (ssize_t)count;
}

static void write_url(const struct outbox_upload *upload, const struct outbox_send *send,
                      char out[URL_MAX])
{
    const struct keeper_config *at = keeper_config(upload->config.keeper);
    const struct outbox_upload_config *config = &upload->config;
    if (send->kind == REPLICA_NEIGHBOR) {
        const struct message_path path = message_snapshot_path(
            config->neighbor.url, &at->job, at->generation, send->version, (int64_t)send->unit);
        (void)snprintf(out, URL_MAX, "%s?sha256=%s&bytes=%" PRId64, path.text, send->sha256,
                       send->bytes);
    } else {
        (void)snprintf(out, URL_MAX,
                       "%s/v1/agent/blobs/%s?device=%s&boot=%s&job=%s&generation=%" PRId64
                       "&version=%" PRId64 "&unit=%zu",
                       config->coordinator, send->sha256, config->device.text, config->boot,
                       at->job.text, at->generation, send->version, send->unit);
    }
}

/* Note the result of a call to the neighbor. true: repeat the call at once. */
static bool take_try(struct outbox_upload *upload, enum replica_kind kind, int rc,
                     const struct err *why)
{
    struct repeat_next next;
    if (kind != REPLICA_NEIGHBOR) {
        return false;
    }
    const struct repeat_try tried = {
        .code = rc,
        .trouble = trouble_kind(rc, http_client_breakage(upload->client[kind])),
    };
    repeat_tried(&upload->repeat, &tried, &next);
    troubles_note(upload->config.troubles, TROUBLE_REPLICA, &upload->config.neighbor.device,
                  next.news, tried.trouble, why);
    return next.again;
}

static void count(struct outbox_upload *upload, const struct outbox_send *send, double seconds)
{
    (void)atomic_fetch_add(upload->config.sent, send->bytes);
    if (send->kind == REPLICA_NEIGHBOR) {
        const double moved = seconds - upload->yielded_seconds;
        links_note(upload->config.links, LINK_REPLICA, &upload->config.neighbor.device,
                   (double)send->bytes, moved > 0 ? moved : 0);
    }
}

static int judge_answer(struct outbox_upload *upload, const struct outbox_send *send,
                        const struct http_result *result, int64_t *retry_ms, struct err *err)
{
    const bool center = send->kind == REPLICA_CENTER;
    const int status = result->status;
    if (status >= 200 && status < 300) {
        if (send->whole) {
            count(upload, send, result->seconds);
        }
        return 0;
    }
    const int rc = outbox_tasks_judge(send->kind, status, retry_ms);
    char message[MESSAGE_SIZE];
    (void)problem_read(upload->reply.data ? upload->reply.data : "", upload->reply.size, message);
    return err_set(err, rc, "version %" PRId64 " of unit %zu: %s answers %d %s", send->version,
                   send->unit, center ? "the center" : upload->config.neighbor.device.text, status,
                   message);
}

static int call_once(struct outbox_upload *upload, enum replica_kind kind,
                     const struct http_call *call, struct http_result *result, bool *other,
                     struct err *err)
{
    const struct outbox_upload_config *config = &upload->config;
    const struct way_target target = {.device = &config->neighbor.device,
                                      .plan = &config->plan,
                                      .relay_ticket = config->neighbor.relay_ticket};
    *other = false;
    return kind == REPLICA_CENTER
               ? http_client_call(upload->client[kind], call, result, err)
               : ways_call(config->ways, &target, upload->client[kind], call, result, other, err);
}

int outbox_upload_send(struct outbox_upload *upload, const struct outbox_send *send,
                       const struct snapshot *snapshot, int64_t *retry_ms, struct err *err)
{
    const bool center = send->kind == REPLICA_CENTER;
    char url[URL_MAX];
    if (!center && !upload->config.has_neighbor) {
        return err_set(err, ERR_STALE, "there is no neighbor to replicate to");
    }
    write_url(upload, send, url);
    upload->snapshot = snapshot;
    struct http_call call = {
        .method = "PUT",
        .url = url,
        .bearer = center ? NULL : upload->config.neighbor.ticket,
        .tls = &upload->tls[send->kind],
        .content_type = "application/octet-stream",
        .reply = &upload->reply,
        .connect_timeout_ms = center ? 0 : upload->config.peer_ms,
        .stall_ms = center ? OUTBOX_CENTER_STALL_MS : upload->config.peer_ms,
        .cancel = upload->config.interrupt,
    };
    if (send->whole) {
        call.read = read_chunk;
        call.read_arg = upload;
        call.body_size = (uint64_t)send->bytes;
    }
    struct http_result result;
    int rc = 0;
    bool again = true;
    for (unsigned ways = 0; again;) {
        bool other = false;
        upload->offset = 0;
        upload->yielded_seconds = 0;
        rc = call_once(upload, send->kind, &call, &result, &other, err);
        again = take_try(upload, send->kind, rc, err);
        /* outbox_queue.h decides when a copy is sent again. But try other ways now: a neighbor that
         * is reachable by one of them would count as unreachable until then. */
        again = again || (other && ++ways <= RELAYS_MAX);
    }
    return rc ? rc : judge_answer(upload, send, &result, retry_ms, err);
}
