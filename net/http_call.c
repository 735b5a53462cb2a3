#include "net/http_call.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "net/http_trust.h"

#define CONNECT_TIMEOUT_MS 5000
/* A contiguous body of up to this size is sent with the headers, in one packet. */
#define SMALL_BODY_BYTES ((uint64_t)64 << 10)
#define HEADER_TEXT_MAX 1024

static int memory_error(struct err *err)
{
    return err_set(err, ERR_MEMORY, "no memory for an HTTP call");
}

/* ---- callbacks ---- */

static uint64_t pieces_size(const struct http_call *call)
{
    uint64_t size = 0;
    for (size_t i = 0; i < HTTP_CALL_PIECES_MAX; i++) {
        size += call->body[i].size;
    }
    return size;
}

static size_t copy_pieces(const struct http_call *call, uint64_t offset, char *out, size_t size)
{
    size_t copied = 0;
    for (size_t i = 0; i < HTTP_CALL_PIECES_MAX && copied < size; i++) {
        const struct http_piece *piece = &call->body[i];
        if (offset >= piece->size) {
            offset -= piece->size;
            continue;
        }
        size_t left = piece->size - (size_t)offset;
        size_t count = left < size - copied ? left : size - copied;
        memcpy(out + copied, (const char *)piece->data + offset, count);
        copied += count;
        offset = 0;
    }
    return copied;
}

static size_t on_read(char *out, size_t item, size_t count, void *arg)
{
    struct http_transfer *transfer = arg;
    const struct http_call *call = &transfer->call;
    size_t size = item * count;
    if (!call->read) {
        size_t copied = copy_pieces(call, transfer->sent, out, size);
        transfer->sent += copied;
        return copied;
    }
    uint64_t left = call->body_size - transfer->sent;
    if (left == 0) {
        return 0;
    }
    ssize_t got = call->read(call->read_arg, out, left < size ? (size_t)left : size);
    if (got < 0) {
        transfer->failure.code =
            err_set(&transfer->failure, ERR_IO, "cannot read the request body");
        return CURL_READFUNC_ABORT;
    }
    if (got == 0) {
        transfer->failure.code = err_set(&transfer->failure, ERR_FORMAT,
                                         "the body ended after %" PRIu64 " of %" PRIu64 " bytes",
                                         transfer->sent, call->body_size);
        return CURL_READFUNC_ABORT;
    }
    transfer->sent += (uint64_t)got;
    return (size_t)got;
}

/* libcurl rewinds the body when a kept connection turns out to be dead. */
static int on_seek(void *arg, curl_off_t offset, int origin)
{
    struct http_transfer *transfer = arg;
    if (origin != SEEK_SET || offset < 0) {
        return CURL_SEEKFUNC_FAIL;
    }
    if (transfer->call.read) {
        return (uint64_t)offset == transfer->sent ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_CANTSEEK;
    }
    transfer->sent = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

static size_t on_write(char *data, size_t item, size_t count, void *arg)
{
    struct http_transfer *transfer = arg;
    const struct http_call *call = &transfer->call;
    size_t size = item * count;
    long status = 0;
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    int rc = 0;
    if (call->write && status >= 200 && status < 300) {
        rc = call->write(call->write_arg, data, size);
        if (rc) {
            transfer->failure.code =
                err_set(&transfer->failure, rc, "the receiver rejected the response");
        }
    } else if (call->reply) {
        struct err why = {0};
        rc = buf_append(call->reply, data, size, &why);
        if (rc) {
            transfer->failure.code =
                err_set(&transfer->failure, rc, "the response is too long: %s", why.text);
        }
    }
    return rc ? CURL_WRITEFUNC_ERROR : size;
}

/* ---- the handle ---- */

int http_transfer_init(struct http_transfer *transfer, long buffer_bytes, long upload_bytes,
                       struct err *err)
{
    *transfer = (struct http_transfer){.easy = curl_easy_init()};
    CURL *easy = transfer->easy;
    if (!easy) {
        return memory_error(err);
    }
    /* Names of protocols are the only setting that an old library could reject. */
    if (curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") ||
        curl_easy_setopt(easy, CURLOPT_NOPROXY, "*") ||
        curl_easy_setopt(easy, CURLOPT_USERAGENT, "paceline/" PACELINE_VERSION)) {
        http_transfer_done(transfer);
        return memory_error(err);
    }
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, buffer_bytes);
    curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, upload_bytes);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->curl_text);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(easy, CURLOPT_READDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(easy, CURLOPT_SEEKDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    curl_easy_setopt(easy, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE); /* of relays */
    return 0;
}

void http_transfer_done(struct http_transfer *transfer)
{
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->headers);
    curl_slist_free_all(transfer->relay_header);
    curl_slist_free_all(transfer->relay_target);
    *transfer = (struct http_transfer){0};
}

