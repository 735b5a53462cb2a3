/* The phases of an average: its groups give a copy, one computes the average of those that did, the
 * others adopt it. */
#include <math.h>

#include "base/assert.h"
#include "coordinator/core/gossip_inside.h"

static void enter_phase(struct gossip *gossip, enum gossip_phase phase, double seconds,
                        int64_t now_ms)
{
    gossip->phase = phase;
    gossip->phase_until_ms = now_ms + gossip_patience_ms(seconds);
}

static double longest_copy(const struct gossip *gossip, size_t group)
{
    double seconds = 0;
    for (size_t g = 0; g < gossip->count; g++) {
        const bool counts = g != group && gossip->group[g].present;
        seconds = counts ? fmax(seconds, gossip->seconds[group][g]) : seconds;
    }
    return seconds;
}

/* Mixes of each group until the next average: 1, 2, 4, ... up to average_every. The first models of
 * a job come early. */
static int64_t mixes_wanted(const struct gossip *gossip)
{
    const int64_t most = gossip->rules.average_every;
    int64_t wanted = 1;
    for (int64_t a = 0; a < gossip->averages && wanted < most; a++) {
        wanted *= 2;
    }
    return wanted < most ? wanted : most;
}

/* async: the groups have mixed often enough, in the mean. */
static bool has_mixed_enough(const struct gossip *gossip, size_t present)
{
    int64_t mixes = 0;
    for (size_t g = 0; g < gossip->count; g++) {
        mixes += gossip->group[g].present ? gossip->group[g].mixes : 0;
    }
    return mixes >= mixes_wanted(gossip) * (int64_t)present;
}

/* rounds: an average that is adopted takes the place of the pairs of a round, for those that wait;
 * one that is not adopted follows a round. */
static bool round_is_averaged(const struct gossip *gossip, int64_t now_ms)
{
    return gossip->rules.adopts
               ? gossip_round_averages(gossip) && gossip_round_is_over(gossip, now_ms)
               : gossip->rounds >= gossip->rules.average_every;
}

static bool average_is_due(const struct gossip *gossip, int64_t now_ms)
{
    const size_t present = gossip_present(gossip);
    if (gossip_awaits_tests(gossip)) {
        return false;
    }
    if (gossip->finishes || present < 2) {
        return gossip->finishes && present > 0;
    }
    if (gossip->arrives_until_ms > 0) {
        return false; /* a group sends one at a time */
    }
    return gossip->rules.rounds ? round_is_averaged(gossip, now_ms)
                                : has_mixed_enough(gossip, present);
}

/* Of a round that the average takes the place of, the late ones are left out. */
static bool is_asked(const struct gossip *gossip, const struct gossip_group *group)
{
    const bool waits = gossip->rules.rounds && gossip_adopts(gossip);
    return group->present && group->heard && (!waits || group->wants);
}

static void gather(struct gossip *gossip, int64_t now_ms)
{
    if (!gossip_has_room(gossip, gossip->count)) {
        return;
    }
    gossip->average = gossip_new_xid(gossip);
    gossip->average_step = gossip->rate_step;
    gossip->is_last = gossip->finishes;
    gossip->stored = gossip->has_tests = false;
    double seconds = 0;
    for (size_t g = 0; g < gossip->count; g++) {
        struct gossip_group *group = &gossip->group[g];
        group->asked = is_asked(gossip, group);
        group->gave = group->tried = group->adopted = false;
        group->tests = group->tested = false;
        group->mixes = 0;
        seconds = group->asked ? fmax(seconds, longest_copy(gossip, g)) : seconds;
    }
    /* Until it is adopted the copy is needed: each phase has its own time. */
    const int64_t until_ms = now_ms + 3 * gossip_patience_ms(seconds * (double)gossip->count);
    for (size_t g = 0; g < gossip->count; g++) {
        if (gossip->group[g].asked) {
            gossip_add_alpha(gossip_add(gossip, g, gossip->average, MIX_AVERAGE, until_ms),
                             gossip_adopts(gossip) ? 1 : 0);
        }
    }
    gossip_begin_round(gossip, now_ms);
    gossip->rounds = 0;
    enter_phase(gossip, GOSSIP_GATHERS, seconds, now_ms);
}

static bool contributes(const struct gossip_group *group)
{
    return group->present && group->asked && group->gave;
}

static bool may_compute(const struct gossip *gossip, size_t g)
{
    return contributes(&gossip->group[g]) && !gossip->group[g].tried;
}

/* The best connected one, then the fastest, and the avoided one at last; count: none is left. */
static size_t choose_averager(const struct gossip *gossip)
{
    size_t best = gossip->count;
    double least = INFINITY;
    for (size_t g = 0; g < gossip->count; g++) {
        const struct gossip_group *group = &gossip->group[g];
        const bool last_resort = gossip->avoids && gossip->avoided == g;
        double sum = 0;
        for (size_t other = 0; other < gossip->count; other++) {
            sum += other != g && contributes(&gossip->group[other]) ? gossip->seconds[g][other] : 0;
        }
        const bool may = may_compute(gossip, g) && !last_resort;
        const bool better = sum < least || (sum <= least && best < gossip->count &&
                                            group->speed > gossip->group[best].speed);
        best = may && better ? g : best;
        least = best == g ? sum : least;
    }
    const bool avoided = best == gossip->count && gossip->avoids &&
                         gossip->avoided < gossip->count && may_compute(gossip, gossip->avoided);
    return avoided ? gossip->avoided : best;
}

