/* http_call.h: one call on one libcurl handle, shared by http_client.c (one at a time) and
 * http_multi.c (several). For these only. A transfer belongs to one thread and is reused: libcurl
 * keeps its handle, and we allocate nothing per call after the size of the headers has settled. */
#ifndef NET_HTTP_CALL_H
#define NET_HTTP_CALL_H

#include <curl/curl.h>
#include <stdbool.h>

#include "net/http_client.h"

/* The longest wait between two checks of cancel flags and stall deadlines. */
#define HTTP_CALL_LOOK_MS 100

struct http_transfer {
    CURL *easy;
    struct curl_slist *headers;                     /* of the last call, reused while equal */
    struct curl_slist *relay_header, *relay_target; /* the same for calls through a relay */
    struct http_call call;
    struct tls_client tls; /* the present TLS settings of the handle */
    uint64_t sent;         /* bytes of the body handed to libcurl */
    struct err failure;    /* failure of our own callbacks; code 0: none */
    uint64_t moved;        /* bytes in both directions at the last check */
    int64_t moved_at_ms;   /* when `moved` last changed */
    enum http_breakage breakage;
    enum http_contact contact; /* of the failed call */
    char curl_text[CURL_ERROR_SIZE];
};

/* Create the handle. buffer_bytes: libcurl's receive buffer; upload_bytes: its send buffer. */
NODISCARD int http_transfer_init(struct http_transfer *transfer, long buffer_bytes,
                                 long upload_bytes, struct err *err);
void http_transfer_done(struct http_transfer *transfer);
/* Copy the call and set the handle up for it. */
NODISCARD int http_transfer_prepare(struct http_transfer *transfer, const struct http_call *call,
                                    struct err *err);
/* Convert libcurl's code for a whole multi handle: ERR_MEMORY or ERR_IO. */
NODISCARD int http_transfer_multi_error(CURLMcode code, struct err *err);
/* Return whether the call has a flag or deadline of ours to check while it waits. */
bool http_transfer_is_watched(const struct http_transfer *transfer);
/* Check the cancel flag and the stall deadline. ERR_CANCELLED or ERR_TIMEOUT: the call must end
 * now. */
NODISCARD int http_transfer_look(struct http_transfer *transfer, struct err *err);
/* Convert libcurl's result: 0 and *out, or an error. */
NODISCARD int http_transfer_finish(struct http_transfer *transfer, CURLcode verdict,
                                   struct http_result *out, struct err *err);

#endif
