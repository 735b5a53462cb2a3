/* join.h: `paceline-agent join`: registers this machine as a device of a coordinator that has
 * tokens, and writes the files that its agent needs to start. For main. */
#ifndef AGENT_JOIN_H
#define AGENT_JOIN_H

#include <stdbool.h>

#include "base/err.h"

/* argv[0] is "join". The token among argv is overwritten at once. *misused: the command line is
 * wrong. */
NODISCARD int join_command(int argc, char **argv, bool *misused, struct err *err);

#endif
