/* checkpoints.h: finds a checkpoint by its id, for the routes that name one. The loop's thread
 * only. */
#ifndef COORDINATOR_HTTP_CHECKPOINTS_H
#define COORDINATOR_HTTP_CHECKPOINTS_H

#include "coordinator/coordinator.h"
#include "schema/dataset.h"

/* Read the row of a checkpoint. ERR_NOT_FOUND; ERR_FORMAT: the row is damaged. */
NODISCARD int checkpoint_find(struct coordinator *coordinator, const char *id,
                              struct checkpoint *out, struct err *err);

#endif
