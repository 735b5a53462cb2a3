/* The phases of an average: its groups give copies, one group computes the average of these copies,
 * the others adopt it. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/gossip/gossip_inside.h"
#include "coordinator/core/state/deadlines.h"

size_t gossip_present(const struct gossip *gossip)
{
    size_t present = 0;
    for (size_t g = 0; g < gossip->count; g++) {
        present += gossip->group[g].present;
    }
    return present;
}

bool gossip_is_averaging(const struct gossip *gossip, size_t group)
{
    const bool averages = gossip->averager == group && gossip->group[group].tried;
    return averages && (gossip->phase == GOSSIP_COMPUTES || gossip->arrives_until_ms > 0);
}

bool gossip_is_evaluating(const struct gossip *gossip, size_t group, int64_t now_ms)
{
    return gossip_is_averaging(gossip, group) && gossip->phase != GOSSIP_COMPUTES &&
           now_ms < gossip->evaluates_until_ms;
}

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

/* async: the groups have mixed often enough on average. */
static bool has_mixed_enough(const struct gossip *gossip, size_t present)
{
    int64_t mixes = 0;
    for (size_t g = 0; g < gossip->count; g++) {
        mixes += gossip->group[g].present ? gossip->group[g].mixes : 0;
    }
    return mixes >= gossip->rules.average_every * (int64_t)present;
}

/* rounds: an average that is adopted takes the place of the pairs of a round, for the groups that
 * wait. An average that is not adopted follows a round. */
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
        return false; /* one average at a time is uploaded */
    }
    return gossip->rules.rounds ? round_is_averaged(gossip, now_ms)
                                : has_mixed_enough(gossip, present);
}

/* ---- who gives a copy, and who computes ---- */

/* If the average takes the place of a round, it leaves out late groups. */
static bool is_asked(const struct gossip *gossip, const struct gossip_group *group)
{
    const bool waits = gossip->rules.rounds && gossip_adopts(gossip);
    return group->present && group->heard && (!waits || group->wants);
}

/* A copy that two groups could not get is left out until an average was computed without it. */
static bool may_be_got(const struct gossip_group *group)
{
    return group->lacked < GOSSIP_LACKED_MAX;
}

/* The group gave its copy, or may still do so. */
static bool contributes(const struct gossip *gossip, const struct gossip_group *group,
                        int64_t now_ms)
{
    return group->present && group->asked && may_be_got(group) &&
           (group->gave || now_ms < gossip->copies_until_ms);
}

static bool may_average(const struct gossip *gossip, size_t group, const bool *member)
{
    const struct gossip_group *of = &gossip->group[group];
    return member[group] && !of->tried && (of->gave || gossip->phase == GOSSIP_MIXES);
}

/* Choose by levels_averager, and the avoided group last; count: no group is left. If an averager
 * has failed, choose only among the groups that gave their copies. */
static size_t choose_averager(const struct gossip *gossip, const bool *member)
{
    const size_t count = gossip->count, avoided = gossip->avoids ? gossip->avoided : count;
    double speed[LEVELS_GROUPS_MAX], seconds[LEVELS_GROUPS_MAX * LEVELS_GROUPS_MAX];
    bool may[LEVELS_GROUPS_MAX] = {false};
    for (size_t g = 0; g < count; g++) {
        speed[g] = gossip->group[g].speed;
        may[g] = g != avoided && may_average(gossip, g, member);
        memcpy(&seconds[g * count], gossip->seconds[g], count * sizeof(seconds[0]));
    }
    const struct levels_problem problem = {.count = count, .speed = speed, .seconds = seconds};
    const size_t best = levels_averager(&problem, member, may);
    const bool last_resort =
        best == count && avoided < count && may_average(gossip, avoided, member);
    return last_resort ? avoided : best;
}

static void find_contributors(const struct gossip *gossip, bool *member, int64_t now_ms)
{
    for (size_t g = 0; g < gossip->count; g++) {
        member[g] = contributes(gossip, &gossip->group[g], now_ms);
    }
}

/* Order a group to compute the average of the members. The ring must have room for the order. */
static void order_sum(struct gossip *gossip, size_t averager, const bool *member,
                      int64_t deadline_ms)
{
    struct mix_match *match =
        gossip_add(gossip, averager, gossip->average, MIX_AVERAGE, deadline_ms);
    match->averages = true;
    gossip_add_alpha(match, gossip_adopts(gossip) ? 1 : 0);
    for (size_t g = 0; g < gossip->count; g++) {
        gossip->in_average[g] = member[g];
        if (member[g]) {
            gossip_add_peer(gossip, match, g);
        }
    }
    gossip->averager = averager;
    gossip->failed = false;
    gossip->lacks = LEVELS_GROUPS_MAX;
    gossip->group[averager].tried = true;
}

