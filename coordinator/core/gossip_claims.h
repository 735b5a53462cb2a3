/* gossip_claims.h: how many of the steps that a group claims count. A device reports its own steps;
 * the job ends when all groups together have made enough. A claim counts as far as the plan of the
 * group makes it possible, with a wide margin for a plan that is too slow. Pure. */
#ifndef COORDINATOR_CORE_GOSSIP_CLAIMS_H
#define COORDINATOR_CORE_GOSSIP_CLAIMS_H

#include <stdbool.h>
#include <stdint.h>

#define GOSSIP_CLAIM_FACTOR 16 /* times as fast as planned */
#define GOSSIP_CLAIM_STEPS 16  /* that may come at once, and are saved up */

/* Zero: the group has claimed nothing yet. */
struct gossip_claims {
    bool begun;
    int64_t reached; /* the steps that count */
    int64_t lost;    /* that the group has gone back by since it trained last, and that count too */
    int64_t at_ms;   /* until when `credit` is computed */
    double credit;   /* further steps that would count */
};

/* The group claims to have made `step` steps. begun_ms: when it may have begun, not after now_ms.
 * step_seconds: planned; 0: unknown, then claims count. */
void gossip_claim(struct gossip_claims *claims, int64_t step, double step_seconds, int64_t begun_ms,
                  int64_t now_ms);

#endif