/* ---- headers ---- */

/* Write header number `index` of a call; false after the last one. */
static bool header_text(const struct http_call *call, size_t index, char out[HEADER_TEXT_MAX],
                        bool *fits)
{
    int size = 0;
    if (index == 0) {
        size = snprintf(out, HEADER_TEXT_MAX, "Expect:"); /* removes libcurl's own */
    } else if (index == 1) {
        /* Without this header, libcurl would declare a web form. */
        size = snprintf(out, HEADER_TEXT_MAX, "Content-Type:%s%s", call->content_type ? " " : "",
                        call->content_type ? call->content_type : "");
    } else if (index - 2 < HTTP_CALL_HEADERS_MAX && call->header[index - 2]) {
        size = snprintf(out, HEADER_TEXT_MAX, "%s", call->header[index - 2]);
    } else if (call->bearer &&
               (index == 2 || (index - 3 < HTTP_CALL_HEADERS_MAX && call->header[index - 3]))) {
        size = snprintf(out, HEADER_TEXT_MAX, "Authorization: Bearer %s", call->bearer);
    } else {
        return false;
    }
    *fits = size >= 0 && size < HEADER_TEXT_MAX;
    return true;
}

static bool same_headers(const struct http_transfer *transfer)
{
    char text[HEADER_TEXT_MAX];
    bool fits = true;
    const struct curl_slist *old = transfer->headers;
    size_t index = 0;
    for (; header_text(&transfer->call, index, text, &fits); index++) {
        if (!old || !fits || strcmp(old->data, text) != 0) {
            return false;
        }
        old = old->next;
    }
    return !old;
}

static int set_headers(struct http_transfer *transfer, struct err *err)
{
    if (!same_headers(transfer)) {
        curl_slist_free_all(transfer->headers);
        transfer->headers = NULL;
        char text[HEADER_TEXT_MAX];
        bool fits = true;
        for (size_t i = 0; header_text(&transfer->call, i, text, &fits); i++) {
            struct curl_slist *longer = fits ? curl_slist_append(transfer->headers, text) : NULL;
            if (!longer) {
                return fits ? memory_error(err)
                            : err_set(err, ERR_LIMIT, "a request header is longer than %d bytes",
                                      HEADER_TEXT_MAX - 1);
            }
            transfer->headers = longer;
        }
    }
    curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, transfer->headers);
    return 0;
}

/* ---- relays ---- */

/* Make the list consist of this line. A list that already does is kept. size: the result of
 * snprintf for the line. */
static int set_line(struct curl_slist **list, const char *line, int size, struct err *err)
{
    if (size < 0 || size >= HEADER_TEXT_MAX) {
        return err_set(err, ERR_LIMIT, "the name or the ticket of a relay is too long");
    }
    if (!*list || strcmp((*list)->data, line) != 0) {
        curl_slist_free_all(*list);
        *list = curl_slist_append(NULL, line);
    }
    return *list ? 0 : memory_error(err);
}

/* For libcurl a relay is a proxy that opens tunnels to the names of parked servers. It sees its
 * ticket and encrypted bytes. */
static int set_relay(struct http_transfer *transfer, struct err *err)
{
    const struct http_relay *relay = transfer->call.relay;
    CURL *easy = transfer->easy;
    int rc = 0;
    if (relay) {
        char line[HEADER_TEXT_MAX];
        int size = snprintf(line, sizeof(line), "Proxy-Authorization: Bearer %s", relay->ticket);
        rc = set_line(&transfer->relay_header, line, size, err);
        size = snprintf(line, sizeof(line), "::%s:1", relay->name);
        rc = rc ? rc : set_line(&transfer->relay_target, line, size, err);
    }
    if (rc) {
        return rc;
    }
    if (curl_easy_setopt(easy, CURLOPT_PROXY, relay ? relay->address : "") ||
        curl_easy_setopt(easy, CURLOPT_NOPROXY, relay ? "" : "*")) {
        return memory_error(err);
    }
    curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, relay ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_PROXYHEADER, relay ? transfer->relay_header : NULL);
    curl_easy_setopt(easy, CURLOPT_CONNECT_TO, relay ? transfer->relay_target : NULL);
    return 0;
}

