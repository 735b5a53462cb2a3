/* kept.h: the checkpoints that a job stores while it trains, and which of them stay. */
#ifndef COORDINATOR_CORE_KEPT_H
#define COORDINATOR_CORE_KEPT_H

#include "coordinator/core/core.h"

struct job_slot;

/* Take a metric of a version. */
void kept_measured(struct core *core, struct job_slot *job, const struct metric *metric);
/* Return whether the center's whole version is to become a checkpoint and did not yet. Then no
 * other version replaces it. */
bool kept_owes(const struct job_slot *job);
/* Return whether the center's whole version, stored, would stay. */
bool kept_wants(const struct job_slot *job);
/* The center's whole version does not become a checkpoint. */
void kept_skip(struct core *core, struct job_slot *job);
/* The version has become a checkpoint. Deletes those that do not stay. */
void kept_stored(struct core *core, struct job_slot *job, const struct checkpoint *checkpoint);
/* Delete a checkpoint, unless a live job starts from it. */
void kept_discard(struct core *core, const struct checkpoint_id *id, const char *sha256);
/* A user has deleted a checkpoint. A live job that lists it gets room for another. */
void kept_deleted(struct core *core, const char *checkpoint);

#endif
