/* batches.h: `paceline-agent batches`: prints the samples of each step of a job, so that another
 * program can train on the same samples. For main.c. */
#ifndef AGENT_OFFLINE_BATCHES_H
#define AGENT_OFFLINE_BATCHES_H

#include <stdbool.h>

#include "base/err.h"

/* As train_command (train.h). */
NODISCARD int batches_command(int argc, char **argv, bool *misused, struct err *err);

#endif
