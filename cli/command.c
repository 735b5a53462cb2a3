#include "cli/command.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/account.h"
#include "cli/answer.h"
#include "cli/data.h"
#include "cli/usage.h"

#define TEXT_BYTES_MAX ((size_t)4 << 20)

/* Write one line per fault that the server named, after the name of the request file. Without
 * faults, write the error. */
static void complain(const struct session *session, const struct err *err)
{
    const struct record_faults *faults = &session->api.faults;
    const char *file = session->call.command ? request_file(&session->call) : NULL;
    if (faults->count == 0) {
        fprintf(session->complaints, "paceline: %s\n", err->text);
    }
    for (size_t i = 0; i < faults->count; i++) {
        const struct record_fault *fault = &faults->fault[i];
        fprintf(session->complaints, "paceline: %s%s%s%s%s\n", file ? file : "", file ? ": " : "",
                fault->pointer, fault->pointer[0] != '\0' ? ": " : "", fault->message);
    }
    if (faults->more) {
        fprintf(session->complaints, "paceline: %s%sand more\n", file ? file : "",
                file ? ": " : "");
    }
}

/* Answer --help and --version, which need no coordinator. */
static int tell(struct session *session, struct err *err)
{
    const struct invocation *call = &session->call;
    BUF_AUTO struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    int rc = call->request == CONF_VERSION
                 ? buf_printf(&text, err, "paceline %s\n", PACELINE_VERSION)
             : call->command
                 ? usage_command(call->command, &text, err)
                 : usage_list(call->words.count > 0 ? call->words.item[0] : NULL, &text, err);
    return rc ? rc : api_write(session->out, &text, err);
}

static int write_curl(struct session *session, struct err *err)
{
    BUF_AUTO struct buf text;
    BUF_AUTO struct buf tar;
    AUTO(upload_done) struct upload upload = {.fd = -1};
    const char *file = session->request.file;
    int rc = 0;
    buf_init(&text, TEXT_BYTES_MAX);
    buf_init(&tar, TEXT_BYTES_MAX);
    if (session->call.command->body == BODY_FILE && strcmp(file, "-") != 0) {
        rc = upload_open(file, ARCHIVE_ALL, &upload, err);
    }
    if (!rc && upload.archive) {
        rc = data_tar(file, upload.archive, &tar, err);
        session->request.archive = tar.data;
    }
    const struct request_target target = session_target(session);
    rc = rc ? rc : request_curl(&session->request, &session->call, &target, &text, err);
    return rc ? rc : api_write(session->out, &text, err);
}

static int run(struct session *session, struct err *err)
{
    const struct invocation *call = &session->call;
    session->format = invocation_format(call, isatty(fileno(session->out)) == 1);
    if (!call->command->path && call->options.flag[OPTION_CURL]) {
        session->status = COMMAND_USAGE;
        return err_set(err, ERR_INVALID, "paceline %s has no curl command: it makes no request",
                       call->command->noun);
    }
    if (!call->command->path) {
        return call->command->run(session, err);
    }
    int rc = account_open(session, err);
    rc = rc ? rc : session_prepare(session, err);
    if (rc) {
        return rc;
    }
    return call->options.flag[OPTION_CURL] ? write_curl(session, err)
           : call->command->run            ? call->command->run(session, err)
                                           : answer_request(session, err);
}

static void session_free(struct session **session)
{
    request_done(&(*session)->request);
    invocation_done(&(*session)->call);
    api_close(&(*session)->api);
    free(*session);
}

/* Copy a token to the session and overwrite it in argv, which other users of the machine can
 * read. */
static void hide_token(struct session *session, int argc, char **argv)
{
    struct invocation *call = &session->call;
    for (size_t i = 0; i < ARGUMENTS_MAX && call->argument[i]; i++) {
        if (call->command->argument[i].kind != ARGUMENT_TOKEN) {
            continue;
        }
        (void)snprintf(session->token, sizeof(session->token), "%s", call->argument[i]);
        for (int word = 1; word < argc; word++) {
            if (argv[word] == call->argument[i]) {
                memset(argv[word], 'x', strlen(argv[word]));
            }
        }
        call->argument[i] = session->token;
    }
}

enum command_status command_run(int argc, char **argv, const struct environment *environment,
                                FILE *out, FILE *complaints)
{
    AUTO(session_free) struct session *session = calloc(1, sizeof(*session));
    struct err err = {0};
    if (!session) {
        fprintf(complaints, "paceline: no memory\n");
        return COMMAND_FAILED;
    }
    session->environment = environment;
    session->api.stop_fd = -1;
    session->out = out;
    session->complaints = complaints;
    int rc = invocation_read(argc, argv, &session->call, &err);
    if (rc) {
        fprintf(complaints, "paceline: %s\n", err.text);
        return COMMAND_USAGE;
    }
    hide_token(session, argc, argv);
    rc = session->call.request == CONF_RUN ? run(session, &err) : tell(session, &err);
    if (rc) {
        complain(session, &err);
        return session_status(session, rc);
    }
    return session->status;
}
