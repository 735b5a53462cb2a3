/* measured_rows.h: what devices measured as rows of the store. They wait for the next flush of the
 * telemetry; one that cannot is dropped, with a warning. */
#ifndef COORDINATOR_TURN_MEASURED_ROWS_H
#define COORDINATOR_TURN_MEASURED_ROWS_H

#include "coordinator/core/capacity_row.h"

struct state_store;

/* Add a minute of a device to the history. */
void measured_rows_put(struct state_store *state, const struct measured_units *units);
/* Replace the rows of a device's capacity. */
void measured_rows_put_capacity(struct state_store *state, const struct capacity_change *change);

#endif
