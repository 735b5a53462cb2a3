#include "cli/request.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/parse.h"
#include "cli/shell.h"
#include "schema/limits.h"

#define FIELD_NAME_MAX 64
#define PATH_DEPTH_MAX 8
#define LIST_ITEM_SIZE 128
#define DURATION_UNITS_MAX 1000000000

/* ---- target ---- */

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~", c));
}

/* Append text, percent-encoded except for the characters that no part of a URL reserves. */
static int add_encoded(struct buf *out, const char *text, struct err *err)
{
    int rc = 0;
    for (; !rc && *text; text++) {
        rc = is_plain(*text) ? buf_append(out, text, 1, err)
                             : buf_printf(out, err, "%%%02X", (unsigned)(unsigned char)*text);
    }
    return rc;
}

static int add_path(const struct invocation *call, struct buf *out, struct err *err)
{
    int rc = 0;
    for (const char *at = call->command->path; !rc && *at;) {
        if (*at == '{') {
            rc = add_encoded(out, call->argument[at[1] - '0'], err);
            at += 3;
        } else {
            rc = buf_append(out, at++, 1, err);
        }
    }
    if (!rc && call->options.text[OPTION_OUTPUT][0] != '\0') {
        rc = buf_printf(out, err, "/content");
    }
    return rc;
}

static int add_query(const struct invocation *call, struct buf *out, struct err *err)
{
    const struct layout *layout = call->command->layout;
    const bool pages = layout && layout->pages && strcmp(call->command->method, "GET") == 0;
    char separator = pages ? '&' : '?';
    int rc = pages ? buf_printf(out, err, "?limit=%d", REQUEST_PAGE_ITEMS) : 0;
    for (enum option option = 0; !rc && option < OPTION_COUNT; option++) {
        const char *name = option_uses[option].query;
        const char *text = call->options.text[option];
        bool in_body = option_uses[option].field && call->command->body == BODY_FIELDS;
        if (!name || in_body || !option_given(&call->options, option)) {
            continue;
        }
        rc = buf_printf(out, err, "%c%s=", separator, name);
        rc = rc ? rc : add_encoded(out, text[0] != '\0' ? text : "true", err);
        separator = '&';
    }
    return rc;
}

static int build_target(const struct invocation *call, char target[REQUEST_TARGET_SIZE],
                        struct err *err)
{
    BUF_AUTO struct buf text;
    buf_init(&text, REQUEST_TARGET_SIZE - 1);
    int rc = add_path(call, &text, err);
    rc = rc ? rc : add_query(call, &text, err);
    if (rc) {
        return err_wrap(err, "the URL");
    }
    memcpy(target, text.data, text.size + 1);
    return 0;
}

/* ---- body ---- */

static int no_memory(struct err *err)
{
    return err_set(err, ERR_MEMORY, "no memory for a request");
}

/* Set a member at a path such as "optimizer.type". Takes `value`. */
static int set_field(json_t *body, const char *path, json_t *value, struct err *err)
{
    char name[FIELD_NAME_MAX];
    json_t *at = body;
    for (int depth = 0; value; depth++) {
        size_t size = strcspn(path, ".");
        if (size == 0 || size >= sizeof(name) || depth == PATH_DEPTH_MAX) {
            json_decref(value);
            return err_set(err, ERR_INVALID,
                           "'%s' is not a field; expected a name such as "
                           "optimizer.type",
                           path);
        }
        memcpy(name, path, size);
        name[size] = '\0';
        if (path[size] == '\0') {
            return json_object_set_new(at, name, value) ? no_memory(err) : 0;
        }
        json_t *inner = json_object_get(at, name);
        if (!json_is_object(inner)) {
            inner = json_object();
            if (!inner || json_object_set_new(at, name, inner)) {
                json_decref(value);
                return no_memory(err);
            }
        }
        at = inner;
        path += size + 1;
    }
    return no_memory(err);
}

/* Return a text such as "2,5" as a list of numbers or texts. */
static json_t *list_of(const char *text, bool numbers, struct err *err)
{
    json_t *list = json_array();
    while (list && *text) {
        char item[LIST_ITEM_SIZE];
        size_t size = strcspn(text, ",");
        int64_t number = 0;
        (void)snprintf(item, sizeof(item), "%.*s", (int)size, text);
        if (numbers && parse_i64(item, 0, INT64_MAX, &number, err)) {
            json_decref(list);
            return NULL;
        }
        (void)json_array_append_new(list, numbers ? json_integer(number) : json_string(item));
        text += size + (text[size] == ',');
    }
    return list;
}

/* "90", "30m", "12h", "7d" */
static json_t *duration_of(const char *text, struct err *err)
{
    static const struct {
        char letter;
        int64_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    char digits[LIST_ITEM_SIZE];
    int64_t factor = 1, number = 0;
    size_t size = strlen(text);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (size > 1 && text[size - 1] == units[i].letter) {
            factor = units[i].seconds;
            size--;
            break;
        }
    }
    (void)snprintf(digits, sizeof(digits), "%.*s", (int)size, text);
    return parse_i64(digits, 1, DURATION_UNITS_MAX, &number, err) ? NULL
                                                                  : json_integer(number * factor);
}

