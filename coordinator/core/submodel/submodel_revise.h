/* submodel_revise.h: divides the groups of a job of sub-models again by what their first steps have
 * taken. docs/adr/0170. */
#ifndef COORDINATOR_CORE_SUBMODEL_SUBMODEL_REVISE_H
#define COORDINATOR_CORE_SUBMODEL_SUBMODEL_REVISE_H

#include "coordinator/core/core.h"

struct parent_slot;

/* In the phase of groups: if all devices of groups have measured their slices and another division
 * is worth the steps that are lost, end the jobs of the groups and replace the division. All groups
 * then wait for their models. */
void submodel_revise(struct core *core, struct parent_slot *parent);

#endif
