/* order.h: finds the best stage boundaries by the bound for a given order of devices. For
 * coordinator/plan/ only. Pure. */
#ifndef COORDINATOR_PLAN_ORDER_H
#define COORDINATOR_PLAN_ORDER_H

#include "coordinator/plan/bound.h"

/* Fill rest[count][unit_count + 1] for a given order of kinds, and the ends of the best split by
 * the bound. Return the bound. */
double order_cut(const struct kinds *kinds, const uint16_t *kind, size_t count,
                 struct bound_passes passes, double rest[][PARTITION_UNITS_MAX + 1],
                 struct layout *out, double *work);

#endif
