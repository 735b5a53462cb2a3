/* command.h: the command line of `paceline`: options, the table of commands, error lines. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdio.h>

enum command_status {
    COMMAND_OK = 0,
    COMMAND_FAILED = 1,        /* the coordinator rejected it or did not answer */
    COMMAND_USAGE = 2,         /* the command line is wrong */
    COMMAND_NOT_SUCCEEDED = 3, /* the job that was waited for has failed or was cancelled */
};

/* Run the program. server: the value of PACELINE_SERVER, used without --server; NULL: the
 * default. Results go to out, errors to complaints, each a line that starts with "paceline: ".
 * Returns the exit status. */
int command_run(int argc, char **argv, const char *server, FILE *out, FILE *complaints);

#endif
