/* collect.h: uploads the version of a stop to the center. */
#ifndef COORDINATOR_CORE_COPIES_COLLECT_H
#define COORDINATOR_CORE_COPIES_COLLECT_H

#include "coordinator/core/core.h"

struct job_slot;

/* Take a unit that a device uploaded (EVENT_BLOB_STORED). */
void collect_on_blob(struct core *core, const struct event *event);
/* Take an assembled model (EVENT_EXPORTED). */
void collect_on_exported(struct core *core, const struct event *event);
/* Collect `version`, at which all devices have stopped; then pause or export the job. */
void collect_begin(struct core *core, struct job_slot *job, int64_t version);
/* Finish when every unit of the coming version is present. */
void collect_advance(struct core *core, struct job_slot *job);
/* Check the whole version after all rows were restored: a version that lacks a unit is dropped. */
void collect_restored(struct core *core, struct job_slot *job);

#endif
