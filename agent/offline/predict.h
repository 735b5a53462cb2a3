/* predict.h: `paceline-agent predict`: applies a trained model to samples in this process, with the
 * arithmetic of a job's evaluation. For main.c. */
#ifndef AGENT_OFFLINE_PREDICT_H
#define AGENT_OFFLINE_PREDICT_H

#include <stdbool.h>

#include "base/err.h"

/* argv: "predict" and its arguments. Prints to stdout. *misused: the arguments are wrong. */
NODISCARD int predict_command(int argc, char **argv, bool *misused, struct err *err);

#endif
