/* rounds.h: the open rounds of replication, one to the neighbours and one to the center. */
#ifndef COORDINATOR_CORE_COPIES_ROUNDS_H
#define COORDINATOR_CORE_COPIES_ROUNDS_H

#include "coordinator/core/core.h"

struct job_slot;

enum round_kind { ROUND_OF_NEIGHBOR, ROUND_OF_CENTER, ROUND_KINDS };

/* The open round of one kind. */
struct open_round {
    int64_t version; /* 0: none */
    int64_t last;    /* newest version of a round of this generation */
};

/* Close all rounds. */
void rounds_reset(struct job_slot *job);
/* Reopen the round to the center whose rows were restored. */
void rounds_restore_center(struct core *core, struct job_slot *job);
/* Abandon the round to the center. */
void rounds_abandon_center(struct core *core, struct job_slot *job);
/* Finish the round to the center, which has every unit. */
void rounds_center_done(struct core *core, struct job_slot *job);
/* Abandon the rounds whose deadline has passed. */
void rounds_tick(struct core *core, struct job_slot *job);
/* Return whether no round of the kind may begin: the center's disk is nearly full. */
bool rounds_is_paused(const struct core *core, enum round_kind kind);
/* Return whether the job has rounds of this kind. */
bool rounds_is_wanted(const struct job_slot *job, enum round_kind kind);
/* Open a round. An open round of the same kind is abandoned. */
void rounds_begin(struct core *core, struct job_slot *job, enum round_kind kind, int64_t version);
/* Close a round. */
void rounds_finish(struct core *core, struct job_slot *job, enum round_kind kind);

#endif
