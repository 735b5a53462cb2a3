/* replay.h: `paceline-agent replay`: repeats a job of strategy gossip in one process, from its spec
 * and the log of its mixes. It gives the same weights, bit for bit. For main.c. */
#ifndef AGENT_OFFLINE_REPLAY_H
#define AGENT_OFFLINE_REPLAY_H

#include <stdbool.h>

#include "base/err.h"

/* argv: "replay" and its arguments. Prints progress to stderr and the result to stdout. *misused:
 * the arguments are wrong. */
NODISCARD int replay_command(int argc, char **argv, bool *misused, struct err *err);

#endif
