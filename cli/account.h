/* account.h: which coordinator a command talks to, and as whom; the commands login and context. One
 * thread. */
#ifndef CLI_ACCOUNT_H
#define CLI_ACCOUNT_H

#include "cli/session.h"

/* Open session->api: by --server, else PACELINE_URL, else the context, else the usual address. The
 * token is PACELINE_TOKEN, else that of the context, which is sent to the context's own address
 * only. */
NODISCARD int account_open(struct session *session, struct err *err);
/* Store the address and token of the command as a context, once the coordinator accepts them. The
 * token is the second argument, or else the first line of standard input, read without an echo. */
NODISCARD int account_login(struct session *session, struct err *err);
/* Show the contexts, without their tokens. */
NODISCARD int account_list(struct session *session, struct err *err);
/* Make a context the current one. */
NODISCARD int account_use(struct session *session, struct err *err);
NODISCARD int account_remove(struct session *session, struct err *err);

#endif