static json_t *value_of(enum option_value kind, const char *text, struct err *err)
{
    int64_t number = 0;
    switch (kind) {
    case VALUE_NUMBER:
        return parse_i64(text, 0, INT64_MAX, &number, err) ? NULL : json_integer(number);
    case VALUE_NUMBERS: return list_of(text, true, err);
    case VALUE_DURATION: return duration_of(text, err);
    case VALUE_DEVICES: return list_of(text, false, err);
    case VALUE_TEXT:
    case VALUE_JOB:
    case VALUE_DATASET:
    case VALUE_TRAIN:
    case VALUE_TEST: return json_string(text);
    }
    return NULL;
}

/* Set a member by "FIELD=VALUE". The value is JSON, or else a text. */
static int set_pair(json_t *body, const char *pair, struct err *err)
{
    char path[LIST_ITEM_SIZE];
    const char *equals = strchr(pair, '=');
    size_t size = equals ? (size_t)(equals - pair) : 0;
    if (size == 0 || size >= sizeof(path)) {
        return err_set(err, ERR_INVALID, "--set: '%.100s' is not FIELD=VALUE", pair);
    }
    memcpy(path, pair, size);
    path[size] = '\0';
    json_t *value = NULL;
    if (json_parse(equals + 1, strlen(equals + 1), &value, NULL)) {
        value = json_string(equals + 1);
        if (!value) {
            return err_set(err, ERR_INVALID, "--set: the value of %s is not UTF-8", path);
        }
    }
    int rc = set_field(body, path, value, err);
    return rc ? err_wrap(err, "--set") : 0;
}

static bool has_field(const struct invocation *call, enum option option)
{
    return option_uses[option].field && option_given(&call->options, option);
}

static int set_arguments(const struct invocation *call, json_t *body, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < ARGUMENTS_MAX && call->argument[i]; i++) {
        const char *field = call->command->argument[i].field;
        rc = field ? set_field(body, field, json_string(call->argument[i]), err) : 0;
    }
    return rc;
}

/* Return the value of a given option, or NULL with the reason in `why`. */
static json_t *option_value(const struct invocation *call, enum option option, struct err *why)
{
    const struct option_use *use = &option_uses[option];
    if (option_table[option].type == CONF_FLAG) {
        return use->word ? json_string(use->word) : json_true();
    }
    return value_of(use->value, call->options.text[option], why);
}

/* Reject two options that set the same field. */
static int check_alone(const struct invocation *call, enum option option, struct err *err)
{
    for (enum option other = 0; other < option; other++) {
        if (has_field(call, other) &&
            strcmp(option_uses[other].field, option_uses[option].field) == 0) {
            return err_set(err, ERR_INVALID, "--%s and --%s exclude each other",
                           option_table[other].name, option_table[option].name);
        }
    }
    return 0;
}

static int set_options(const struct invocation *call, json_t *body, struct err *err)
{
    int rc = set_arguments(call, body, err);
    rc = rc || !call->command->constant ? rc : set_pair(body, call->command->constant, err);
    for (enum option option = 0; !rc && option < OPTION_COUNT; option++) {
        if (has_field(call, option)) {
            struct err why = {0};
            json_t *value = option_value(call, option, &why);
            rc = value ? set_field(body, option_uses[option].field, value, err)
                       : err_set(err, ERR_INVALID, "--%s: %s", option_table[option].name,
                                 why.code ? why.text : "the value is not UTF-8");
            rc = rc ? rc : check_alone(call, option, err);
        }
    }
    for (size_t i = 0; !rc && i < call->options.set.count; i++) {
        rc = set_pair(body, call->options.set.item[i], err);
    }
    return rc;
}

/* Name a job after its model if neither its file nor an option names it. */
static int name_job(const struct invocation *call, json_t *body, struct err *err)
{
    const json_t *model = json_object_get(json_object_get(body, "model"), "name");
    const bool named = json_object_get(body, "name") != NULL;
    return option_given(&call->options, OPTION_MODEL) && !named && json_is_string(model)
               ? set_field(body, "name", json_string(json_string_value(model)), err)
               : 0;
}

static int build_fields(const struct invocation *call, const char *base, size_t base_size,
                        struct buf *out, struct err *err)
{
    json_auto_t *body = NULL;
    int rc = base_size > 0 ? json_parse(base, base_size, &body, err) : 0;
    if (rc) {
        return err_wrap(err, "%s", request_file(call));
    }
    if (base_size > 0 && !json_is_object(body)) {
        return err_set(err, ERR_INVALID, "%s: expected a JSON object", request_file(call));
    }
    body = body ? body : json_object();
    if (!body) {
        return no_memory(err);
    }
    rc = set_options(call, body, err);
    rc = rc ? rc : name_job(call, body, err);
    return rc ? rc : json_write(body, out, err);
}