/* ---- one call ---- */

/* Return the piece that holds the whole body; NULL: several pieces hold it. */
static const struct http_piece *only_piece(const struct http_call *call)
{
    const struct http_piece *found = &call->body[0];
    for (size_t i = 1; i < HTTP_CALL_PIECES_MAX; i++) {
        if (call->body[i].size > 0) {
            if (found->size > 0) {
                return NULL;
            }
            found = &call->body[i];
        }
    }
    return found;
}

static bool takes_body(const char *method)
{
    return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
           strcmp(method, "PATCH") == 0;
}

/* Choose how libcurl sends the body. CURLOPT_HTTPGET first undoes the choice of the last call. */
static int set_body(struct http_transfer *transfer)
{
    const struct http_call *call = &transfer->call;
    CURL *easy = transfer->easy;
    uint64_t size = call->read ? call->body_size : pieces_size(call);
    const struct http_piece *piece = call->read ? NULL : only_piece(call);
    curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    if (size == 0 && !takes_body(call->method)) {
        if (strcmp(call->method, "HEAD") == 0) {
            curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
        }
    } else if (size == 0 || (piece && size <= SMALL_BODY_BYTES)) {
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, size > 0 ? (const char *)piece->data : "");
    } else {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, NULL);
        curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)size);
    }
    return curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method) ? ERR_MEMORY : 0;
}

int http_transfer_prepare(struct http_transfer *transfer, const struct http_call *call,
                          struct err *err)
{
    CURL *easy = transfer->easy;
    transfer->call = *call;
    transfer->sent = 0;
    transfer->failure.code = 0;
    transfer->moved = 0;
    transfer->moved_at_ms = clock_now_ms();
    transfer->curl_text[0] = '\0';
    if (call->reply) {
        buf_clear(call->reply);
    }
    int rc = http_trust_set(easy, &transfer->tls, call->tls, err);
    rc = rc ? rc : set_headers(transfer, err);
    rc = rc ? rc : set_relay(transfer, err);
    if (rc) {
        return rc;
    }
    if (set_body(transfer) || curl_easy_setopt(easy, CURLOPT_URL, call->url)) {
        return memory_error(err);
    }
    int64_t connect_ms = call->connect_timeout_ms ? call->connect_timeout_ms : CONNECT_TIMEOUT_MS;
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)call->timeout_ms);
    return 0;
}

int http_transfer_multi_error(CURLMcode code, struct err *err)
{
    return err_set(err, code == CURLM_OUT_OF_MEMORY ? ERR_MEMORY : ERR_IO, "libcurl: %s",
                   curl_multi_strerror(code));
}

bool http_transfer_is_watched(const struct http_transfer *transfer)
{
    return transfer->call.cancel || transfer->call.stall_ms > 0;
}

/* Determine whether the call reached the server itself. If the key is wrong, another server answers
 * at its address. */
static enum http_contact contact_of(const struct http_transfer *transfer, CURLcode verdict)
{
    long made = 0, sent = 0, answer = 0;
    curl_off_t connected_us = 0;
    if (verdict == CURLE_SSL_CONNECT_ERROR || verdict == CURLE_SSL_PINNEDPUBKEYNOTMATCH ||
        verdict == CURLE_PEER_FAILED_VERIFICATION) {
        return HTTP_NO_CONTACT;
    }
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_NUM_CONNECTS, &made);
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_REQUEST_SIZE, &sent);
    if (made == 0 && sent > 0) {
        return HTTP_KEPT_CONTACT;
    }
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_HTTP_CONNECTCODE, &answer);
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_CONNECT_TIME_T, &connected_us);
    const bool reached = transfer->call.relay ? answer == 200 : connected_us > 0;
    return reached ? HTTP_NEW_CONTACT : HTTP_NO_CONTACT;
}

static int fail(const struct http_transfer *transfer, int code, const char *why, struct err *err)
{
    return err_set(err, code, "%s %s: %s", transfer->call.method, transfer->call.url, why);
}

