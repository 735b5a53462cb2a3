/* collect.h: brings the version of a stop into the center. */
#ifndef COORDINATOR_CORE_COLLECT_H
#define COORDINATOR_CORE_COLLECT_H

#include "coordinator/core/core.h"

struct job_slot;

void collect_on_blob(struct core *core, const struct event *event);
/* The stop is complete at `version`: bring it into the center, then pause or export. */
void collect_begin(struct core *core, struct job_slot *job, int64_t version);
/* Go on when every unit of the coming version is there. */
void collect_advance(struct core *core, struct job_slot *job);
/* After all rows: a job whose newest version is not whole in the rows has none. */
void collect_restored(struct core *core, struct job_slot *job);

#endif
