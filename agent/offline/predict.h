/* predict.h: `paceline-agent predict`: what a trained model makes of samples, in this process, with
 * the arithmetic by which a job evaluates. For main.c. */
#ifndef AGENT_OFFLINE_PREDICT_H
#define AGENT_OFFLINE_PREDICT_H

#include <stdbool.h>

#include "base/err.h"

/* argv[0] is the program, what follows are the arguments behind the word `predict`. Prints to
 * stdout. *misused: it failed because the arguments are wrong. */
NODISCARD int predict_command(int argc, char **argv, bool *misused, struct err *err);

#endif
