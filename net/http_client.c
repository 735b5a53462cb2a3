#include "net/http_client.h"

#include <stdlib.h>

#include "net/http_call.h"

#define BUFFER_BYTES (512L << 10)
#define UPLOAD_BYTES (1024L << 10)
/* Calls without a cancel flag or stall deadline need no checks: libcurl handles its own timers. */
#define UNWATCHED_POLL_MS 10000

struct http_client {
    CURLM *multi; /* drives the one transfer and keeps its connections */
    struct http_transfer transfer;
};

static int memory_error(struct err *err)
{
    return err_set(err, ERR_MEMORY, "no memory for an HTTP client");
}

int http_client_new(struct http_client **out, struct err *err)
{
    struct http_client *client = calloc(1, sizeof(*client));
    if (!client || curl_global_init(CURL_GLOBAL_DEFAULT)) {
        free(client);
        return memory_error(err);
    }
    client->multi = curl_multi_init();
    int rc = client->multi ? http_transfer_init(&client->transfer, BUFFER_BYTES, UPLOAD_BYTES, err)
                           : memory_error(err);
    if (rc) {
        http_client_free(&client);
        return rc;
    }
    *out = client;
    return 0;
}

void http_client_free(struct http_client **client)
{
    if (*client) {
        http_transfer_done(&(*client)->transfer);
        curl_multi_cleanup((*client)->multi);
        curl_global_cleanup();
        free(*client);
        *client = NULL;
    }
}

/* Drive the transfer to libcurl's verdict, or until it must end. */
static int drive(struct http_client *client, CURLcode *verdict, struct err *err)
{
    int poll_ms =
        http_transfer_is_watched(&client->transfer) ? HTTP_CALL_LOOK_MS : UNWATCHED_POLL_MS;
    for (;;) {
        int running = 0;
        CURLMcode code = curl_multi_perform(client->multi, &running);
        if (code) {
            return http_transfer_multi_error(code, err);
        }
        int left = 0;
        const CURLMsg *message = curl_multi_info_read(client->multi, &left);
        if (message && message->msg == CURLMSG_DONE) {
            *verdict = message->data.result;
            return 0;
        }
        int rc = http_transfer_look(&client->transfer, err);
        if (rc) {
            return rc;
        }
        code = curl_multi_poll(client->multi, NULL, 0, poll_ms, NULL);
        if (code) {
            return http_transfer_multi_error(code, err);
        }
    }
}

int http_client_call(struct http_client *client, const struct http_call *call,
                     struct http_result *out, struct err *err)
{
    int rc = http_transfer_prepare(&client->transfer, call, err);
    if (rc) {
        return rc;
    }
    CURLMcode code = curl_multi_add_handle(client->multi, client->transfer.easy);
    if (code) {
        return http_transfer_multi_error(code, err);
    }
    CURLcode verdict = CURLE_OK;
    rc = drive(client, &verdict, err);
    if (!rc) {
        rc = http_transfer_finish(&client->transfer, verdict, out, err);
    }
    (void)curl_multi_remove_handle(client->multi, client->transfer.easy);
    return rc;
}

enum http_breakage http_client_breakage(const struct http_client *client)
{
    return client->transfer.breakage;
}

enum http_contact http_client_contact(const struct http_client *client)
{
    return client->transfer.contact;
}
