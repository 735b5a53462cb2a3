#include "cli/account.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/answer.h"
#include "cli/contexts.h"
#include "schema/id.h"

#define DEFAULT_SERVER "http://127.0.0.1:7410"

static bool is_set(const char *text)
{
    return text && text[0] != '\0';
}

/* ---- the coordinator of a command ---- */

static int read_contexts(const struct session *session, struct contexts *out, struct err *err)
{
    if (!session->environment->config) {
        *out = (struct contexts){.document = NULL};
        return err_set(err, ERR_STATE, "there is no place for contexts: HOME is not set");
    }
    return contexts_read(session->environment->config, out, err);
}

/* Find the context of the command; an empty one if there is none. */
static int find_context(struct session *session, struct context *out, struct err *err)
{
    const char *name = session->call.options.text[OPTION_CONTEXT];
    AUTO(contexts_done) struct contexts contexts = {.document = NULL};
    *out = (struct context){.name = ""};
    if (!session->environment->config && !is_set(name)) {
        return 0;
    }
    int rc = read_contexts(session, &contexts, err);
    if (rc) {
        return rc;
    }
    name = is_set(name) ? name : contexts_current(&contexts);
    rc = name ? contexts_find(&contexts, name, out, err) : 0;
    if (rc == ERR_NOT_FOUND) {
        session->status = COMMAND_NOT_FOUND;
    }
    return rc;
}

int account_open(struct session *session, struct err *err)
{
    const struct environment *environment = session->environment;
    const char *option = session->call.options.text[OPTION_SERVER];
    const bool named = is_set(session->call.options.text[OPTION_CONTEXT]);
    const char *url = is_set(option) ? option : named ? NULL : environment->url;
    struct context context = {.name = ""};
    int rc = !is_set(url) || named ? find_context(session, &context, err) : 0;
    if (rc) {
        return rc;
    }
    const bool by_context = !is_set(url) && is_set(context.url);
    url = is_set(url) ? url : by_context ? context.url : DEFAULT_SERVER;
    rc = api_open(&session->api, url, err);
    if (rc) {
        return rc;
    }
    const char *token = is_set(environment->token) ? environment->token
                        : by_context               ? context.token
                                                   : "";
    const char *ca = is_set(environment->ca) ? environment->ca : by_context ? context.ca : "";
    rc = api_authorize(&session->api, token, err);
    return rc || !is_set(ca) ? rc : api_trust(&session->api, ca, err);
}

/* ---- login ---- */

/* Read a line of standard input. On a terminal, prompt for it and do not show it. */
static int read_token(struct session *session, char out[API_TOKEN_SIZE], struct err *err)
{
    struct termios before;
    const bool terminal = tcgetattr(STDIN_FILENO, &before) == 0;
    if (terminal) {
        struct termios silent = before;
        silent.c_lflag &= ~(tcflag_t)ECHO;
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
        fprintf(session->complaints, "Token (empty: none): ");
        (void)fflush(session->complaints);
    }
    size_t used = 0;
    bool whole = false;
    while (!whole && used < API_TOKEN_SIZE && read(STDIN_FILENO, out + used, 1) == 1) {
        whole = out[used] == '\n';
        used += !whole;
    }
    if (terminal) {
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
        fprintf(session->complaints, "\n");
    }
    if (used == API_TOKEN_SIZE) {
        return err_set(err, ERR_LIMIT, "the token is longer than %d bytes", API_TOKEN_SIZE - 1);
    }
    out[used] = '\0';
    return 0;
}

/* Name a context: --context, or else the host in the URL. */
static int name_context(const struct session *session, struct context *context, struct err *err)
{
    const char *given = session->call.options.text[OPTION_CONTEXT];
    const char *host = strstr(context->url, "://");
    host = host ? host + 3 : context->url;
    (void)snprintf(context->name, sizeof(context->name), "%.*s",
                   is_set(given) ? (int)strlen(given) : (int)strcspn(host, ":/"),
                   is_set(given) ? given : host);
    return name_valid(context->name)
               ? 0
               : err_set(err, ERR_INVALID, "'%s' is not a name for a context; add --context NAME",
                         context->name);
}

/* Check the token. A coordinator without tokens answers 404; then its version suffices. */
static int check_account(struct session *session, struct err *err)
{
    int rc = api_call(&session->api, "GET", "/v1/tokens/self", NULL, 0, 0, err);
    if (rc && session->api.status == 404) {
        rc = api_call(&session->api, "GET", "/version", NULL, 0, 0, err);
    }
    return rc;
}

static int store(struct session *session, const struct context *context, struct err *err)
{
    AUTO(contexts_done) struct contexts contexts = {.document = NULL};
    int rc = read_contexts(session, &contexts, err);
    rc = rc ? rc : contexts_put(&contexts, context, err);
    return rc ? rc : contexts_write(&contexts, err);
}

/* Read a hash in the forms that programs print: upper or lower case, with or without colons. */
static int read_hash(const char *text, char out[SHA256_SIZE], struct err *err)
{
    size_t used = 0;
    const char *at = text;
    for (; *at && used < SHA256_SIZE - 1; at++) {
        if (*at != ':') {
            out[used++] = (char)tolower((unsigned char)*at);
        }
    }
    out[used] = '\0';
    return *at == '\0' && sha256_form.valid(out)
               ? 0
               : err_set(err, ERR_INVALID, "--ca-sha256 '%.100s': expected 64 hexadecimal digits",
                         text);
}

