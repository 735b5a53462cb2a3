#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "net/http_call.h"

#define BUFFER_BYTES (64L << 10)
#define UPLOAD_BYTES (64L << 10)
#define EXTRA_MAX 16
/* A handle consists of the slot's index and, in the bits above, the slot's use count. So a stale
 * handle never refers to a later call. */
#define SLOT_BITS 8
#define USES_MASK 0x3fffff

struct slot {
    struct http_transfer transfer; /* easy is NULL until the slot is first used */
    http_done_fn done;
    void *arg;
    unsigned uses;
    bool busy;
    bool cancelled;
};

struct http_multi {
    CURLM *multi;
    struct slot slot[HTTP_MULTI_CALLS_MAX];
};

_Static_assert(HTTP_MULTI_CALLS_MAX <= 1 << SLOT_BITS, "a handle holds the number of its slot");

int http_multi_new(struct http_multi **out, struct err *err)
{
    struct http_multi *multi = calloc(1, sizeof(*multi));
    if (!multi || curl_global_init(CURL_GLOBAL_DEFAULT)) {
        free(multi);
        return err_set(err, ERR_MEMORY, "no memory for an HTTP client");
    }
    multi->multi = curl_multi_init();
    if (!multi->multi) {
        http_multi_free(&multi);
        return err_set(err, ERR_MEMORY, "no memory for an HTTP client");
    }
    *out = multi;
    return 0;
}

void http_multi_free(struct http_multi **multi)
{
    struct http_multi *dying = *multi;
    if (!dying) {
        return;
    }
    for (size_t i = 0; i < HTTP_MULTI_CALLS_MAX; i++) {
        if (dying->slot[i].busy) {
            (void)curl_multi_remove_handle(dying->multi, dying->slot[i].transfer.easy);
        }
        http_transfer_done(&dying->slot[i].transfer);
    }
    curl_multi_cleanup(dying->multi);
    curl_global_cleanup();
    free(dying);
    *multi = NULL;
}

static int handle_of(const struct http_multi *multi, const struct slot *slot)
{
    return (int)((slot->uses & USES_MASK) << SLOT_BITS | (unsigned)(slot - multi->slot));
}

int http_multi_start(struct http_multi *multi, const struct http_call *call, http_done_fn done,
                     void *arg, struct err *err)
{
    struct slot *slot = multi->slot;
    while (slot->busy) {
        if (++slot == multi->slot + HTTP_MULTI_CALLS_MAX) {
            return err_set(err, ERR_LIMIT, "%s %s: more than %d calls at once", call->method,
                           call->url, HTTP_MULTI_CALLS_MAX);
        }
    }
    int rc = slot->transfer.easy
                 ? 0
                 : http_transfer_init(&slot->transfer, BUFFER_BYTES, UPLOAD_BYTES, err);
    if (!rc) {
        rc = http_transfer_prepare(&slot->transfer, call, err);
    }
    if (rc) {
        return rc;
    }
    CURLMcode code = curl_multi_add_handle(multi->multi, slot->transfer.easy);
    if (code) {
        return err_set(err, code == CURLM_OUT_OF_MEMORY ? ERR_MEMORY : ERR_IO, "%s %s: %s",
                       call->method, call->url, curl_multi_strerror(code));
    }
    slot->busy = true;
    slot->cancelled = false;
    slot->uses++;
    slot->done = done;
    slot->arg = arg;
    return handle_of(multi, slot);
}

void http_multi_cancel(struct http_multi *multi, int handle)
{
    size_t index = (unsigned)handle & ((1u << SLOT_BITS) - 1);
    if (handle < 0 || index >= HTTP_MULTI_CALLS_MAX) {
        return;
    }
    struct slot *slot = &multi->slot[index];
    if (slot->busy && handle_of(multi, slot) == handle) {
        slot->cancelled = true;
    }
}

/* Free the slot, then notify the owner, which may start the next call from within. */
static void end(struct http_multi *multi, struct slot *slot, int code,
                const struct http_result *result, const struct err *err)
{
    (void)curl_multi_remove_handle(multi->multi, slot->transfer.easy);
    slot->busy = false;
    slot->done(slot->arg, code, code ? NULL : result, err);
}

