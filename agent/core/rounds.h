/* rounds.h: the lead (of a pipeline: stage 0) decides which step opens a round of replication.
 *
 * A round copies one version of every stage to the neighbour or to the center. At most one round of
 * each kind is open, so that copies of an old version never compete with those of a new one. No
 * round is opened while the coordinator is away, because only the coordinator commits versions. One
 * exception: the round of a checkpoint replaces an open round to the center that is not one of a
 * checkpoint. The strategy carries the mark of the round to every stage that keeps units; each
 * takes its snapshot at its own update of that step. A round ends when the coordinator says so, or
 * with the generation. Pure. */
#ifndef AGENT_CORE_ROUNDS_H
#define AGENT_CORE_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "schema/heartbeat.h"

/* Where the snapshots of a round go. */
enum replica_kind { REPLICA_NEIGHBOR, REPLICA_CENTER };
#define REPLICA_KINDS 2
#define REPLICA_MARK(kind) (1u << (kind))

#define ROUND_KEEP_MAX 3
struct round_mark {
    unsigned kinds; /* REPLICA_MARK of each round that the step's snapshot is for; 0: no mark */
    /* With a mark: older versions of this generation that are still needed, namely the newest
     * committed one and those of open rounds; 0: none. The rounds of all other versions were
     * abandoned. A device that is short of memory may drop those versions. */
    int64_t keep[ROUND_KEEP_MAX];
};

struct rounds {
    int64_t every[REPLICA_KINDS]; /* steps between two rounds; 0: never */
    int64_t checkpoint_every; /* steps between two checkpoints: rounds to the center; 0: never */
    int64_t resume_version, total_steps;
    bool away; /* the coordinator is away */
    bool paused[REPLICA_KINDS];
    int64_t open[REPLICA_KINDS]; /* the version of the open round; 0: none */
    int64_t committed;           /* the newest of this generation; 0: none */
};

/* Check the numbers of a generation. ERR_INVALID names the invalid one: versions, steps between two
 * evaluations, or steps between two rounds, by enum replica_kind. */
NODISCARD int rounds_check(int64_t resume_version, int64_t total_steps, int64_t evaluate_every,
                           const int64_t every[REPLICA_KINDS], struct err *err);
/* Open the rounds that are due as the step begins. *mark: the mark of the step; its kinds are 0
 * when no round is due. */
void rounds_open(struct rounds *rounds, int64_t step, struct round_mark *mark);
/* Take the coordinator's answer about the reported rounds, by enum replica_kind. Open rounds that
 * were committed or abandoned end. Paused kinds open no rounds. */
void rounds_take(struct rounds *rounds, const struct round round[REPLICA_KINDS]);
/* Report the open rounds. */
void rounds_report(const struct rounds *rounds, struct heartbeat *out);

#endif
