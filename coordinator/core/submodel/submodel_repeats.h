/* submodel_repeats.h: parts of a job of sub-models that are trained again because a stored model is
 * damaged. The same seed gives the same model, so nothing else changes. docs/adr/0089. */
#ifndef COORDINATOR_CORE_SUBMODEL_SUBMODEL_REPEATS_H
#define COORDINATOR_CORE_SUBMODEL_SUBMODEL_REPEATS_H

#include "coordinator/core/core.h"

struct parent_slot;

/* Note that the content is damaged. Return whether the parent must train or harvest again; *phase:
 * the phase to enter, or the present one. */
bool submodel_repeats_damage(struct core *core, struct parent_slot *parent, const char *sha256,
                             int *phase);
/* Let groups that have not begun wait for the damaged stem. Return whether no group trains any
 * more. */
bool submodel_repeats_stem(struct core *core, struct parent_slot *parent);
/* Take a trained stem. Groups that were trained with another stem are trained again. */
void submodel_repeats_new_stem(struct parent_slot *parent, const char *sha256);

#endif
