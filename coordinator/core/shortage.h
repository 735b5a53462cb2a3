/* shortage.h: explains why a job does not get its devices. */
#ifndef COORDINATOR_CORE_SHORTAGE_H
#define COORDINATOR_CORE_SHORTAGE_H

#include "coordinator/core/matching.h"

struct core;

/* Set err to a sentence: how many of the `wanted` devices are missing and why. Return ERR_STATE. */
NODISCARD int shortage_explain(const struct core *core, const struct placement_request *request,
                               size_t wanted, size_t there, struct err *err);

#endif
