/* part_progress.h: the progress of a parent: the steps of all its parts, and the accuracy of its
 * joint phase. Steps never decrease: a part that is trained again, or resumes from an older
 * version, first catches up. */
#ifndef COORDINATOR_CORE_PARTS_PART_PROGRESS_H
#define COORDINATOR_CORE_PARTS_PART_PROGRESS_H

#include "coordinator/core/core.h"

struct parent_slot;

/* Set the progress of the parent from the progress of its parts. */
void part_progress_show(struct core *core, struct parent_slot *parent);
/* Set the progress of a parent that has succeeded to its end. */
void part_progress_end(const struct core *core, struct parent_slot *parent);

#endif
