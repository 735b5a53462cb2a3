/* usage.h: --help, from the table of commands. Pure. */
#ifndef CLI_USAGE_H
#define CLI_USAGE_H

#include "base/buf.h"
#include "cli/command_table.h"

#define USAGE_LINE_SIZE 128

struct exit_status {
    int status;
    const char *meaning;
};
#define EXIT_STATUSES 8
extern const struct exit_status exit_statuses[EXIT_STATUSES];

struct environment_variable {
    const char *name, *meaning;
};
#define ENVIRONMENT_VARIABLES 6
extern const struct environment_variable environment_variables[ENVIRONMENT_VARIABLES];

extern const char usage_summary[], usage_names[];

/* Write "job plan JOB GENERATION". */
void usage_line(const struct command *command, char out[USAGE_LINE_SIZE]);
/* Append the help of one command. */
NODISCARD int usage_command(const struct command *command, struct buf *out, struct err *err);
/* Append the list of commands, and of noun's only unless it is NULL. */
NODISCARD int usage_list(const char *noun, struct buf *out, struct err *err);

#endif
