/* keepers.h: the stages of a plan that keep units. Keepers own the state of the job, replicate it
 * around a ring and must provide each version of it. Other stages owe no snapshots. A loop over all
 * of plan.stage visits the devices that work for the job; a loop over keepers visits the owners of
 * its state:
 *
 *     for (size_t s = keepers_first(plan); s < plan->stage_count; s = keepers_next(plan, s))
 */
#ifndef COORDINATOR_CORE_STATE_KEEPERS_H
#define COORDINATOR_CORE_STATE_KEEPERS_H

#include <stdbool.h>
#include <stddef.h>

#include "schema/plan.h"

/* Return the first keeper, the lead, which opens rounds. stage_count: no keeper. */
size_t keepers_first(const struct plan *plan);
/* Return the next keeper after a stage. stage_count: no further keeper. */
size_t keepers_next(const struct plan *plan, size_t stage);
size_t keepers_count(const struct plan *plan);
/* Return whether the keepers, in their order, keep each of unit_count units once. */
bool keepers_cover(const struct plan *plan, size_t unit_count);

/* The same of `count` stages of any plan. */
bool keepers_has(const struct plan_stage *stage);
/* Return the stage that holds copies of a keeper's state: the next keeper in the ring. For a single
 * keeper, it is the stage after it, which keeps no units. Return the stage itself if there is no
 * other stage, or if it keeps no units. */
size_t keepers_holder(const struct plan_stage *stages, size_t count, size_t stage);
/* Return the keeper whose copies the stage holds. Return the stage itself if it holds no copies. */
size_t keepers_held(const struct plan_stage *stages, size_t count, size_t stage);

#endif
