/* submodel_plan.h: divides classes and channels of a job of sub-models among its groups. */
#ifndef COORDINATOR_CORE_SUBMODEL_PLAN_H
#define COORDINATOR_CORE_SUBMODEL_PLAN_H

#include "coordinator/core/core.h"

struct parent_slot;

/* Check a job whose groups are planned later: two groups, or as many as it wants, must have enough
 * channels. ERR_INVALID. */
NODISCARD int submodel_check_room(const struct event_job_submit *submit, struct err *err);
/* Choose the groups, and the widths of given groups without them, for the devices of now.
 * ERR_INVALID. */
NODISCARD int submodel_plan(const struct core *core, struct parent_slot *parent, struct err *err);

#endif
