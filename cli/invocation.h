/* invocation.h: a command line, read by the table of commands. Pure. */
#ifndef CLI_INVOCATION_H
#define CLI_INVOCATION_H

#include "cli/command_table.h"

struct invocation {
    const struct command *command;
    enum conf_request request;
    struct options options;
    struct conf_list words;              /* all of them */
    const char *argument[ARGUMENTS_MAX]; /* borrowed from argv; NULL: not given */
};

/* Read argv. With *request CONF_HELP the words may name nothing or only a noun, and command may be
 * NULL. ERR_INVALID: the line is wrong; the text names the nearest word. invocation_done is due
 * afterwards, also after an error. */
NODISCARD int invocation_read(int argc, char **argv, struct invocation *out, struct err *err);
void invocation_done(struct invocation *invocation);

enum format {
    FORMAT_TABLE,
    FORMAT_WIDE,
    FORMAT_JSON,
};
/* The format of the answer. terminal: whether the output is one. */
enum format invocation_format(const struct invocation *invocation, bool terminal);

#endif
