/* api.h: calls to a coordinator's public API, for the commands of the cli. One thread. A
 * rejected call becomes an error of one line and one fault for each field that the server names. */
#ifndef CLI_API_H
#define CLI_API_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/record.h"
#include "net/http_client.h"
#include "net/tls.h"

#define API_SERVER_SIZE 256
#define API_PATH_SIZE 4096
#define API_TOKEN_SIZE 256

struct api {
    struct http_multi *calls;     /* one at a time */
    char server[API_SERVER_SIZE]; /* "http://127.0.0.1:7410", without a slash at the end */
    char token[API_TOKEN_SIZE];   /* sent with every call; "": none */
    struct buf authorities;       /* PEM; empty: the system's */
    struct tls_client tls;        /* refers to authorities */
    char ca_path[API_PATH_SIZE];  /* their file */
    struct buf reply;             /* of the last call */
    struct record_faults faults;  /* of the last rejected call */
    bool answered;                /* by a server, once at least */
    int status;                   /* of the last answer; 0: none */
    int stop_fd;                  /* readable: end the call with ERR_CANCELLED; -1: none */
};

/* A call. Members as in struct http_call. */
struct api_call {
    const char *method, *path;
    const char *content_type; /* NULL: JSON, if there is a body */
    const char *header;       /* one more; NULL: none */
    const char *body;         /* NULL: none, or `read` */
    size_t size;
    ssize_t (*read)(void *arg, void *out, size_t size);
    void *read_arg;
    int (*write)(void *arg, const void *data, size_t size); /* NULL: into api->reply */
    void *write_arg;
    int wait_seconds; /* how long the server may delay the answer */
    bool unlimited;   /* of any length, as long as bytes arrive */
};

/* ERR_INVALID: server is not an http or https URL with only a host and port. */
NODISCARD int api_open(struct api *api, const char *server, struct err *err);
void api_close(struct api *api);
/* Send this token with every call; "": none. */
NODISCARD int api_authorize(struct api *api, const char *token, struct err *err);
/* Trust the certificates in a file and no others. */
NODISCARD int api_trust(struct api *api, const char *path, struct err *err);
/* Fetch the authority of the coordinator, which may be anybody until then, and trust it and no
 * others if it has this SHA-256 (hexadecimal). ERR_INVALID: it has another one. */
NODISCARD int api_pin(struct api *api, const char *sha256, struct err *err);
/* Call server + path and store the answer in api->reply. body: JSON, or NULL. wait_seconds: how
 * long the server may delay the answer. The text of ERR_NETWORK says what to check. Answers other
 * than 2xx are ERR_NOT_FOUND (404), ERR_STATE (503: stopping or overloaded) or ERR_INVALID, with
 * api->faults. */
NODISCARD int api_call(struct api *api, const char *method, const char *path, const char *body,
                       size_t size, int wait_seconds, struct err *err);
/* The same for any call. */
NODISCARD int api_make(struct api *api, const struct api_call *call, struct err *err);
/* Parse the last answer. */
NODISCARD int api_json(const struct api *api, json_t **out, struct err *err);
/* Read the last answer into a struct that holds the defaults; record_done is due afterwards.
 * ERR_PROTOCOL: this version does not understand it. */
NODISCARD int api_read(const struct api *api, const struct record *record, void *out,
                       struct err *err);
/* Write the last answer as indented JSON. */
NODISCARD int api_print(const struct api *api, FILE *out, struct err *err);
/* Wait, at most ms. ERR_CANCELLED: stop_fd is readable; ERR_IO: nobody reads out any more. */
NODISCARD int api_pause(const struct api *api, FILE *out, int ms, struct err *err);
/* Write text to out, and at once. ERR_IO: its reader has gone. */
NODISCARD int api_write(FILE *out, const struct buf *text, struct err *err);

#endif
