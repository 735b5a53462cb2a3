/* Evaluations of averages on the samples that devices hold out. */
#include <math.h>

#include "coordinator/core/gossip/gossip_inside.h"

/* The rest of the group's present step, and the evaluation of all samples at the speed of training:
 * an upper bound, as training is slower. */
static double test_seconds(const struct gossip *gossip, size_t group)
{
    const struct gossip_group *of = &gossip->group[group];
    const int64_t samples = gossip->rules.tests ? of->held : gossip->rules.test_samples;
    return (double)(samples + gossip->rules.batch) / of->speed;
}

static double longest_test(const struct gossip *gossip)
{
    double seconds = 0;
    for (size_t g = 0; g < gossip->count; g++) {
        seconds = gossip->group[g].present ? fmax(seconds, test_seconds(gossip, g)) : seconds;
    }
    return seconds;
}

static int64_t test_ms(double seconds)
{
    const int64_t patience_ms = gossip_patience_ms(seconds);
    return patience_ms < GOSSIP_ARRIVAL_MS ? patience_ms : GOSSIP_ARRIVAL_MS;
}

int64_t gossip_evaluation_ms(const struct gossip *gossip)
{
    return test_ms(test_seconds(gossip, gossip->averager));
}

void gossip_begin_tests(struct gossip *gossip, double seconds, int64_t now_ms)
{
    gossip->tests_until_ms = now_ms + test_ms(seconds + longest_test(gossip));
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
        group->tests = group->tests || gossip->tests_until_ms > 0; /* the order arrived after all */
        group->tested = group->tested || report->average.tested;
    } else if (now_ms >= gossip->offered_until_ms) {
        group->tests = false; /* the order expired before it reached the group */
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
