/* completion.h: scripts that complete command lines, from the table of commands. Pure. */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include "base/buf.h"
#include "cli/session.h"

/* "bash", "zsh", "fish" */
#define SHELLS 3
extern const char *const completion_shells[SHELLS];

/* Append the script for completion_shells[shell]. */
NODISCARD int completion_add(size_t shell, struct buf *out, struct err *err);
/* Write the script for the shell that the command names. */
NODISCARD int completion_write(struct session *session, struct err *err);

#endif
