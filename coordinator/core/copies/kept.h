/* kept.h: the checkpoints that a job stores while it trains, and which of them it keeps. */
#ifndef COORDINATOR_CORE_COPIES_KEPT_H
#define COORDINATOR_CORE_COPIES_KEPT_H

#include "coordinator/core/core.h"

struct job_slot;

/* Take a metric of a version. */
void kept_measured(struct core *core, struct job_slot *job, const struct metric *metric);
/* Return whether the center's whole version must still become a checkpoint. Until then no other
 * version replaces it. */
bool kept_owes(const struct job_slot *job);
/* Return whether the job would keep a checkpoint of the center's whole version. */
bool kept_wants(const struct job_slot *job);
/* Note that the center's whole version will not become a checkpoint. */
void kept_skip(struct core *core, struct job_slot *job);
/* Note that the version has become a checkpoint. Delete the checkpoints that the job does not keep.
 */
void kept_stored(struct core *core, struct job_slot *job, const struct checkpoint *checkpoint);
/* Delete a checkpoint, unless a live job starts from it. */
void kept_discard(struct core *core, const struct checkpoint_id *id, const char *sha256);
/* Note that a user has deleted a checkpoint. A live job that lists it gets room for another one. */
void kept_deleted(struct core *core, const char *checkpoint);

#endif
