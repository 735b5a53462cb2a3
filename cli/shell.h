/* shell.h: words for a shell. Pure. */
#ifndef CLI_SHELL_H
#define CLI_SHELL_H

#include "base/buf.h"

/* Append a space and one word, quoted if a shell would change it. */
NODISCARD int shell_add_word(struct buf *out, const char *text, struct err *err);

#endif
