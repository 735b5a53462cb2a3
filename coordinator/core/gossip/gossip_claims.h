/* gossip_claims.h: how many of a group's claimed steps count. A device reports its own steps, and
 * the job ends when all groups together have made enough. A claim counts as far as it is possible
 * by the plan of the group, with a wide margin for a plan that is too slow. Pure. */
#ifndef COORDINATOR_CORE_GOSSIP_GOSSIP_CLAIMS_H
#define COORDINATOR_CORE_GOSSIP_GOSSIP_CLAIMS_H

#include <stdbool.h>
#include <stdint.h>

#include "schema/gossip.h"

#define GOSSIP_CLAIM_FACTOR 16 /* greatest believed speed, as a multiple of the planned speed */
#define GOSSIP_CLAIM_STEPS 16  /* steps that count at once; also the bound of the saved credit */

/* Zero: the group has claimed nothing yet. */
struct gossip_claims {
    bool begun;
    int64_t reached; /* the steps that count */
    int64_t at_ms;   /* time for which `credit` is computed */
    double credit;   /* further steps that would count */
};

/* Take the claim of a group to have made `step` steps. begun_ms: earliest possible start, not after
 * now_ms. step_seconds: planned; 0: unknown, then every claim counts. */
void gossip_claim(struct gossip_claims *claims, int64_t step, double step_seconds, int64_t begun_ms,
                  int64_t now_ms);
/* Lost steps count too. They go into the row of the group, because a restarted coordinator knows
 * only the steps of the group's job. Until the group trains again, returning copies may still
 * contain these steps: then they are those of the job again. step: of the job. Return whether the
 * row changed. */
bool gossip_move_lost(struct gossip_claims *claims, struct gossip_member *member, int64_t step);

#endif
