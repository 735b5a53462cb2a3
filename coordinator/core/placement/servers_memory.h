/* servers_memory.h: the memory of stages that serve, work or do both. Any thread. */
#ifndef COORDINATOR_CORE_PLACEMENT_SERVERS_MEMORY_H
#define COORDINATOR_CORE_PLACEMENT_SERVERS_MEMORY_H

#include <stdint.h>

#include "coordinator/plan/servers.h"
#include "schema/plan.h"

struct planning;

/* Return the bytes of a stage on a device of the pool. They are the sum of two parts: the kept
 * units, as for a stage without a share, with the waiting gradient sums; and all units, if the
 * stage has a share. planning: a struct planning, which has the pool and the layers. */
uint64_t servers_memory(void *planning, const struct servers_stage *stage);
/* Return these bytes by use, on a candidate. */
struct plan_memory servers_memory_parts(const struct planning *planning,
                                        const struct servers_stage *stage, size_t candidate);
/* Return the bytes of one version of the units that the stage keeps. */
uint64_t servers_memory_state(struct planning *planning, const struct servers_stage *stage);

#endif
