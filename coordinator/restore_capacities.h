/* restore_capacities.h: reads the stored speeds of devices and links, for EVENT_RESTORED. The
 * loop's thread. */
#ifndef COORDINATOR_RESTORE_CAPACITIES_H
#define COORDINATOR_RESTORE_CAPACITIES_H

#include "base/err.h"
#include "coordinator/core/event.h"

struct state_store;

struct capacity_lists {
    struct capacity_row *device;
    struct unit_row *unit;
    struct link_row *link;
    struct restored_capacities rows; /* points to them */
};

/* Read all rows; restore_capacities_free releases them, after a failure too. */
NODISCARD int restore_capacities_read(struct state_store *state, struct capacity_lists *out,
                                      struct err *err);
void restore_capacities_free(struct capacity_lists *lists);

#endif
