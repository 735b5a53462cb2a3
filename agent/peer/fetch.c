#include "agent/peer/fetch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "net/http_client.h"
#include "schema/problem.h"

#define RETRY_NS_FIRST INT64_C(20000000)
#define RETRY_NS_MAX INT64_C(1000000000)
#define STALL_MS 10000
#define REPLY_MAX 16384

struct fetch {
    struct cancel *cancel;
    const struct fetch_peer *peer; /* NULL: the coordinator */
    int64_t patience_ms;
    struct http_client *client;
    struct buf reply;
    /* where the answer of the call under way goes */
    unsigned char *out;
    size_t size, got;
};

int fetch_new(struct cancel *cancel, int64_t patience_ms, struct fetch **out, struct err *err)
{
    struct fetch *fetch = calloc(1, sizeof(*fetch));
    if (!fetch) {
        return err_set(err, ERR_MEMORY, "calls");
    }
    fetch->cancel = cancel;
    fetch->patience_ms = patience_ms;
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

/* What an answer means: 0, ERR_STATE (try again), or a final error. */
static int judge(const struct fetch *fetch, const struct http_call *call,
                 const struct http_result *result, struct err *err)
{
    const int status = result->status;
    if (status >= 200 && status < 300) {
        return 0;
    }
    int rc = ERR_PROTOCOL;
    if (status == 429 || status >= 500) {
        rc = ERR_STATE;
    } else if (status == 404) {
        rc = ERR_NOT_FOUND;
    } else if (status == 401 || status == 403 || status == 409) {
        rc = ERR_STALE;
    }
    char message[MESSAGE_SIZE];
    (void)problem_read(fetch->reply.data ? fetch->reply.data : "", fetch->reply.size, message);
    return err_set(err, rc, "%s %s: answers %d %s", call->method, call->url, status, message);
}

void fetch_set_peer(struct fetch *fetch, const struct fetch_peer *peer)
{
    fetch->peer = peer;
}

/* What a try shows of a peer. */
static void judge_peer(const struct fetch *fetch, int rc)
{
    if (!fetch->peer || rc == ERR_CANCELLED) {
        return;
    }
    if (rc == ERR_NETWORK || rc == ERR_TIMEOUT) {
        troubles_report(fetch->peer->troubles, TROUBLE_FETCH, &fetch->peer->device,
                        trouble_kind(rc, http_client_breakage(fetch->client)));
    } else {
        troubles_clear(fetch->peer->troubles, TROUBLE_FETCH);
    }
}

/* Make the call until it is answered for good. */
static int repeat(struct fetch *fetch, struct http_call *call, struct http_result *result,
                  struct err *err)
{
    call->reply = &fetch->reply;
    call->stall_ms = fetch->peer ? fetch->peer->stall_ms : STALL_MS;
    call->connect_timeout_ms = fetch->peer ? fetch->peer->stall_ms : 0;
    call->cancel = &fetch->cancel->flag;
    int64_t failing_since_ms = 0;
    int64_t wait_ns = RETRY_NS_FIRST;
    for (;;) {
        fetch->got = 0;
        const int64_t began_ms = clock_now_ms();
        int rc = http_client_call(fetch->client, call, result, err);
        judge_peer(fetch, rc);
        rc = rc ? rc : judge(fetch, call, result, err);
        if (rc != ERR_NETWORK && rc != ERR_TIMEOUT && rc != ERR_STATE) {
            return rc;
        }
        if (failing_since_ms == 0 || fetch->got > 0) {
            failing_since_ms = began_ms;
        }
        const int64_t patience_ms =
            fetch->peer && rc != ERR_STATE ? fetch->peer->network_ms : fetch->patience_ms;
        if (clock_now_ms() - failing_since_ms > patience_ms) {
            return rc == ERR_STATE
                       ? err_set(err, ERR_TIMEOUT, "%s %s: answers %d for %" PRId64 " s",
                                 call->method, call->url, result->status, fetch->patience_ms / 1000)
                       : rc;
        }
        if (cancel_wait(fetch->cancel, wait_ns)) {
            return err_set(err, ERR_CANCELLED, "%s %s: cancelled", call->method, call->url);
        }
        wait_ns = 2 * wait_ns < RETRY_NS_MAX ? 2 * wait_ns : RETRY_NS_MAX;
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
    return repeat(fetch, call, result, err);
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
    return repeat(fetch, &call, &result, err);
}