/* ---- the phases ---- */

/* No group is left, so the links between the groups were the cause. */
static void trust_all(struct gossip *gossip)
{
    for (size_t g = 0; g < gossip->count; g++) {
        gossip->group[g].lacked = 0;
    }
}

/* Choose the groups that give a copy for a new average, and return its averager; count: none.
 * *seconds: of the longest copy. */
static size_t choose_members(struct gossip *gossip, bool *member, double *seconds)
{
    *seconds = 0;
    for (size_t g = 0; g < gossip->count; g++) {
        struct gossip_group *group = &gossip->group[g];
        group->asked = is_asked(gossip, group);
        member[g] = group->asked && may_be_got(group);
        group->gave = group->tried = group->adopted = false;
        group->tests = group->tested = false;
        *seconds = member[g] ? fmax(*seconds, longest_copy(gossip, g)) : *seconds;
    }
    return choose_averager(gossip, member);
}

/* From now on groups give their copies, which take `seconds`. For the last average, each group has
 * as much time as for a stop. */
static void enter_computes(struct gossip *gossip, double seconds, int64_t now_ms)
{
    const double step = gossip_longest_step(gossip);
    enter_phase(gossip, GOSSIP_COMPUTES, seconds + step, now_ms);
    if (gossip->is_last) {
        const int64_t stop_ms = now_ms + deadlines_step_end_ms(step);
        gossip->phase_until_ms =
            stop_ms > gossip->phase_until_ms ? stop_ms : gossip->phase_until_ms;
    }
    gossip->copies_until_ms = gossip->phase_until_ms;
}

/* All members give a copy, and the averager fetches the other copies as soon as they exist. */
static void begin(struct gossip *gossip, int64_t now_ms)
{
    bool member[LEVELS_GROUPS_MAX];
    double seconds;
    if (!gossip_has_room(gossip, gossip->count)) {
        return;
    }
    gossip->is_last = gossip->finishes;
    size_t averager = choose_members(gossip, member, &seconds);
    if (averager == gossip->count) {
        trust_all(gossip);
        averager = choose_members(gossip, member, &seconds);
    }
    if (averager == gossip->count) {
        return;
    }
    gossip->average = gossip_new_xid(gossip);
    gossip->average_step = gossip->rate_step;
    gossip->stored = gossip->has_tests = false;
    const double all = seconds * (double)gossip->count;
    enter_computes(gossip, all, now_ms);
    /* The copy is needed until the average is adopted: for three times the time of this phase. */
    const int64_t until_ms = now_ms + 3 * (gossip->phase_until_ms - now_ms);
    for (size_t g = 0; g < gossip->count; g++) {
        gossip->group[g].mixes = 0;
        if (member[g] && g != averager) {
            gossip_add_alpha(gossip_add(gossip, g, gossip->average, MIX_AVERAGE, until_ms),
                             gossip_adopts(gossip) ? 1 : 0);
        }
    }
    order_sum(gossip, averager, member, until_ms);
    gossip_begin_round(gossip, now_ms);
    gossip->rounds = 0;
}

/* Whether a group of the average left, or began again, before it gave its copy. */
static bool lost_member(const struct gossip *gossip)
{
    bool lost = false;
    for (size_t g = 0; g < gossip->count; g++) {
        const struct gossip_group *group = &gossip->group[g];
        lost = lost || (gossip->in_average[g] && !group->gave && !(group->present && group->asked));
    }
    return lost;
}

/* The averager has given up, or takes too long. Either the copy that it could not get is the cause,
 * or the averager itself: the attempts of others will show it. If the averager reports its own
 * copy, that copy is certainly bad. */
static void blame(struct gossip *gossip)
{
    const size_t lacks = gossip->lacks;
    if (lacks < gossip->count && gossip->in_average[lacks]) {
        struct gossip_group *group = &gossip->group[lacks];
        group->lacked = lacks == gossip->averager ? GOSSIP_LACKED_MAX : group->lacked + 1;
    }
}

/* Whether all members of an average that are still present gave their copies. */
static bool all_gave(const struct gossip *gossip, const bool *member)
{
    bool all = true;
    for (size_t g = 0; g < gossip->count; g++) {
        const struct gossip_group *group = &gossip->group[g];
        all = all && (!member[g] || !group->present || group->gave);
    }
    return all;
}