int http_transfer_look(struct http_transfer *transfer, struct err *err)
{
    const struct http_call *call = &transfer->call;
    if (call->cancel && atomic_load(call->cancel)) {
        return fail(transfer, ERR_CANCELLED, "cancelled", err);
    }
    if (call->stall_ms <= 0) {
        return 0;
    }
    curl_off_t up = 0;
    curl_off_t down = 0;
    long headers = 0;
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_SIZE_UPLOAD_T, &up);
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_SIZE_DOWNLOAD_T, &down);
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_HEADER_SIZE, &headers);
    uint64_t moved = (uint64_t)up + (uint64_t)down + (uint64_t)headers;
    int64_t now_ms = clock_now_ms();
    if (moved != transfer->moved) {
        transfer->moved = moved;
        transfer->moved_at_ms = now_ms;
    } else if (now_ms - transfer->moved_at_ms >= call->stall_ms) {
        char why[64];
        transfer->contact = contact_of(transfer, CURLE_OPERATION_TIMEDOUT);
        (void)snprintf(why, sizeof(why), "no byte moved for %" PRId64 " ms", call->stall_ms);
        return fail(transfer, ERR_TIMEOUT, why, err);
    }
    return 0;
}

/* Convert libcurl's result. Results outside of the table are faults of the network. */
static int code_of(const struct http_transfer *transfer, CURLcode verdict)
{
    static const struct {
        CURLcode verdict;
        int code;
    } table[] = {
        {CURLE_OPERATION_TIMEDOUT, ERR_TIMEOUT},  {CURLE_OUT_OF_MEMORY, ERR_MEMORY},
        {CURLE_URL_MALFORMAT, ERR_INVALID},       {CURLE_UNSUPPORTED_PROTOCOL, ERR_INVALID},
        {CURLE_WEIRD_SERVER_REPLY, ERR_PROTOCOL}, {CURLE_BAD_CONTENT_ENCODING, ERR_PROTOCOL},
    };
    long request_size = 0;
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_REQUEST_SIZE, &request_size);
    if (verdict == CURLE_UNSUPPORTED_PROTOCOL && request_size > 0) {
        /* Not the URL is at fault but the answer, which libcurl takes for HTTP/0.9. */
        return ERR_PROTOCOL;
    }
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].verdict == verdict) {
            return table[i].code;
        }
    }
    return ERR_NETWORK;
}

static enum http_breakage breakage_of(const struct http_transfer *transfer, CURLcode verdict)
{
    long reason = 0;
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &reason);
    if (transfer->call.relay && transfer->contact == HTTP_NO_CONTACT) {
        return HTTP_UNREACHED; /* whatever refused the connection was not the server */
    }
    if (verdict != CURLE_COULDNT_CONNECT && verdict != CURLE_COULDNT_RESOLVE_HOST) {
        return HTTP_BROKEN;
    }
    return reason == ECONNREFUSED ? HTTP_REFUSED : HTTP_UNREACHED;
}

int http_transfer_finish(struct http_transfer *transfer, CURLcode verdict, struct http_result *out,
                         struct err *err)
{
    if (transfer->failure.code) {
        return fail(transfer, transfer->failure.code, transfer->failure.text, err);
    }
    if (verdict) {
        transfer->contact = contact_of(transfer, verdict);
        transfer->breakage = breakage_of(transfer, verdict);
        const char *why =
            transfer->curl_text[0] ? transfer->curl_text : curl_easy_strerror(verdict);
        return fail(transfer, code_of(transfer, verdict), why, err);
    }
    struct http_result result = {0};
    long status = 0;
    curl_off_t retry_after = 0;
    curl_off_t length = -1;
    curl_off_t microseconds = 0;
    char *type = NULL;
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &retry_after);
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_TOTAL_TIME_T, &microseconds);
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_CONTENT_TYPE, &type);
    result.status = (int)status;
    /* A day is as good as never; the bound prevents an overflow. */
    result.retry_after_ms = (retry_after < 86400 ? retry_after : 86400) * 1000;
    result.content_length = length < 0 ? UINT64_MAX : (uint64_t)length;
    result.seconds = (double)microseconds * 1e-6;
    (void)snprintf(result.content_type, sizeof(result.content_type), "%s", type ? type : "");
    *out = result;
    return 0;
}
