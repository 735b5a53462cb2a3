/* rounds.h: the open rounds of replication. */
#ifndef COORDINATOR_CORE_ROUNDS_H
#define COORDINATOR_CORE_ROUNDS_H

#include "coordinator/core/core.h"

struct job_slot;

enum round_kind { ROUND_OF_NEIGHBOR, ROUND_OF_CENTER, ROUND_KINDS };

/* The round of replication of a kind that is open in this generation. */
struct open_round {
    int64_t version; /* 0: none */
    int64_t last;    /* the newest that was ever open */
};

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
