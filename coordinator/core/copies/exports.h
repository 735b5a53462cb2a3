/* exports.h: assembles the center's version into one model file. */
#ifndef COORDINATOR_CORE_COPIES_EXPORTS_H
#define COORDINATOR_CORE_COPIES_EXPORTS_H

#include "coordinator/core/core.h"

struct job_slot;

/* Take an assembled model (EVENT_EXPORTED). */
void exports_on_done(struct core *core, const struct event *event);
/* Assemble the center's version, with which the job ends. */
void exports_last(struct core *core, struct job_slot *job);
/* Retry a failed export now: the disk has room again. */
void exports_disk_has_room(struct core *core, struct job_slot *job);
/* Assemble the center's version on request; the job continues. */
void exports_ask(struct core *core, struct job_slot *job);
/* Assemble the center's version if it becomes a checkpoint while the job trains. */
void exports_on_the_way(struct core *core, struct job_slot *job);
/* Store a checkpoint row for a model of the job, in core->checkpoint. */
void exports_store(struct core *core, const struct job *job, int64_t version, const char *sha256,
                   int64_t bytes);
/* Restart the exports that the end of the coordinator interrupted. */
void exports_resume(struct core *core, struct job_slot *job);

#endif
