/* exports.h: assembles the center's version into one model file. */
#ifndef COORDINATOR_CORE_EXPORTS_H
#define COORDINATOR_CORE_EXPORTS_H

#include "coordinator/core/core.h"

struct job_slot;

void exports_on_done(struct core *core, const struct event *event);
/* Assemble the center's version, with which the job ends. */
void exports_last(struct core *core, struct job_slot *job);
/* An export that failed for want of room is tried again at once. */
void exports_disk_has_room(struct core *core, struct job_slot *job);
/* Assemble the center's version on request; the job goes on. */
void exports_ask(struct core *core, struct job_slot *job);
/* After a restart: exports under way at the coordinator's end begin anew. */
void exports_resume(struct core *core, struct job_slot *job);

#endif
