/* contexts.h: the coordinators that a user has logged in to, with their tokens: contexts.json in
 * the user's configuration directory, readable by the user alone. One thread. */
#ifndef CLI_CONTEXTS_H
#define CLI_CONTEXTS_H

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/api.h"
#include "schema/limits.h"

#define CONTEXT_PATH_SIZE 1024

struct context {
    char name[NAME_SIZE];
    char url[API_SERVER_SIZE];
    char token[API_TOKEN_SIZE]; /* "": none */
    char ca[CONTEXT_PATH_SIZE]; /* file of trusted certificates; "": the system's */
};

struct contexts {
    char path[CONTEXT_PATH_SIZE];
    json_t *document; /* {"current": NAME, "contexts": {NAME: {"url", "token", "ca"}}} */
};

/* Read contexts.json of a directory; a file that is not there is empty. ERR_STATE: others may read
 * the file. contexts_done is due afterwards, also after an error. */
NODISCARD int contexts_read(const char *directory, struct contexts *out, struct err *err);
void contexts_done(struct contexts *contexts);
/* Write the file back, with mode 0600. */
NODISCARD int contexts_write(const struct contexts *contexts, struct err *err);
/* The name of the current context; NULL: there is none. */
const char *contexts_current(const struct contexts *contexts);
/* Find a context. ERR_NOT_FOUND names the nearest. */
NODISCARD int contexts_find(const struct contexts *contexts, const char *name, struct context *out,
                            struct err *err);
/* Add or replace a context, and make it the current one. */
NODISCARD int contexts_put(struct contexts *contexts, const struct context *context,
                           struct err *err);
NODISCARD int contexts_use(struct contexts *contexts, const char *name, struct err *err);
NODISCARD int contexts_remove(struct contexts *contexts, const char *name, struct err *err);

#endif