/* ---- the request ---- */

const char *request_file(const struct invocation *call)
{
    for (size_t i = 0; i < ARGUMENTS_MAX; i++) {
        if (call->command->argument[i].kind == ARGUMENT_FILE) {
            return call->argument[i];
        }
    }
    return NULL;
}

int request_build(const struct invocation *call, const char *base, size_t base_size,
                  struct request *out, struct err *err)
{
    out->method = call->command->method;
    out->file = call->command->body == BODY_NONE ? NULL : request_file(call);
    buf_init(&out->fields, JSON_BODY_MAX);
    int rc = build_target(call, out->target, err);
    if (rc || call->command->body != BODY_FIELDS) {
        return rc;
    }
    bool changed = call->options.set.count > 0 || call->command->constant;
    for (size_t i = 0; i < ARGUMENTS_MAX; i++) {
        changed = changed || (call->argument[i] && call->command->argument[i].field);
    }
    for (enum option option = 0; option < OPTION_COUNT; option++) {
        changed = changed || has_field(call, option);
    }
    if (changed) {
        out->file = NULL;
        return build_fields(call, base, base_size, &out->fields, err);
    }
    return base_size > 0 ? buf_append(&out->fields, base, base_size, err) : 0;
}

void request_done(struct request *request)
{
    buf_done(&request->fields);
}

/* ---- curl ---- */

static int add_body(const struct request *request, const struct invocation *call, struct buf *out,
                    struct err *err)
{
    int rc = 0;
    if (call->command->body == BODY_FILE) {
        rc = strcmp(request->method, "PUT") == 0 ? 0 : buf_printf(out, err, " -X POST");
        rc = rc ? rc : buf_printf(out, err, " -H 'Content-Type: application/octet-stream' -T");
        return rc ? rc : shell_add_word(out, request->archive ? "-" : request->file, err);
    }
    if (request->fields.size == 0) {
        return strcmp(request->method, "GET") == 0
                   ? 0
                   : buf_printf(out, err, " -X %s", request->method);
    }
    if (strcmp(request->method, "POST") != 0) {
        rc = buf_printf(out, err, " -X %s", request->method);
    }
    rc = rc ? rc : buf_printf(out, err, " -H 'Content-Type: application/json' --data-binary");
    if (!rc && request->file) {
        char at_file[OPTION_TEXT_SIZE + 2];
        (void)snprintf(at_file, sizeof(at_file), "@%s", request->file);
        return shell_add_word(out, at_file, err);
    }
    return rc ? rc : shell_add_word(out, request->fields.data, err);
}

int request_curl_begin(const struct request_target *target, struct buf *out, struct err *err)
{
    int rc = buf_printf(out, err, "curl -sS --fail-with-body");
    if (!rc && target->with_token) {
        rc = buf_printf(out, err, " -H \"Authorization: Bearer $PACELINE_TOKEN\"");
    }
    if (!rc && target->ca[0] != '\0') {
        rc = buf_printf(out, err, " --cacert");
        rc = rc ? rc : shell_add_word(out, target->ca, err);
    }
    return rc;
}

/* Add the options for a stream of events: without a buffer, and from the event after the last one
 * seen. */
static int add_stream(const struct invocation *call, struct buf *out, struct err *err)
{
    char header[OPTION_TEXT_SIZE + 32];
    const char *after = call->options.text[OPTION_AFTER];
    int rc = buf_printf(out, err, " -N");
    if (rc || after[0] == '\0') {
        return rc;
    }
    (void)snprintf(header, sizeof(header), "Last-Event-ID: %s", after);
    rc = buf_printf(out, err, " -H");
    return rc ? rc : shell_add_word(out, header, err);
}

int request_curl(const struct request *request, const struct invocation *call,
                 const struct request_target *target, struct buf *out, struct err *err)
{
    char url[REQUEST_TARGET_SIZE + OPTION_TEXT_SIZE];
    const char *output = call->options.text[OPTION_OUTPUT];
    (void)snprintf(url, sizeof(url), "%s%s", target->server, request->target);
    int rc = request->archive ? buf_printf(out, err, "%s | ", request->archive) : 0;
    rc = rc ? rc : request_curl_begin(target, out, err);
    if (!rc && strcmp(call->command->path, "/v1/events") == 0) {
        rc = add_stream(call, out, err);
    }
    rc = rc ? rc : add_body(request, call, out, err);
    if (!rc && output[0] != '\0') {
        rc = buf_printf(out, err, " -o");
        rc = rc ? rc : shell_add_word(out, output, err);
    }
    rc = rc ? rc : shell_add_word(out, url, err);
    return rc ? rc : buf_append(out, "\n", 1, err);
}
