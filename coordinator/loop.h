/* loop.h: the coordinator's program around its core: opens the stores, restores, listens, and turns
 * until SIGTERM or SIGINT. */
#ifndef COORDINATOR_LOOP_H
#define COORDINATOR_LOOP_H

#include "base/err.h"
#include "coordinator/config.h"

/* Run the coordinator. Returns 0 after an orderly stop. */
NODISCARD int loop_run(const struct coordinator_config *config, struct err *err);

#endif
