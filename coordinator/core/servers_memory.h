/* servers_memory.h: the memory of stages that serve, work or do both. Any thread. */
#ifndef COORDINATOR_CORE_SERVERS_MEMORY_H
#define COORDINATOR_CORE_SERVERS_MEMORY_H

#include <stdint.h>

#include "coordinator/plan/servers.h"
#include "schema/plan.h"

struct planning;

/* Return the bytes of a stage on a device of the pool: those of its kept units, as a stage without
 * a share, with the sums that wait; and those of all units, if it has a share. A device that does
 * both has both. planning: a struct planning, of which the pool and the layers are taken. */
uint64_t servers_memory(void *planning, const struct servers_stage *stage);
/* Return the same by use, on a candidate. */
struct plan_memory servers_memory_parts(const struct planning *planning,
                                        const struct servers_stage *stage, size_t candidate);
/* Return the bytes of one version of the units that the stage keeps. */
uint64_t servers_memory_state(struct planning *planning, const struct servers_stage *stage);

#endif
