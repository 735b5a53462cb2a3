#include "cli/session.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/data.h"
#include "cli/resolve.h"
#include "schema/id.h"

#define LIST_PATH_SIZE 1024

/* ---- names ---- */

static int list_things(struct session *session, const struct thing *thing, struct candidates *out,
                       struct err *err)
{
    char path[LIST_PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s?limit=%d", thing->path, REQUEST_PAGE_ITEMS);
    for (;;) {
        json_auto_t *page = NULL;
        int rc = api_call(&session->api, "GET", path, NULL, 0, 0, err);
        rc = rc ? rc : api_json(&session->api, &page, err);
        rc = rc ? rc : candidates_add(out, thing, page, err);
        const char *next = json_string_value(json_object_get(page, "next_cursor"));
        if (rc || !next) {
            return rc;
        }
        (void)snprintf(path, sizeof(path), "%s?limit=%d&cursor=%s", thing->path, REQUEST_PAGE_ITEMS,
                       next);
    }
}

static int resolve(struct session *session, enum argument_kind kind, const char *word,
                   char out[NAME_SIZE], struct err *err)
{
    const struct thing *thing = &things[kind];
    if (thing->prefix && id_valid(word, thing->prefix)) {
        (void)snprintf(out, NAME_SIZE, "%s", word);
        return 0;
    }
    AUTO(candidates_done) struct candidates candidates = {0};
    const struct candidate *found = NULL;
    int rc = list_things(session, thing, &candidates, err);
    if (rc) {
        return rc;
    }
    rc = resolve_pick(&candidates, thing, word, &found, err);
    if (rc) {
        session->status = COMMAND_NOT_FOUND;
        return rc;
    }
    (void)snprintf(out, NAME_SIZE, "%s", found->id);
    return 0;
}

/* Resolve each name of "board-a,board-b" in place. */
static int resolve_list(struct session *session, enum argument_kind kind, char *text,
                        struct err *err)
{
    BUF_AUTO struct buf list;
    buf_init(&list, OPTION_TEXT_SIZE - 1);
    int rc = 0;
    for (const char *at = text; !rc && *at;) {
        char word[NAME_SIZE], id[NAME_SIZE];
        size_t size = strcspn(at, ",");
        if ((size_t)snprintf(word, sizeof(word), "%.*s", (int)size, at) >= sizeof(word)) {
            return err_set(err, ERR_LIMIT, "'%.20s...' is longer than a name", word);
        }
        rc = resolve(session, kind, word, id, err);
        rc = rc ? rc : buf_printf(&list, err, "%s%s", list.size > 0 ? "," : "", id);
        at += size + (at[size] == ',');
    }
    if (!rc && list.size > 0) {
        memcpy(text, list.data, list.size + 1);
    }
    return rc;
}

/* Upload a file or directory as a data set. Other words name a stored data set. */
static int resolve_data(struct session *session, enum archive_part part, char *text,
                        struct err *err)
{
    char name[NAME_SIZE];
    const bool there = access(text, F_OK) == 0;
    if (!there && strchr(text, '/')) {
        session->status = COMMAND_NOT_FOUND;
        return err_set(err, ERR_NOT_FOUND, "no file or directory '%s'", text);
    }
    int rc = there ? data_put(session, text, part, name, err)
                   : resolve(session, ARGUMENT_DATASET, text, name, err);
    if (!rc) {
        (void)snprintf(text, OPTION_TEXT_SIZE, "%s", name);
    }
    return rc;
}

static int resolve_option(struct session *session, enum option option, struct err *err)
{
    static const enum argument_kind kinds[] = {
        [VALUE_JOB] = ARGUMENT_JOB,
        [VALUE_DEVICES] = ARGUMENT_DEVICE,
        [VALUE_DATASET] = ARGUMENT_DATASET,
    };
    const enum option_value value = option_uses[option].value;
    char *text = session->call.options.text[option];
    int rc = value == VALUE_TRAIN  ? resolve_data(session, ARCHIVE_TRAIN, text, err)
             : value == VALUE_TEST ? resolve_data(session, ARCHIVE_TEST, text, err)
                                   : resolve_list(session, kinds[value], text, err);
    return rc && !session->api.status ? err_wrap(err, "--%s", option_table[option].name) : rc;
}

static int resolve_options(struct session *session, struct err *err)
{
    int rc = 0;
    for (enum option option = 0; !rc && option < OPTION_COUNT; option++) {
        if (option_uses[option].value >= VALUE_JOB &&
            session->call.options.text[option][0] != '\0') {
            rc = resolve_option(session, option, err);
        }
    }
    return rc;
}

static int resolve_arguments(struct session *session, struct err *err)
{
    struct invocation *call = &session->call;
    for (size_t i = 0; i < ARGUMENTS_MAX && call->argument[i]; i++) {
        enum argument_kind kind = call->command->argument[i].kind;
        if (kind >= ARGUMENT_THINGS) {
            continue;
        }
        int rc = resolve(session, kind, call->argument[i], session->resolved[i], err);
        if (rc) {
            return rc;
        }
        call->argument[i] = session->resolved[i];
    }
    return 0;
}

/* ---- the request ---- */

/* Read the JSON file that a command takes as its body. */
static int read_body(const struct invocation *call, struct buf *out, struct err *err)
{
    const char *path = request_file(call);
    if (call->command->body != BODY_FIELDS || !path) {
        return 0;
    }
    int rc = file_read(strcmp(path, "-") == 0 ? "/dev/stdin" : path, out, err);
    if (rc) {
        return rc;
    }
    return out->size == 0 ? err_set(err, ERR_INVALID, "%s is empty; expected JSON", path) : 0;
}

int session_prepare(struct session *session, struct err *err)
{
    BUF_AUTO struct buf body;
    buf_init(&body, JSON_BODY_MAX);
    int rc = read_body(&session->call, &body, err);
    rc = rc ? rc : resolve_arguments(session, err);
    rc = rc ? rc : resolve_options(session, err);
    if (rc) {
        return rc;
    }
    rc = request_build(&session->call, body.data, body.size, &session->request, err);
    if (rc == ERR_INVALID) {
        session->status = COMMAND_USAGE;
    }
    return rc;
}

struct request_target session_target(const struct session *session)
{
    return (struct request_target){.server = session->api.server,
                                   .with_token = session->api.token[0] != '\0',
                                   .ca = session->api.ca_path};
}

int session_request(struct session *session, struct err *err)
{
    const struct request *request = &session->request;
    const bool has_body = request->fields.size > 0;
    return api_call(&session->api, request->method, request->target,
                    has_body ? request->fields.data : NULL, request->fields.size, 0, err);
}

enum command_status session_status(const struct session *session, int rc)
{
    const int status = session->api.status;
    if (session->status != COMMAND_OK) {
        return session->status;
    }
    if (rc == ERR_PROTOCOL) {
        return COMMAND_FAILED; /* the server is no coordinator, or one of a later version */
    }
    if (rc == ERR_NETWORK || rc == ERR_TIMEOUT || status == 503 || status == 429) {
        return COMMAND_UNREACHABLE;
    }
    return status == 404 ? COMMAND_NOT_FOUND : status >= 400 ? COMMAND_REFUSED : COMMAND_FAILED;
}
