/* command.h: a run of `paceline`, from its command line to its exit status. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdio.h>

#include "cli/session.h"

/* Run the program. server: the value of PACELINE_URL, used without --server; NULL: the default.
 * Results go to out, errors to complaints, each a line that starts with "paceline: ". Returns the
 * exit status. */
enum command_status command_run(int argc, char **argv, const char *server, FILE *out,
                                FILE *complaints);

#endif
