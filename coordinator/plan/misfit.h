/* misfit.h: explains why no plan fits into the memory of the devices. For coordinator/plan/ only.
 * Pure. */
#ifndef COORDINATOR_PLAN_MISFIT_H
#define COORDINATOR_PLAN_MISFIT_H

#include "coordinator/plan/kinds.h"

/* Fill the devices with the most memory (or all in their order) as far as possible, and describe in
 * err where the units no longer fit. Return ERR_MEMORY. */
NODISCARD int misfit_explain(const struct kinds *kinds, size_t stages_max, struct err *err);

#endif
