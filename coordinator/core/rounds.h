/* rounds.h: the open rounds of replication. */
#ifndef COORDINATOR_CORE_ROUNDS_H
#define COORDINATOR_CORE_ROUNDS_H

#include "coordinator/core/state.h"

/* None is open any more. */
void rounds_reset(struct job_slot *job);
/* Rows of a round to the center were restored. */
void rounds_restore_center(struct core *core, struct job_slot *job);
void rounds_abandon_center(struct core *core, struct job_slot *job);
void rounds_center_done(struct core *core, struct job_slot *job);
void rounds_tick(struct core *core, struct job_slot *job);
int64_t rounds_due_ms(const struct job_slot *job);
/* The disk is nearly full: no round to the center begins. */
bool rounds_is_paused(const struct core *core, enum round_kind kind);
/* Whether the job replicates in this way. */
bool rounds_is_wanted(const struct job_slot *job, enum round_kind kind);
void rounds_begin(struct core *core, struct job_slot *job, enum round_kind kind, int64_t version);
void rounds_finish(struct core *core, struct job_slot *job, enum round_kind kind);

#endif
