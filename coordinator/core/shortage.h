/* shortage.h: explains why a job does not get its devices. */
#ifndef COORDINATOR_CORE_SHORTAGE_H
#define COORDINATOR_CORE_SHORTAGE_H

#include "coordinator/core/matching.h"

struct core;

/* Which devices the job waits for, and why it does not get them. Returns ERR_STATE. */
NODISCARD int shortage_explain(const struct core *core, const struct placement_request *request,
                               size_t wanted, size_t there, struct err *err);

#endif
