/* stall.h: detects that no step completes. */
#ifndef COORDINATOR_CORE_STALL_H
#define COORDINATOR_CORE_STALL_H

#include "coordinator/core/state.h"

/* A step was applied, or the plan begins to run: the next is waited for. */
void stall_watch(struct core *core, struct job_slot *job);
void stall_tick(struct core *core, struct job_slot *job);

#endif
