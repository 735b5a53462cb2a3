/* lineage.h: which versions belong to the present history of a job. */
#ifndef COORDINATOR_CORE_LINEAGE_H
#define COORDINATOR_CORE_LINEAGE_H

#include "coordinator/core/core.h"

/* Whether a version that was computed or loaded in a generation is part of what the job does now.
 */
bool lineage_holds(const struct job *job, int64_t generation, int64_t version);
/* A generation starts from version `first`. */
void lineage_push(struct job *job, int64_t generation, int64_t first);

#endif
