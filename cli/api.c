#include "cli/api.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "net/certificate.h"
#include "net/hash.h"
#include "schema/limits.h"
#include "schema/problem.h"
#include "schema/token.h"
#include "schema/wire.h"

#define REPLY_BYTES_MAX ((size_t)16 << 20)
/* Added to the wait that the call requests of the server. */
#define CALL_TIMEOUT_MS 30000
#define STALL_MS 60000 /* longest stall of a call without a time limit */
#define AUTHORITIES_BYTES_MAX ((size_t)1 << 20)
#define POLL_MS 10000 /* libcurl handles its own timers */

int api_open(struct api *api, const char *server, struct err *err)
{
    *api = (struct api){.stop_fd = -1};
    buf_init(&api->reply, REPLY_BYTES_MAX);
    size_t size = strlen(server);
    while (size > 0 && server[size - 1] == '/') {
        size--;
    }
    const size_t scheme = strncmp(server, "http://", 7) == 0    ? 7
                          : strncmp(server, "https://", 8) == 0 ? 8
                                                                : 0;
    size_t host_size = scheme > 0 && size > scheme ? size - scheme : 0;
    if (host_size == 0 || strcspn(server + scheme, "/?#@ ") < host_size ||
        size >= sizeof(api->server)) {
        return err_set(err, ERR_INVALID,
                       "'%s' is not a server; expected a URL such as http://127.0.0.1:7410",
                       token_is_meant(server) ? "pl_..." : server);
    }
    memcpy(api->server, server, size);
    api->server[size] = '\0';
    return http_multi_new(&api->calls, err);
}

void api_close(struct api *api)
{
    if (api->calls) {
        http_multi_free(&api->calls);
    }
    buf_done(&api->reply);
    buf_done(&api->authorities);
}

int api_authorize(struct api *api, const char *token, struct err *err)
{
    size_t size = strlen(token);
    for (size_t i = 0; i < size; i++) {
        if (token[i] <= ' ' || token[i] > '~') {
            return err_set(err, ERR_INVALID, "the token has a character that no token has");
        }
    }
    if (size >= sizeof(api->token)) {
        return err_set(err, ERR_INVALID, "the token is longer than %zu bytes",
                       sizeof(api->token) - 1);
    }
    memcpy(api->token, token, size + 1);
    return 0;
}

int api_trust(struct api *api, const char *path, struct err *err)
{
    buf_init(&api->authorities, AUTHORITIES_BYTES_MAX);
    int rc = file_read(path, &api->authorities, err);
    if (rc || api->authorities.size == 0) {
        return rc ? rc : err_set(err, ERR_FORMAT, "%s is empty; expected certificates", path);
    }
    api->tls = (struct tls_client){.ca = api->authorities.data};
    (void)snprintf(api->ca_path, sizeof(api->ca_path), "%s", path);
    return 0;
}

/* Write a text of the server as one line that is safe to show. */
static void show(char *out, size_t size, const char *text)
{
    if ((size_t)snprintf(out, size, "%s", text) >= size) {
        utf8_mark_cut(out, size);
    }
    utf8_repair_line(out);
}

static void read_faults(struct api *api, const json_t *problem)
{
    size_t index;
    json_t *fault;
    json_array_foreach(json_object_get(problem, "errors"), index, fault)
    {
        const char *pointer = json_string_value(json_object_get(fault, "pointer"));
        const char *message = json_string_value(json_object_get(fault, "message"));
        if (api->faults.count == RECORD_FAULTS_MAX) {
            api->faults.more = true;
            return;
        }
        if (pointer && message) {
            struct record_fault *kept = &api->faults.fault[api->faults.count++];
            show(kept->pointer, sizeof(kept->pointer), pointer);
            show(kept->message, sizeof(kept->message), message);
        }
    }
}

/* Describe an answer other than success: a problem of the API, or an answer that no coordinator
 * sends. */