static void compute(struct gossip *gossip, int64_t now_ms)
{
    const size_t averager = choose_averager(gossip);
    if (averager == gossip->count) {
        gossip->phase = GOSSIP_MIXES; /* nobody can: it is abandoned */
        return;
    }
    if (!gossip_has_room(gossip, 1)) {
        return;
    }
    const double seconds = longest_copy(gossip, averager) * (double)gossip->count;
    struct mix_match *match = gossip_add(gossip, averager, gossip->average, MIX_AVERAGE,
                                         now_ms + 2 * gossip_patience_ms(seconds));
    match->averages = true;
    gossip_add_alpha(match, gossip_adopts(gossip) ? 1 : 0);
    for (size_t g = 0; g < gossip->count; g++) {
        gossip->in_average[g] = contributes(&gossip->group[g]);
        if (gossip->in_average[g]) {
            gossip_add_peer(gossip, match, g);
        }
    }
    gossip->averager = averager;
    gossip->group[averager].tried = true;
    enter_phase(gossip, GOSSIP_COMPUTES, seconds, now_ms);
}

/* Late groups adopt it, too. A group that does not adopt it may fetch it to evaluate it. */
static void offer(struct gossip *gossip, int64_t now_ms)
{
    /* All fetch it from one device. */
    const double seconds = longest_copy(gossip, gossip->averager) * (double)gossip->count;
    const bool adopts = gossip_adopts(gossip), tests = gossip_may_test(gossip);
    gossip->offered = true;
    enter_phase(gossip, GOSSIP_ADOPTS, seconds, now_ms);
    const int64_t until_ms = gossip->phase_until_ms;
    if (gossip->is_last) {
        gossip->phase_until_ms = now_ms + GOSSIP_ARRIVAL_MS; /* it travels to the coordinator */
    }
    for (size_t g = 0; g < gossip->count; g++) {
        struct gossip_group *group = &gossip->group[g];
        if (gossip->is_last && !tests) {
            continue; /* it is computed again from the same copies if it does not arrive */
        }
        const bool there = group->present && group->heard;
        group->asked = adopts && there;
        if ((adopts || tests) && there && g != gossip->averager && gossip_has_room(gossip, 1)) {
            struct mix_match *match = gossip_add(gossip, g, gossip->average, MIX_ADOPT, until_ms);
            gossip_add_peer(gossip, match, gossip->averager);
            gossip_add_alpha(match, adopts ? 1 : 0);
        }
    }
    if (tests) {
        gossip_begin_tests(gossip, seconds, now_ms);
    }
}

/* Every group that was asked, and is still there, has given its copy, or adopted the average. */
static bool all_did(const struct gossip *gossip, bool adopt)
{
    for (size_t g = 0; g < gossip->count; g++) {
        const struct gossip_group *group = &gossip->group[g];
        if (group->present && group->asked && !(adopt ? group->adopted : group->gave)) {
            return false;
        }
    }
    return true;
}

void gossip_average(struct gossip *gossip, int64_t now_ms)
{
    const bool over = now_ms >= gossip->phase_until_ms;
    switch (gossip->phase) {
    case GOSSIP_MIXES:
        if (average_is_due(gossip, now_ms)) {
            gather(gossip, now_ms);
        }
        break;
    case GOSSIP_GATHERS:
        if (over || all_did(gossip, false)) {
            compute(gossip, now_ms);
        }
        break;
    case GOSSIP_COMPUTES:
        if (over || !gossip->group[gossip->averager].tried) { /* it was lost, or began again */
            compute(gossip, now_ms);
        }
        break;
    case GOSSIP_ADOPTS:
        if (!gossip->offered) {
            offer(gossip, now_ms);
        } else if (gossip->is_last && gossip->stored) {
            break; /* the job ends when it is evaluated */
        } else if (over || (gossip->is_last ? !gossip->group[gossip->averager].tried
                                            : all_did(gossip, true))) {
            gossip->phase = GOSSIP_MIXES;
        }
        break;
    }
}

void gossip_repeat_last(struct gossip *gossip)
{
    ASSERT(gossip->is_last);
    gossip->is_last = gossip->stored = gossip->has_tests = false;
    gossip->tests_until_ms = gossip->arrives_until_ms = 0;
    gossip->phase = GOSSIP_MIXES;
}

bool gossip_had_choice(const struct gossip *gossip)
{
    size_t groups = 0;
    for (size_t g = 0; g < gossip->count; g++) {
        groups += gossip->in_average[g];
    }
    return groups > 1;
}

void gossip_refuse(struct gossip *gossip, int64_t now_ms)
{
    gossip->arrives_until_ms = 0;
    if (gossip->is_last && choose_averager(gossip) < gossip->count) {
        gossip->phase = GOSSIP_COMPUTES;
        gossip->phase_until_ms = now_ms;
    }
}
