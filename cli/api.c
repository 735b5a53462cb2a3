#include "cli/api.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "net/hash.h"
#include "schema/limits.h"
#include "schema/problem.h"
#include "schema/wire.h"

#define REPLY_BYTES_MAX ((size_t)16 << 20)
/* In addition to the requested wait of the server. */
#define CALL_TIMEOUT_MS 30000

int api_open(struct api *api, const char *server, struct err *err)
{
    *api = (struct api){0};
    buf_init(&api->reply, REPLY_BYTES_MAX);
    size_t size = strlen(server);
    while (size > 0 && server[size - 1] == '/') {
        size--;
    }
    const char *host = strncmp(server, "http://", 7) == 0 ? server + 7 : NULL;
    size_t host_size = host && size > 7 ? size - 7 : 0;
    if (host_size == 0 || strcspn(host, "/?#@ ") < host_size || size >= sizeof(api->server)) {
        return err_set(err, ERR_INVALID,
                       "'%s' is not a server; expected a URL such as http://127.0.0.1:7410",
                       server);
    }
    memcpy(api->server, server, size);
    api->server[size] = '\0';
    return http_client_new(&api->client, err);
}

void api_close(struct api *api)
{
    http_client_free(&api->client);
    buf_done(&api->reply);
}

/* A text of the server's as one line that is safe to show. */
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

/* Describe an answer other than success: a problem of the API, or one that no coordinator sends. */
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

/* Every POST carries a key of its own, so that one which the connection repeats is done once. */
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

int api_call(struct api *api, const char *method, const char *path, const char *body, size_t size,
             int wait_seconds, struct err *err)
{
    char url[API_SERVER_SIZE + API_PATH_SIZE];
    char key[64];
    api->faults = (struct record_faults){0};
    if (snprintf(url, sizeof(url), "%s%s", api->server, path) >= (int)sizeof(url)) {
        return err_set(err, ERR_LIMIT, "the URL of '%s' is too long", path);
    }
    struct http_call call = {
        .method = method,
        .url = url,
        .body = {{body, size}},
        .content_type = body ? "application/json" : NULL,
        .reply = &api->reply,
        .timeout_ms = CALL_TIMEOUT_MS + (int64_t)wait_seconds * 1000,
    };
    if (strcmp(method, "POST") == 0) {
        int rc = make_key(key, err);
        if (rc) {
            return rc;
        }
        call.header[0] = key;
    }
    struct http_result result;
    int rc = http_client_call(api->client, &call, &result, err);
    if (rc == ERR_NETWORK) {
        struct err cause = *err;
        return err_set(err, rc,
                       "no coordinator answers at %s; check that paceline-coordinator runs there, "
                       "or name another with "
                       "--server or PACELINE_SERVER (%s)",
                       api->server, cause.text);
    }
    if (rc) {
        return rc;
    }
    api->answered = true;
    return result.status >= 200 && result.status < 300 ? 0 : refused(api, &result, err);
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

int api_print(const struct api *api, FILE *out, struct err *err)
{
    json_auto_t *answer = NULL;
    int rc = json_parse(api->reply.data ? api->reply.data : "", api->reply.size, &answer, err);
    if (rc) {
        return err_wrap(err, "the answer of %s is not JSON", api->server);
    }
    BUF_AUTO struct buf text;
    buf_init(&text, 8 * api->reply.limit); /* a byte may become an escape */
    rc = json_write_lines(answer, &text, err);
    if (!rc && fprintf(out, "%s\n", text.data) < 0) {
        return err_set(err, ERR_IO, "write the answer: failed");
    }
    return rc;
}
