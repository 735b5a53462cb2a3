/* keepers.h: the stages of a plan that keep units: they own the state of the job, replicate it
 * around a ring and answer for each version of it. Another stage owes no snapshot. A loop over all
 * of plan.stage means the devices that work for the job, a loop over keepers the owners of its
 * state:
 *
 *     for (size_t s = keepers_first(plan); s < plan->stage_count; s = keepers_next(plan, s))
 */
#ifndef COORDINATOR_CORE_KEEPERS_H
#define COORDINATOR_CORE_KEEPERS_H

#include <stdbool.h>
#include <stddef.h>

#include "schema/plan.h"

/* Return the first one, which leads: it opens rounds. stage_count: there is none. */
size_t keepers_first(const struct plan *plan);
/* Return the next one after a stage. stage_count: it was the last. */
size_t keepers_next(const struct plan *plan, size_t stage);
size_t keepers_count(const struct plan *plan);
/* Return whether the keepers, in their order, keep all of so many units, each once. */
bool keepers_cover(const struct plan *plan, size_t unit_count);

/* The same of `count` stages of any plan. */
bool keepers_has(const struct plan_stage *stage);
/* Return the stage that holds copies of a keeper's state: the next keeper in the ring; of a lone
 * keeper the stage after it, which keeps no units. The stage itself: there is no other, or it keeps
 * none. */
size_t keepers_holder(const struct plan_stage *stages, size_t count, size_t stage);
/* Return the keeper whose copies the stage holds. The stage itself: it holds none. */
size_t keepers_held(const struct plan_stage *stages, size_t count, size_t stage);

#endif
