/* Pairs of groups. async: a group that wants a match is paired with a free group at once. rounds:
 * all groups wait for each other, and then all are paired. */
#include <math.h>

#include "base/rng.h"
#include "coordinator/core/gossip/gossip_inside.h"

#define LATE_PERIODS 1.5

/* ---- a pair ---- */

static struct levels_side side_of(const struct gossip *gossip, size_t index, int64_t now_ms)
{
    const struct gossip_group *group = &gossip->group[index];
    return (struct levels_side){.samples = group->samples,
                                .loss = group->loss,
                                .missed_periods = gossip_missed_periods(gossip, index, now_ms),
                                .successor = group->successor};
}

static enum levels_weights weights_of(const struct gossip *gossip, size_t a, size_t b)
{
    const bool known = gossip->group[a].has_loss && gossip->group[b].has_loss;
    return gossip->rules.weights == LEVELS_ACCURACY && !known ? LEVELS_EQUAL
                                                              : gossip->rules.weights;
}

static void match_pair(struct gossip *gossip, size_t a, size_t b, int64_t now_ms)
{
    const size_t group[] = {a, b};
    const struct levels_side side[] = {side_of(gossip, a, now_ms), side_of(gossip, b, now_ms)};
    const double step = fmax(gossip_step_seconds(gossip, a), gossip_step_seconds(gossip, b));
    const int64_t until_ms = now_ms + gossip_patience_ms(gossip->seconds[a][b] + step);
    const struct mix_xid xid = gossip_new_xid(gossip);
    double alpha[2];
    levels_alphas(weights_of(gossip, a, b), side, alpha);
    for (size_t i = 0; i < 2; i++) {
        struct mix_match *match = gossip_add(gossip, group[i], xid, MIX_PAIR, until_ms);
        gossip_add_peer(gossip, match, group[1 - i]);
        gossip_add_alpha(match, alpha[i]);
        gossip->group[group[i]].open = xid;
        gossip->group[group[i]].open_until_ms = until_ms;
        gossip->group[group[i]].wants = false;
    }
}

/* Draw a partner among the free groups; count: no group is free. */
static size_t draw_partner(const struct gossip *gossip, size_t group, const bool *free)
{
    const struct rng_stream stream =
        rng_stream(gossip->rules.seed, RNG_MATCH, (uint64_t)gossip->rules.life, 0);
    const double at = (double)rng_uniform(&stream, (uint64_t)gossip->counter);
    return levels_partner(gossip->chance[group], free, gossip->count, at);
}

/* ---- async ---- */

static void match_each(struct gossip *gossip, int64_t now_ms)
{
    bool free[LEVELS_GROUPS_MAX];
    for (size_t g = 0; g < gossip->count; g++) {
        if (!gossip_is_free(&gossip->group[g]) || !gossip->group[g].wants ||
            !gossip_has_room(gossip, 2)) {
            continue;
        }
        for (size_t other = 0; other < gossip->count; other++) {
            free[other] = other != g && gossip_is_free(&gossip->group[other]);
        }
        const size_t partner = draw_partner(gossip, g, free);
        if (partner < gossip->count) {
            match_pair(gossip, g, partner, now_ms);
        }
    }
}

/* ---- rounds ---- */

static bool waits(const struct gossip_group *group)
{
    return gossip_is_free(group) && group->wants;
}

/* Return the number of groups that wait; *late: the number of other present groups. */
static size_t count_waiting(const struct gossip *gossip, size_t *late)
{
    size_t waiting = 0, present = 0;
    for (size_t g = 0; g < gossip->count; g++) {
        waiting += waits(&gossip->group[g]);
        present += gossip->group[g].present;
    }
    *late = present - waiting;
    return waiting;
}

bool gossip_round_is_over(const struct gossip *gossip, int64_t now_ms)
{
    size_t late;
    const size_t waiting = count_waiting(gossip, &late);
    return waiting > 0 && (late == 0 || now_ms >= gossip_late_ms(gossip));
}

bool gossip_round_averages(const struct gossip *gossip)
{
    return gossip->rules.adopts && gossip->rounds + 1 >= gossip->rules.average_every;
}

void gossip_begin_round(struct gossip *gossip, int64_t now_ms)
{
    gossip->rounds++;
    gossip->round_ms = now_ms;
}

int64_t gossip_late_ms(const struct gossip *gossip)
{
    size_t late;
    /* The round of an average waits until the last one is stored and evaluated. */
    const bool averages_later = gossip_round_averages(gossip) &&
                                (gossip_awaits_tests(gossip) || gossip->arrives_until_ms > 0);
    return gossip->rules.rounds && gossip->rules.level && gossip_may_match(gossip) &&
                   !averages_later && count_waiting(gossip, &late) >= 2
               ? gossip->round_ms + (int64_t)(1000 * LATE_PERIODS * gossip->period)
               : INT64_MAX;
}

/* A group without a partner makes its next steps. */
static void pass(struct gossip_group *group)
{
    group->passed = group->step;
    group->wants = false;
}

/* Each round has its own order, so that it is not always the same group that comes last. */
static void match_round(struct gossip *gossip, int64_t now_ms)
{
    const struct rng_stream stream = rng_stream(
        gossip->rules.seed, RNG_MATCH, (uint64_t)gossip->rules.life, (uint32_t)gossip->counter + 1);
    uint32_t order[LEVELS_GROUPS_MAX];
    bool free[LEVELS_GROUPS_MAX] = {false};
    size_t waiting = 0;
    if (!gossip_round_is_over(gossip, now_ms) || !gossip_has_room(gossip, gossip->count)) {
        return;
    }
    for (size_t g = 0; g < gossip->count; g++) {
        order[g] = (uint32_t)g;
        free[g] = waits(&gossip->group[g]);
        waiting += free[g];
    }
    if (waiting > 1 && gossip_round_averages(gossip)) {
        return;
    }
    rng_shuffle(&stream, order, gossip->count);
    for (size_t i = 0; i < gossip->count; i++) {
        const size_t g = order[i];
        if (!free[g]) {
            continue;
        }
        free[g] = false;
        const size_t partner = draw_partner(gossip, g, free);
        if (partner < gossip->count) {
            free[partner] = false;
            match_pair(gossip, g, partner, now_ms);
        } else {
            pass(&gossip->group[g]);
        }
    }
    gossip_begin_round(gossip, now_ms);
}

void gossip_match(struct gossip *gossip, int64_t now_ms)
{
    (gossip->rules.rounds ? match_round : match_each)(gossip, now_ms);
}