/* End cancelled and stalled calls. Returns how many calls ended. */
static size_t end_overdue(struct http_multi *multi)
{
    size_t ended = 0;
    for (size_t i = 0; i < HTTP_MULTI_CALLS_MAX; i++) {
        struct slot *slot = &multi->slot[i];
        if (!slot->busy) {
            continue;
        }
        const struct http_call *call = &slot->transfer.call;
        struct err err = {0};
        int rc = slot->cancelled
                     ? err_set(&err, ERR_CANCELLED, "%s %s: cancelled", call->method, call->url)
                     : http_transfer_look(&slot->transfer, &err);
        if (rc) {
            end(multi, slot, rc, NULL, &err);
            ended++;
        }
    }
    return ended;
}

/* Notify the owners of the calls that libcurl has finished. */
static size_t end_finished(struct http_multi *multi)
{
    size_t ended = 0;
    int left = 0;
    for (const CURLMsg *message; (message = curl_multi_info_read(multi->multi, &left)) != NULL;) {
        if (message->msg != CURLMSG_DONE) {
            continue;
        }
        CURLcode verdict = message->data.result;
        char *private_text = NULL;
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private_text);
        struct slot *slot = (struct slot *)(void *)private_text;
        struct http_result result = {0};
        struct err err = {0};
        int rc = http_transfer_finish(&slot->transfer, verdict, &result, &err);
        end(multi, slot, rc, &result, &err);
        ended++;
    }
    return ended;
}

static int wait_limit(const struct http_multi *multi, int timeout_ms)
{
    for (size_t i = 0; i < HTTP_MULTI_CALLS_MAX; i++) {
        const struct slot *slot = &multi->slot[i];
        if (slot->busy && http_transfer_is_watched(&slot->transfer) &&
            timeout_ms > HTTP_CALL_LOOK_MS) {
            return HTTP_CALL_LOOK_MS;
        }
    }
    return timeout_ms;
}

static int perform(struct http_multi *multi, size_t *ended, struct err *err)
{
    int running = 0;
    CURLMcode code = curl_multi_perform(multi->multi, &running);
    if (code) {
        return http_transfer_multi_error(code, err);
    }
    *ended += end_finished(multi);
    return 0;
}

int http_multi_poll(struct http_multi *multi, struct pollfd *extra, size_t extra_count,
                    int timeout_ms, struct err *err)
{
    ASSERT(extra_count <= EXTRA_MAX && timeout_ms >= 0);
    struct curl_waitfd wait[EXTRA_MAX];
    for (size_t i = 0; i < extra_count; i++) {
        /* libcurl's flags, which may differ from those of poll. */
        unsigned events = (extra[i].events & POLLIN ? CURL_WAIT_POLLIN : 0u) |
                          (extra[i].events & POLLPRI ? CURL_WAIT_POLLPRI : 0u) |
                          (extra[i].events & POLLOUT ? CURL_WAIT_POLLOUT : 0u);
        wait[i] = (struct curl_waitfd){.fd = extra[i].fd, .events = (short)events};
    }
    /* Let new calls send before the wait. If a call has already ended, do not wait. */
    size_t ended = end_overdue(multi);
    int rc = perform(multi, &ended, err);
    if (rc) {
        return rc;
    }
    int wait_ms = ended > 0 ? 0 : wait_limit(multi, timeout_ms);
    CURLMcode code = curl_multi_poll(multi->multi, wait, (unsigned)extra_count, wait_ms, NULL);
    if (code) {
        return http_transfer_multi_error(code, err);
    }
    /* libcurl does not report hang-ups of extra descriptors. */
    if (extra_count > 0 && poll(extra, extra_count, 0) < 0 && errno != EINTR) {
        return err_set(err, ERR_IO, "poll: %s", strerror(errno));
    }
    rc = perform(multi, &ended, err);
    if (!rc) {
        (void)end_overdue(multi);
    }
    return rc;
}
