/* session.h: one run of a command: its command line, the coordinator, where it writes, and how it
 * ends. One thread. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include <stdio.h>

#include "cli/api.h"
#include "cli/invocation.h"
#include "cli/request.h"
#include "schema/limits.h"

/* Exit statuses. */
enum command_status {
    COMMAND_OK = 0,
    COMMAND_FAILED = 1, /* anything else: a file, the output, an answer that makes no sense */
    COMMAND_USAGE = 2,  /* the command line is wrong */
    COMMAND_NOT_SUCCEEDED = 3, /* the job that was waited for has failed or was cancelled */
    COMMAND_NOT_FOUND = 4,     /* no such thing, or the name is ambiguous */
    COMMAND_REFUSED = 5,       /* the coordinator rejected the request */
    COMMAND_UNREACHABLE = 6,   /* no coordinator answered, or it was busy or stopping */
    COMMAND_INTERRUPTED = 130, /* by a signal, while it waited for a job */
};

/* What the program learns from its environment. NULL: not set. */
struct environment {
    const char *url, *token, *ca; /* PACELINE_URL, PACELINE_TOKEN, PACELINE_CA */
    const char *config;           /* the user's directory for contexts */
};

struct session {
    const struct environment *environment;
    struct api api;
    struct invocation call;
    struct request request;
    FILE *out, *complaints;
    enum format format;
    enum command_status status; /* of a success other than COMMAND_OK, or of the failure */
    char resolved[ARGUMENTS_MAX][NAME_SIZE];
    char token[API_TOKEN_SIZE]; /* of the command line */
};

/* Replace the names in the command line by ids, and build the request. */
NODISCARD int session_prepare(struct session *session, struct err *err);
/* Where a curl command of this session asks. */
struct request_target session_target(const struct session *session);
/* Make the session's request. */
NODISCARD int session_request(struct session *session, struct err *err);
/* Return the exit status of a failure `rc`. */
enum command_status session_status(const struct session *session, int rc);

#endif