/* Trust the authorities of the command line: those in a file, or the one with the given hash. */
static int trust(struct session *session, struct context *context, struct err *err)
{
    const char *ca = session->call.options.text[OPTION_CA];
    const char *hash = session->call.options.text[OPTION_CA_SHA256];
    char sha256[SHA256_SIZE];
    int rc = 0;
    if (is_set(ca) && is_set(hash)) {
        rc = err_set(err, ERR_INVALID, "--ca and --ca-sha256 exclude each other");
    } else if (is_set(hash)) {
        rc = read_hash(hash, sha256, err);
    }
    if (rc) {
        session->status = COMMAND_USAGE;
        return rc;
    }
    if (is_set(hash)) {
        return api_pin(&session->api, sha256, err);
    }
    if (is_set(ca)) {
        char *real = realpath(ca, NULL);
        bool fits = real && strlen(real) < sizeof(context->ca);
        (void)snprintf(context->ca, sizeof(context->ca), "%s", fits ? real : "");
        free(real);
        rc = fits ? api_trust(&session->api, context->ca, err)
                  : err_set(err, ERR_NOT_FOUND, "there is no file '%s'", ca);
    }
    return rc;
}

/* Store the fetched authority beside the contexts. */
static int keep_authority(struct session *session, struct context *context, struct err *err)
{
    const char *directory = session->environment->config;
    const struct buf *pem = &session->api.authorities;
    if (!is_set(session->call.options.text[OPTION_CA_SHA256])) {
        return 0;
    }
    if (!directory) {
        return err_set(err, ERR_STATE, "there is no place for contexts: HOME is not set");
    }
    if ((size_t)snprintf(context->ca, sizeof(context->ca), "%s/%s.ca.pem", directory,
                         context->name) >= sizeof(context->ca)) {
        return err_set(err, ERR_LIMIT, "the path of the contexts is too long");
    }
    int rc = file_make_directory(directory, 0700, err);
    return rc ? rc : file_write_atomic(context->ca, pem->data, pem->size - 1, 0600, err);
}

int account_login(struct session *session, struct err *err)
{
    const char *const *argument = session->call.argument;
    struct context context = {.name = ""};
    int rc = api_open(&session->api, argument[0], err);
    if (!rc) {
        (void)snprintf(context.url, sizeof(context.url), "%s", session->api.server);
        rc = name_context(session, &context, err);
    }
    if (rc) {
        session->status = COMMAND_USAGE;
        return rc;
    }
    rc = trust(session, &context, err);
    if (!rc && argument[1]) {
        (void)snprintf(context.token, sizeof(context.token), "%s", argument[1]);
    } else if (!rc) {
        rc = read_token(session, context.token, err);
    }
    rc = rc ? rc : api_authorize(&session->api, context.token, err);
    rc = rc ? rc : check_account(session, err);
    rc = rc ? rc : keep_authority(session, &context, err);
    rc = rc ? rc : store(session, &context, err);
    if (rc) {
        return rc;
    }
    fprintf(session->out, "%s is the current context: %s\n", context.name, context.url);
    return 0;
}

/* ---- contexts ---- */

int account_list(struct session *session, struct err *err)
{
    AUTO(contexts_done) struct contexts contexts = {.document = NULL};
    int rc = read_contexts(session, &contexts, err);
    if (rc) {
        return rc;
    }
    const char *current = contexts_current(&contexts);
    json_auto_t *rows = json_pack("{s:[]}", "items");
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(contexts.document, "contexts"), name, value)
    {
        struct context context;
        rc = rc ? rc : contexts_find(&contexts, name, &context, err);
        json_t *row =
            rc ? NULL
               : json_pack("{s:s,s:s,s:b,s:b,s:s?}", "name", name, "url", context.url, "current",
                           current && strcmp(current, name) == 0, "token", is_set(context.token),
                           "ca", is_set(context.ca) ? context.ca : NULL);
        if (!rc && json_array_append_new(json_object_get(rows, "items"), row)) {
            rc = err_set(err, ERR_MEMORY, "no memory for the contexts");
        }
    }
    return rc ? rc : answer_show(session, rows, err);
}

/* Apply `with` to the context that the command line names. */
static int change(struct session *session,
                  int (*with)(struct contexts *contexts, const char *name, struct err *err),
                  struct err *err)
{
    AUTO(contexts_done) struct contexts contexts = {.document = NULL};
    int rc = read_contexts(session, &contexts, err);
    rc = rc ? rc : with(&contexts, session->call.argument[0], err);
    if (rc == ERR_NOT_FOUND) {
        session->status = COMMAND_NOT_FOUND;
    }
    return rc ? rc : contexts_write(&contexts, err);
}

int account_use(struct session *session, struct err *err)
{
    return change(session, contexts_use, err);
}

int account_remove(struct session *session, struct err *err)
{
    return change(session, contexts_remove, err);
}
