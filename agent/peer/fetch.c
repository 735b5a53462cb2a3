#include "agent/peer/fetch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runtime/links.h"
#include "base/buf.h"
#include "base/clock.h"
#include "net/http_client.h"
#include "schema/problem.h"

#define REPLY_MAX 16384

struct fetch {
    struct cancel *cancel;
    const struct trust *trust;
    struct ways *ways;
    const struct fetch_peer *peer; /* NULL: the coordinator */
    struct tls_client peer_tls;
    struct http_client *client;
    struct buf reply;
    /* the target of the current call's answer */
    unsigned char *out;
    size_t size, got;
};

int fetch_new(struct cancel *cancel, const struct trust *trust, struct ways *ways,
              struct fetch **out, struct err *err)
{
    struct fetch *fetch = calloc(1, sizeof(*fetch));
    if (!fetch) {
        return err_set(err, ERR_MEMORY, "calls");
    }
    fetch->cancel = cancel;
    fetch->trust = trust;
    fetch->ways = ways;
    buf_init(&fetch->reply, REPLY_MAX);
    int rc = http_client_new(&fetch->client, err);
    if (rc != 0) {
        free(fetch);
        return rc;
    }
    *out = fetch;
    return 0;
}

void fetch_free(struct fetch **fetch)
{
    if (*fetch) {
        http_client_free(&(*fetch)->client);
        buf_done(&(*fetch)->reply);
        free(*fetch);
        *fetch = NULL;
    }
}

static int take_bytes(void *arg, const void *data, size_t size)
{
    struct fetch *fetch = arg;
    if (size > fetch->size - fetch->got) {
        return ERR_LIMIT;
    }
    memcpy(fetch->out + fetch->got, data, size);
    fetch->got += size;
    return 0;
}

/* The code of an answer (repeat.h). */
static int judge(const struct fetch *fetch, enum repeat_kind kind, const struct http_call *call,
                 const struct http_result *result, struct err *err)
{
    const int rc = repeat_code(kind, result->status);
    if (rc == 0) {
        return 0;
    }
    char message[MESSAGE_SIZE];
    (void)problem_read(fetch->reply.data ? fetch->reply.data : "", fetch->reply.size, message);
    return err_set(err, rc, "%s %s: answers %d %s", call->method, call->url, result->status,
                   message);
}

void fetch_set_peer(struct fetch *fetch, const struct fetch_peer *peer)
{
    fetch->peer = peer;
    if (peer) {
        trust_peer(fetch->trust, peer->public_key, &fetch->peer_tls);
    }
}

/* Note the result of a try for a peer. */
static void take_try(const struct fetch *fetch, struct repeat *repeat, int rc,
                     const struct err *why, int64_t began_ms, bool other, struct repeat_next *next)
{
    const struct repeat_try tried = {
        .code = rc,
        .trouble = trouble_kind(rc, http_client_breakage(fetch->client)),
        .moved = fetch->got > 0 || other,
        .began_ms = began_ms,
        .now_ms = clock_now_ms(),
    };
    repeat_tried(repeat, &tried, next);
    if (fetch->peer) {
        troubles_note(fetch->peer->troubles, TROUBLE_FETCH, &fetch->peer->device, next->news,
                      tried.trouble, why);
    }
}

static int call_once(struct fetch *fetch, const struct http_call *call, struct http_result *result,
                     bool *other, struct err *err)
{
    const struct fetch_peer *peer = fetch->peer;
    if (!peer) {
        *other = false;
        return http_client_call(fetch->client, call, result, err);
    }
    const struct way_target target = {.device = &peer->device,
                                      .plan = &peer->plan,
                                      .relay_ticket = peer->relay_ticket,
                                      .first = peer->kind == REPEAT_PING};
    return ways_call(fetch->ways, &target, fetch->client, call, result, other, err);
}

/* Repeat the call until it gets a final answer. */
static int repeat_call(struct fetch *fetch, struct http_call *call, struct http_result *result,
                       struct err *err)
{
    struct repeat repeat;
    struct repeat_next next;
    unsigned ways = 0;
    repeat_begin(&repeat, fetch->peer ? fetch->peer->kind : REPEAT_CONTENT,
                 fetch->peer ? fetch->peer->peer_ms : 0);
    call->tls = fetch->peer ? &fetch->peer_tls : fetch->trust ? &fetch->trust->coordinator : NULL;
    call->reply = &fetch->reply;
    call->stall_ms = repeat_stall_ms(&repeat);
    call->connect_timeout_ms = fetch->peer ? repeat_stall_ms(&repeat) : 0;
    call->cancel = &fetch->cancel->flag;
    for (;;) {
        fetch->got = 0;
        const int64_t began_ms = clock_now_ms();
        bool other = false;
        int rc = call_once(fetch, call, result, &other, err);
        rc = rc ? rc : judge(fetch, repeat.kind, call, result, err);
        /* Try each other way once. */
        other = other && ++ways <= RELAYS_MAX;
        take_try(fetch, &repeat, rc, err, began_ms, other, &next);
        if (!next.again) {
            return rc == ERR_STATE ? err_set(err, ERR_TIMEOUT, "%s %s: still answers %d",
                                             call->method, call->url, result->status)
                                   : rc;
        }
        if (cancel_wait(fetch->cancel, next.wait_ms * NS_PER_MS)) {
            return err_set(err, ERR_CANCELLED, "%s %s: cancelled", call->method, call->url);
        }
    }
}

static int get(struct fetch *fetch, struct http_call *call, void *out, size_t size,
               struct http_result *result, struct err *err)
{
    call->method = "GET";
    call->write = take_bytes;
    call->write_arg = fetch;
    fetch->out = out;
    fetch->size = size;
    const int rc = repeat_call(fetch, call, result, err);
    if (rc == 0 && fetch->peer && fetch->peer->links) {
        links_note(fetch->peer->links, LINK_FETCH, &fetch->peer->device, (double)fetch->got,
                   result->seconds);
    }
    return rc;
}

int64_t fetch_get(struct fetch *fetch, const char *url, const char *bearer, uint64_t offset,
                  void *out, size_t size, struct err *err)
{
    char range[64];
    (void)snprintf(range, sizeof(range), "Range: bytes=%" PRIu64 "-%" PRIu64, offset,
                   offset + size - 1);
    struct http_call call = {.url = url, .bearer = bearer, .header = {range}};
    struct http_result result;
    const int rc = get(fetch, &call, out, size, &result, err);
    if (rc != 0) {
        return rc;
    }
    if (result.status != 206 && !(result.status == 200 && offset == 0)) {
        return err_set(err, ERR_PROTOCOL, "GET %s: answers %d to a range", url, result.status);
    }
    return (int64_t)fetch->got;
}

int64_t fetch_get_whole(struct fetch *fetch, const char *url, const char *bearer, void *out,
                        size_t size, struct err *err)
{
    struct http_call call = {.url = url, .bearer = bearer};
    struct http_result result;
    const int rc = get(fetch, &call, out, size, &result, err);
    if (rc != 0) {
        return rc;
    }
    if (fetch->got != size) {
        return err_set(err, ERR_FORMAT, "GET %s: %zu bytes, expected %zu", url, fetch->got, size);
    }
    return (int64_t)size;
}

int fetch_ping(struct fetch *fetch, const char *url, const char *bearer, struct err *err)
{
    struct http_call call = {.method = "GET", .url = url, .bearer = bearer};
    struct http_result result;
    return repeat_call(fetch, &call, &result, err);
}
