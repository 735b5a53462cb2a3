/* train.h: `paceline-agent train`: trains a whole job in one process, without coordinator and
 * peers, with the same stage code as a job on many devices. It is the reference for the law. For
 * main.c. */
#ifndef AGENT_OFFLINE_TRAIN_H
#define AGENT_OFFLINE_TRAIN_H

#include <stdbool.h>

#include "base/err.h"

/* argv: "train" and its arguments. Prints progress to stderr and the result to stdout. *misused:
 * the arguments are wrong. */
NODISCARD int train_command(int argc, char **argv, bool *misused, struct err *err);

#endif
