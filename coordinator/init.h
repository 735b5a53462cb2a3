/* init.h: `paceline-coordinator init`: makes the certificates and the first token of a state
 * directory, before the coordinator listens beyond its own machine. For main. */
#ifndef COORDINATOR_INIT_H
#define COORDINATOR_INIT_H

#include <stdbool.h>

#include "base/err.h"

/* argv[0] is "init". *misused: the command line is wrong. */
NODISCARD int init_run(int argc, char **argv, bool *misused, struct err *err);

#endif