void gossip_note_copy(struct gossip *gossip, int64_t now_ms)
{
    if (gossip->phase == GOSSIP_COMPUTES && all_gave(gossip, gossip->in_average)) {
        const double seconds = longest_copy(gossip, gossip->averager) * (double)gossip->count;
        const int64_t until_ms = now_ms + gossip_patience_ms(seconds);
        gossip->phase_until_ms =
            until_ms < gossip->phase_until_ms ? until_ms : gossip->phase_until_ms;
    }
}

/* No group can compute the average. If it was the last one, its repetition does not wait again for
 * groups that missed the time for their copy. */
static void abandon(struct gossip *gossip, int64_t now_ms)
{
    const bool over = gossip->is_last && now_ms >= gossip->copies_until_ms;
    for (size_t g = 0; g < gossip->count && over; g++) {
        struct gossip_group *group = &gossip->group[g];
        if (gossip->in_average[g] && group->present && group->asked && !group->gave) {
            group->lacked = GOSSIP_LACKED_MAX;
        }
    }
    gossip->phase = GOSSIP_MIXES;
}

/* Another group computes the average of the copies that were given or may still come. */
static void compute_again(struct gossip *gossip, int64_t now_ms)
{
    bool member[LEVELS_GROUPS_MAX];
    find_contributors(gossip, member, now_ms);
    const size_t averager = choose_averager(gossip, member);
    if (averager == gossip->count) {
        abandon(gossip, now_ms);
        return;
    }
    if (gossip_has_room(gossip, 1)) {
        const double seconds = longest_copy(gossip, averager) * (double)gossip->count;
        enter_phase(gossip, GOSSIP_COMPUTES, seconds, now_ms);
        if (!all_gave(gossip, member) && gossip->copies_until_ms > gossip->phase_until_ms) {
            gossip->phase_until_ms = gossip->copies_until_ms;
        }
        const int64_t until_ms = now_ms + 2 * (gossip->phase_until_ms - now_ms);
        order_sum(gossip, averager, member, until_ms);
    }
}

static void watch_averager(struct gossip *gossip, int64_t now_ms)
{
    const bool gone = !gossip->group[gossip->averager].tried; /* the averager left or began again */
    const bool fails = gossip->failed || now_ms >= gossip->phase_until_ms;
    if (fails && !gone) {
        blame(gossip);
    }
    if (fails || gone || lost_member(gossip)) {
        compute_again(gossip, now_ms);
    }
}

int64_t gossip_arrival_ms(const struct gossip *gossip)
{
    const int most = GOSSIP_ARRIVAL_DOUBLINGS;
    return (int64_t)GOSSIP_ARRIVAL_MS << (gossip->overdue < most ? gossip->overdue : most);
}

/* Offer the average to all groups, late ones too. A group that does not adopt it may fetch it to
 * evaluate it. */
static void offer(struct gossip *gossip, int64_t now_ms)
{
    /* All fetch it from one device. */
    const double seconds = longest_copy(gossip, gossip->averager) * (double)gossip->count;
    const bool adopts = gossip_adopts(gossip), tests = gossip_may_test(gossip);
    enter_phase(gossip, GOSSIP_ADOPTS, seconds + gossip_longest_step(gossip), now_ms);
    const int64_t until_ms = gossip->phase_until_ms;
    gossip->offered_until_ms = until_ms;
    if (gossip->is_last) {
        /* It travels to the coordinator. */
        gossip->phase_until_ms = now_ms + gossip_arrival_ms(gossip);
    }
    for (size_t g = 0; g < gossip->count; g++) {
        struct gossip_group *group = &gossip->group[g];
        if (gossip->is_last && !tests) {
            continue; /* if the average does not arrive, it is computed again from these copies */
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

/* Whether every asked group that is still present has adopted the average. */
static bool all_adopted(const struct gossip *gossip)
{
    for (size_t g = 0; g < gossip->count; g++) {
        const struct gossip_group *group = &gossip->group[g];
        if (group->present && group->asked && !group->adopted) {
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
            begin(gossip, now_ms);
        }
        break;
    case GOSSIP_COMPUTES: watch_averager(gossip, now_ms); break;
    case GOSSIP_ADOPTS:
        if (gossip->offered_until_ms == 0) {
            offer(gossip, now_ms);
        } else if (gossip->is_last && gossip->stored) {
            break; /* the job ends when the average was evaluated */
        } else if (over || (gossip->is_last ? !gossip->group[gossip->averager].tried
                                            : all_adopted(gossip))) {
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
    bool member[LEVELS_GROUPS_MAX];
    find_contributors(gossip, member, now_ms);
    gossip->arrives_until_ms = 0;
    if (gossip->is_last && choose_averager(gossip, member) < gossip->count) {
        gossip->phase = GOSSIP_COMPUTES;
        gossip->phase_until_ms = now_ms;
    }
}