static int refused(struct api *api, const struct http_result *result, struct err *err)
{
    json_auto_t *problem = NULL;
    const char *detail = NULL;
    const char *code = NULL;
    if (api->reply.data && json_parse(api->reply.data, api->reply.size, &problem, NULL) == 0) {
        detail = json_string_value(json_object_get(problem, "detail"));
        detail = detail ? detail : json_string_value(json_object_get(problem, "title"));
        code = json_string_value(json_object_get(problem, "code"));
    }
    if (!detail || !code) {
        return err_set(err, ERR_PROTOCOL,
                       "%s answered %d without a reason; is it a Paceline coordinator?",
                       api->server, result->status);
    }
    read_faults(api, problem);
    char line[PROBLEM_DETAIL_SIZE];
    char word[REASON_SIZE];
    show(line, sizeof(line), detail);
    show(word, sizeof(word), code);
    int kind = result->status == 404   ? ERR_NOT_FOUND
               : result->status == 503 ? ERR_STATE
                                       : ERR_INVALID;
    if (result->retry_after_ms > 0) {
        return err_set(err, kind, "%s (%s); try again in %" PRId64 " s", line, word,
                       result->retry_after_ms / 1000);
    }
    return err_set(err, kind, "%s (%s)", line, word);
}

/* Make the key of a POST. With it the coordinator acts once on a POST that the connection
 * repeats. */
static int make_key(char out[64], struct err *err)
{
    uint8_t bytes[16];
    char hex[2 * sizeof(bytes) + 1];
    int rc = random_bytes(bytes, sizeof(bytes), err);
    if (rc) {
        return rc;
    }
    parse_to_hex(bytes, sizeof(bytes), hex);
    (void)snprintf(out, 64, "Idempotency-Key: %s", hex);
    return 0;
}

/* A call in progress. */
struct waiting {
    bool done;
    int rc;
    struct http_result result;
    struct err err;
};

static void on_done(void *arg, int code, const struct http_result *result, const struct err *err)
{
    struct waiting *waiting = arg;
    waiting->done = true;
    waiting->rc = code;
    if (code) {
        waiting->err = *err;
    } else {
        waiting->result = *result;
    }
}

/* Make the call. Wait until the call ends or the program is stopped. */
static int wait_for(struct api *api, const struct http_call *call, struct http_result *out,
                    struct err *err)
{
    struct waiting waiting = {.done = false};
    struct pollfd stop = {.fd = api->stop_fd, .events = POLLIN};
    int handle = http_multi_start(api->calls, call, on_done, &waiting, err);
    int rc = handle < 0 ? handle : 0;
    while (!rc && !waiting.done) {
        rc = http_multi_poll(api->calls, &stop, api->stop_fd >= 0, POLL_MS, err);
        if (!rc && stop.revents) {
            http_multi_cancel(api->calls, handle);
        }
    }
    if (!rc && waiting.rc) {
        *err = waiting.err;
        return waiting.rc;
    }
    *out = waiting.result;
    return rc;
}

int api_make(struct api *api, const struct api_call *what, struct err *err)
{
    char url[API_SERVER_SIZE + API_PATH_SIZE];
    char key[64];
    api->faults = (struct record_faults){0};
    api->status = 0;
    if (snprintf(url, sizeof(url), "%s%s", api->server, what->path) >= (int)sizeof(url)) {
        return err_set(err, ERR_LIMIT, "the URL of '%.100s...' is too long", what->path);
    }
    struct http_call call = {
        .method = what->method,
        .url = url,
        .bearer = api->token[0] != '\0' ? api->token : NULL,
        .tls = &api->tls,
        .header = {what->header},
        .body = {{what->body, what->read ? 0 : what->size}},
        .read = what->read,
        .read_arg = what->read_arg,
        .body_size = what->read ? what->size : 0,
        .content_type = what->content_type || !what->body ? what->content_type : "application/json",
        .reply = &api->reply,
        .write = what->write,
        .write_arg = what->write_arg,
        .timeout_ms = what->unlimited ? 0 : CALL_TIMEOUT_MS + (int64_t)what->wait_seconds * 1000,
        .stall_ms = what->unlimited ? STALL_MS : 0,
    };
    if (strcmp(what->method, "POST") == 0 && !what->read) {
        int rc = make_key(key, err);
        if (rc) {
            return rc;
        }
        call.header[what->header ? 1 : 0] = key;
    }
    struct http_result result;
    int rc = wait_for(api, &call, &result, err);
    if (rc == ERR_NETWORK) {
        struct err cause = *err;
        return err_set(err, rc,
                       "no coordinator answers at %s; check that paceline-coordinator runs there, "
                       "or name another with --server or PACELINE_URL (%s)",
                       api->server, cause.text);
    }
    if (rc) {
        return rc;
    }
    api->answered = true;
    api->status = result.status;
    return result.status >= 200 && result.status < 300 ? 0 : refused(api, &result, err);
}

