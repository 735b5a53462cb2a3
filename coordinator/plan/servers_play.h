/* servers_play.h: predicts the step of a given plan of a parameter server. Pure. */
#ifndef COORDINATOR_PLAN_SERVERS_PLAY_H
#define COORDINATOR_PLAN_SERVERS_PLAY_H

#include "coordinator/plan/servers.h"

/* Predict the step with these stages: servers first, in the order of their units, and shares that
 * follow each other. Their devices, units and shares count.
 *
 *     stage  [count]
 *     out    the same stages; workers without units in the order of their shares. None is idle
 *
 * ERR_INVALID: not the stages of a plan. ERR_MEMORY: one does not fit on its device. */
NODISCARD int servers_play(const struct servers_problem *problem, struct servers_scratch *scratch,
                           const struct servers_stage *stage, size_t count,
                           struct servers_plan *out, struct err *err);

#endif
