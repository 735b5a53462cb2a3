/* servers_place.h: divides the units among servers. For coordinator/plan/ only. Pure. */
#ifndef COORDINATOR_PLAN_SERVERS_PLACE_H
#define COORDINATOR_PLAN_SERVERS_PLACE_H

#include <stdbool.h>

#include "coordinator/plan/servers.h"

/* Return whether the stage fits on its device. */
bool servers_place_fits(const struct servers_problem *problem, const struct servers_stage *stage);
/* Divide the units among servers in this order, at least one for each, so that the largest bytes /
 * rate is least and every range fits its device.
 *
 *     device[count]  count in [1, SERVERS_MAX]
 *     roomy          leave room on devices that may work for all micro-batches, and for the sums of
 *                    as many workers as the plan may have
 *     end[count]     out: one past the last unit of each
 *
 * Returns whether there is a way. Exact, O(count * unit_count^2). */
bool servers_place(const struct servers_problem *problem, const size_t *device, size_t count,
                   bool roomy, size_t *end);

#endif
