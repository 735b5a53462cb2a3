/* capacity_rows.h: capacities as rows of the store, and back. */
#ifndef COORDINATOR_CORE_CAPACITY_CAPACITY_ROWS_H
#define COORDINATOR_CORE_CAPACITY_CAPACITY_ROWS_H

#include "coordinator/core/capacity/capacity.h"

/* Write a device's row (NULL: that of all devices together). */
void capacity_rows_write(const struct core *core, const struct device_slot *device,
                         struct capacity_row *out);
/* Write the row of a unit. false: it has no value. */
bool capacity_rows_write_unit(const struct core *core, const struct device_slot *device,
                              const struct unit_work *work, struct unit_row *out);
/* Restore the rows of an earlier life, after the devices. Ignore rows with impossible values. */
void capacity_rows_restore(struct core *core, const struct capacity_row *row);
void capacity_rows_restore_unit(struct core *core, const struct unit_row *row);

#endif
