/* scratch.h: the memory of a search. For coordinator/plan/ only. */
#ifndef COORDINATOR_PLAN_SCRATCH_H
#define COORDINATOR_PLAN_SCRATCH_H

#include "coordinator/plan/search.h"

struct partition_scratch {
    struct search search;
};

#endif
