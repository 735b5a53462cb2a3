/* api.h: calls to a coordinator's public API, for the commands of the cli. One thread. A
 * rejected call becomes an error of one line and one fault for each field that the server names. */
#ifndef CLI_API_H
#define CLI_API_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/record.h"
#include "net/http_client.h"

#define API_SERVER_SIZE 256
#define API_PATH_SIZE 256

struct api {
    struct http_client *client;
    char server[API_SERVER_SIZE]; /* "http://127.0.0.1:7410", without a slash at the end */
    struct buf reply;             /* of the last call */
    struct record_faults faults;  /* of the last rejected call */
    bool answered;                /* by a server, once at least */
};

/* ERR_INVALID: server is not an http URL with only a host and port. */
NODISCARD int api_open(struct api *api, const char *server, struct err *err);
void api_close(struct api *api);
/* Call server + path and store the answer in api->reply. body: JSON, or NULL. wait_seconds: how
 * long the server may delay the answer. The text of ERR_NETWORK says what to check. Answers other
 * than 2xx are ERR_NOT_FOUND (404), ERR_STATE (503: stopping or overloaded) or ERR_INVALID, with
 * api->faults. */
NODISCARD int api_call(struct api *api, const char *method, const char *path, const char *body,
                       size_t size, int wait_seconds, struct err *err);
/* Read the last answer into a struct that holds the defaults; record_done is due afterwards.
 * ERR_PROTOCOL: this version does not understand it. */
NODISCARD int api_read(const struct api *api, const struct record *record, void *out,
                       struct err *err);
/* Write the last answer as indented JSON. */
NODISCARD int api_print(const struct api *api, FILE *out, struct err *err);

#endif
