/* lineage.h: the starts of a job, which decide whether a snapshot belongs to its history. */
#ifndef COORDINATOR_CORE_STATE_LINEAGE_H
#define COORDINATOR_CORE_STATE_LINEAGE_H

#include "coordinator/core/core.h"

/* Return whether a version that a generation computed or loaded belongs to the lineage. */
bool lineage_holds(const struct job *job, int64_t generation, int64_t version);
/* Add a generation that starts from version `first`. */
void lineage_push(struct job *job, int64_t generation, int64_t first);

#endif
