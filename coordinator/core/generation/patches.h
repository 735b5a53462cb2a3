/* patches.h: changes to the fields of a live job. */
#ifndef COORDINATOR_CORE_GENERATION_PATCHES_H
#define COORDINATOR_CORE_GENERATION_PATCHES_H

#include "coordinator/core/core.h"

struct job_slot;

void patches_on_patch(struct core *core, const struct event *event);
/* Apply the changed periods of copies that waited for the next plan. Called when that plan is made.
 */
void patches_apply(struct job_slot *job);

#endif
