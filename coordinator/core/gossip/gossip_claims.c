#include "coordinator/core/gossip/gossip_claims.h"

#include <math.h>

#define STEPS_AT_ONCE_MAX 1e12 /* fits int64_t */

/* The steps possible since at_ms, and the unused credit of before. */
static double credit_now(const struct gossip_claims *claims, double step_seconds, int64_t now_ms)
{
    const double seconds = (double)(now_ms - claims->at_ms) / 1000;
    const double possible = GOSSIP_CLAIM_FACTOR * fmax(seconds, 0) / step_seconds;
    return fmin(claims->credit + possible, STEPS_AT_ONCE_MAX);
}

void gossip_claim(struct gossip_claims *claims, int64_t step, double step_seconds, int64_t begun_ms,
                  int64_t now_ms)
{
    if (!claims->begun) {
        claims->begun = true;
        claims->at_ms = begun_ms;
        claims->credit = GOSSIP_CLAIM_STEPS;
    }
    if (step <= claims->reached) {
        return;
    }
    const double credit =
        step_seconds > 0 ? credit_now(claims, step_seconds, now_ms) : STEPS_AT_ONCE_MAX;
    const double taken = fmin((double)(step - claims->reached), floor(credit));
    claims->reached += (int64_t)taken;
    claims->credit = fmin(credit - taken, GOSSIP_CLAIM_STEPS);
    claims->at_ms = now_ms;
}

bool gossip_move_lost(struct gossip_claims *claims, struct gossip_member *member, int64_t step)
{
    const int64_t back = step - member->lost_to;
    const int64_t found = back < 0 ? 0 : back < member->lost ? back : member->lost;
    const int64_t lost = claims->reached > step ? claims->reached - step : -found;
    if (lost == 0) {
        return false;
    }
    member->steps += lost;
    member->lost += lost;
    member->lost_to = step;
    claims->reached -= claims->begun ? lost : 0; /* the first claim has all steps of the job */
    return true;
}
