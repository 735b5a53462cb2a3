/* command.h: a run of `paceline`, from its command line to its exit status. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdio.h>

#include "cli/session.h"

/* Run the program. Results go to out, errors to complaints, each a line that starts with "paceline:
 * ". A token in argv is overwritten at once. Returns the exit status. */
enum command_status command_run(int argc, char **argv, const struct environment *environment,
                                FILE *out, FILE *complaints);

#endif