int api_call(struct api *api, const char *method, const char *path, const char *body, size_t size,
             int wait_seconds, struct err *err)
{
    const struct api_call call = {
        .method = method, .path = path, .body = body, .size = size, .wait_seconds = wait_seconds};
    return api_make(api, &call, err);
}

int api_read(const struct api *api, const struct record *record, void *out, struct err *err)
{
    struct err cause = {0};
    int rc = wire_read(record, api->reply.data ? api->reply.data : "", api->reply.size, out, NULL,
                       &cause);
    if (!rc) {
        return 0;
    }
    if (rc == ERR_MEMORY) {
        return err_set(err, rc, "%s", cause.text);
    }
    return err_set(err, ERR_PROTOCOL, "%s answered a %s that this version does not understand: %s",
                   api->server, record->name, cause.text);
}

int api_json(const struct api *api, json_t **out, struct err *err)
{
    int rc = json_parse(api->reply.data ? api->reply.data : "", api->reply.size, out, err);
    return rc ? err_wrap(err, "the answer of %s is not JSON", api->server) : 0;
}

int api_print(const struct api *api, FILE *out, struct err *err)
{
    json_auto_t *answer = NULL;
    int rc = api_json(api, &answer, err);
    if (rc) {
        return rc;
    }
    BUF_AUTO struct buf text;
    buf_init(&text, 8 * api->reply.limit); /* a byte may become an escape */
    rc = json_write_lines(answer, &text, err);
    rc = rc ? rc : buf_append(&text, "\n", 1, err);
    return rc ? rc : api_write(out, &text, err);
}

int api_pause(const struct api *api, FILE *out, int ms, struct err *err)
{
    struct pollfd wait[] = {{.fd = api->stop_fd, .events = POLLIN}, {.fd = fileno(out)}};
    if (poll(wait, 2, ms) > 0) {
        return wait[0].revents ? err_set(err, ERR_CANCELLED, "interrupted")
                               : err_set(err, ERR_IO, "write the answer: nobody reads it");
    }
    return 0;
}

int api_write(FILE *out, const struct buf *text, struct err *err)
{
    if (fwrite(text->size > 0 ? text->data : "", 1, text->size, out) < text->size || fflush(out)) {
        return err_set(err, ERR_IO, "write the answer: failed");
    }
    return 0;
}

int api_pin(struct api *api, const char *sha256, struct err *err)
{
    if (strncmp(api->server, "https://", 8) != 0) {
        return err_set(err, ERR_INVALID, "%s has no authority; use https://", api->server);
    }
    api->tls = (struct tls_client){.unverified = true};
    int rc = api_call(api, "GET", "/ca.pem", NULL, 0, 0, err);
    rc = rc ? rc : buf_append(&api->reply, "", 1, err);
    if (rc) {
        return rc;
    }
    buf_init(&api->authorities, AUTHORITIES_BYTES_MAX);
    rc = certificate_take_pinned(api->reply.data, sha256, &api->authorities, err);
    rc = rc ? rc : buf_append(&api->authorities, "", 1, err);
    if (rc) {
        return err_wrap(err,
                        "%s is another coordinator, or somebody stands between: nothing was sent "
                        "to it",
                        api->server);
    }
    api->tls = (struct tls_client){.ca = api->authorities.data};
    return 0;
}
