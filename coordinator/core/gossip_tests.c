/* Evaluations of averages on the samples that devices hold out. */
#include <math.h>

#include "coordinator/core/gossip_inside.h"

/* Until the present step is over, and all held-out samples are evaluated at the speed of training,
 * which is slower. */
static double longest_test(const struct gossip *gossip)
{
    double seconds = 0;
    for (size_t g = 0; g < gossip->count; g++) {
        const struct gossip_group *group = &gossip->group[g];
        const double samples = (double)(group->held + gossip->rules.batch);
        seconds = group->present ? fmax(seconds, samples / group->speed) : seconds;
    }
    return seconds;
}

void gossip_begin_tests(struct gossip *gossip, double seconds, int64_t now_ms)
{
    const int64_t patience_ms = gossip_patience_ms(seconds + longest_test(gossip));
    gossip->tests_until_ms =
        now_ms + (patience_ms < GOSSIP_ARRIVAL_MS ? patience_ms : GOSSIP_ARRIVAL_MS);
    for (size_t g = 0; g < gossip->count; g++) {
        struct gossip_group *group = &gossip->group[g];
        group->tests = group->present && group->heard;
        group->tested = false;
    }
}

void gossip_hear_tests(struct gossip *gossip, size_t index, const struct gossip_report *report,
                       int64_t now_ms)
{
    struct gossip_group *group = &gossip->group[index];
    if (mix_xid_is(report->average.xid, gossip->average)) {
        group->tests = group->tests || gossip->tests_until_ms > 0; /* it has come after all */
        group->tested = group->tested || report->average.tested;
    } else if (now_ms >= gossip->offered_until_ms) {
        group->tests = false; /* its order, which is over, has not reached it */
    }
}

void gossip_tick_tests(struct gossip *gossip, int64_t now_ms)
{
    bool waits = false;
    for (size_t g = 0; g < gossip->count; g++) {
        waits = waits || gossip_is_testing(gossip, g);
    }
    if (gossip->tests_until_ms > 0 && (!waits || now_ms >= gossip->tests_until_ms)) {
        gossip->tests_until_ms = 0;
        gossip->has_tests = true;
    }
}

void gossip_store_tests(struct gossip *gossip)
{
    if (gossip->is_last && gossip->rules.tests) {
        gossip->phase = GOSSIP_ADOPTS;
        gossip->offered_until_ms = 0;
    }
}

bool gossip_take_tests(struct gossip *gossip)
{
    const bool takes = gossip->has_tests && gossip->stored;
    gossip->has_tests = gossip->has_tests && !takes;
    return takes;
}
