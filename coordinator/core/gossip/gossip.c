#include "coordinator/core/gossip/gossip_inside.h"

#include <math.h>

#include "base/assert.h"
#include "coordinator/core/gossip/gossip_life.h"
#include "libtrain/model/shards.h"

#define USUAL_SECONDS 0.1 /* of a copy, until one is measured */

_Static_assert(LEVELS_GROUPS_MAX == GROUPS_MAX && LEVELS_GROUPS_MAX == SHARDS_MAX,
               "each group has a shard, and a match names up to all groups");

static const struct mix_xid no_xid;

void gossip_init(struct gossip *gossip, const struct gossip_rules *rules)
{
    *gossip = (struct gossip){.rules = *rules};
    for (size_t a = 0; a < LEVELS_GROUPS_MAX; a++) {
        for (size_t b = 0; b < LEVELS_GROUPS_MAX; b++) {
            gossip->seconds[a][b] = USUAL_SECONDS;
        }
    }
}

/* ---- levels ---- */

void gossip_level(struct gossip *gossip)
{
    size_t index[LEVELS_GROUPS_MAX], count = 0;
    double speed[LEVELS_GROUPS_MAX], seconds[LEVELS_GROUPS_MAX * LEVELS_GROUPS_MAX];
    double chance[LEVELS_GROUPS_MAX * LEVELS_GROUPS_MAX];
    for (size_t g = 0; g < gossip->count; g++) {
        if (gossip->group[g].present) {
            speed[count] = gossip->group[g].speed;
            index[count++] = g;
        }
    }
    gossip->period = 0;
    if (count < 2) {
        return;
    }
    for (size_t a = 0; a < count; a++) {
        for (size_t b = 0; b < count; b++) {
            seconds[a * count + b] = gossip->seconds[index[a]][index[b]];
        }
    }
    const struct levels_problem problem = {.count = count,
                                           .batch = gossip->rules.batch,
                                           .speed = speed,
                                           .seconds = seconds,
                                           .uniform = gossip->rules.uniform};
    gossip->period = gossip->rules.level ? levels_period(&problem) : 0;
    (void)levels_chances(&problem, chance);
    for (size_t a = 0; a < count; a++) {
        for (size_t b = 0; b < count; b++) {
            gossip->chance[index[a]][index[b]] = chance[a * count + b];
        }
    }
}

int64_t gossip_steps(const struct gossip *gossip, size_t group)
{
    const struct gossip_rules *rules = &gossip->rules;
    const struct gossip_group *of = &gossip->group[group];
    return !rules->level ? levels_pass(of->samples, rules->batch)
           : gossip->period > 0
               ? levels_every(of->speed, gossip->period, of->samples, rules->batch, NULL)
               : 1;
}

bool gossip_slows(const struct gossip *gossip, size_t group)
{
    const struct gossip_rules *rules = &gossip->rules;
    const struct gossip_group *of = &gossip->group[group];
    bool slows = false;
    if (rules->level && !rules->rounds && gossip->period > 0) {
        (void)levels_every(of->speed, gossip->period, of->samples, rules->batch, &slows);
    }
    return slows;
}

int64_t gossip_passed(const struct gossip *gossip, size_t group)
{
    return gossip->group[group].passed;
}

void gossip_link(struct gossip *gossip, size_t a, size_t b, double seconds)
{
    gossip->seconds[a][b] = gossip->seconds[b][a] = seconds;
}

void gossip_speed(struct gossip *gossip, size_t group, double speed)
{
    gossip->group[group].speed = speed;
}

/* ---- groups ---- */

void gossip_enter(struct gossip *gossip, size_t group, int64_t generation, int64_t samples,
                  double speed, bool successor, int64_t now_ms)
{
    ASSERT(group < LEVELS_GROUPS_MAX && speed > 0);
    gossip->count = group < gossip->count ? gossip->count : group + 1;
    gossip->group[group] = (struct gossip_group){.present = true,
                                                 .successor = successor,
                                                 .generation = generation,
                                                 .samples = samples,
                                                 .speed = speed,
                                                 .last_mix_ms = now_ms};
    gossip_level(gossip);
}

void gossip_hold_out(struct gossip *gossip, size_t group, int64_t held)
{
    gossip->group[group].held = held;
}

void gossip_leave(struct gossip *gossip, size_t group)
{
    gossip->group[group].present = gossip->group[group].tried = false;
    gossip_level(gossip);
}

static void hear_pair(struct gossip *gossip, size_t index, const struct gossip_report *report,
                      int64_t now_ms)
{
    struct gossip_group *group = &gossip->group[index];
    /* A report that was sent before the newer match arrived does not concern that match. */
    if (report->pair.open && !mix_xid_after(group->open, report->pair.xid)) {
        const bool known = mix_xid_is(report->pair.xid, group->open);
        const int64_t most_ms = gossip_patience_ms(gossip_longest_step(gossip));
        group->open_until_ms = known ? group->open_until_ms : now_ms + most_ms;
        group->open = report->pair.xid;
    } else if (gossip_is_open(group) && mix_xid_is(report->pair.xid, group->open)) {
        group->open = no_xid;
        group->mixes += report->pair.applied;
        group->successor = group->successor && !report->pair.applied;
        group->last_mix_ms = report->pair.applied ? now_ms : group->last_mix_ms;
    }
}

/* Take the loss of any average, so that a restarted coordinator learns it again. */
static void hear_loss(struct gossip_group *group, const struct gossip_report *report)
{
    if (report->average.has_loss && isfinite(report->average.loss) && report->average.loss >= 0) {
        group->loss = report->average.loss;
        group->has_loss = true;
    }
}

static void note_computed(struct gossip *gossip, int64_t now_ms)
{
    gossip->averages++;
    gossip->arrives_until_ms = now_ms + gossip_arrival_ms(gossip);
    gossip->evaluates_until_ms = now_ms + gossip_evaluation_ms(gossip);
    gossip->phase = GOSSIP_ADOPTS;
    gossip->offered_until_ms = 0;
    for (size_t g = 0; g < gossip->count; g++) {
        struct gossip_group *group = &gossip->group[g];
        group->lacked = gossip->in_average[g] || group->lacked == 0 ? 0 : group->lacked - 1;
    }
}

/* Take the report on the present average. */
static void hear_average(struct gossip *gossip, size_t index, const struct gossip_report *report,
                         int64_t now_ms)
{
    struct gossip_group *group = &gossip->group[index];
    const bool computes = gossip->phase == GOSSIP_COMPUTES && index == gossip->averager;
    if (report->average.copied && !group->gave) {
        group->gave = true;
        gossip_note_copy(gossip, now_ms);
    }
    if (gossip->phase == GOSSIP_ADOPTS && report->average.applied && !group->adopted) {
        group->adopted = true;
        group->last_mix_ms = gossip_adopts(gossip) ? now_ms : group->last_mix_ms;
    }
    /* If averages are not adopted, `applied` may mean that the group has given its copy. */
    if (computes && (report->computed || report->average.fetched ||
                     (report->average.applied && gossip_adopts(gossip)))) {
        note_computed(gossip, now_ms);
    } else if (computes) {
        gossip->failed = gossip->failed || report->average.failed;
        gossip->lacks =
            report->average.has_lacks ? (size_t)report->average.lacks : LEVELS_GROUPS_MAX;
    }
}

void gossip_hear(struct gossip *gossip, size_t index, const struct gossip_report *report,
                 int64_t now_ms)
{
    struct gossip_group *group = &gossip->group[index];
    if (!group->present || report->generation != group->generation) {
        return;
    }
    group->heard = true;
    group->step = report->step;
    /* A report may be older than the order to continue. */
    group->wants = report->wants && (group->passed == 0 || report->step > group->passed);
    group->successor = group->successor && !report->mixed;
    hear_pair(gossip, index, report, now_ms);
    hear_loss(group, report);
    gossip_hear_tests(gossip, index, report, now_ms);
    if (gossip->phase != GOSSIP_MIXES && mix_xid_is(report->average.xid, gossip->average)) {
        hear_average(gossip, index, report, now_ms);
    }
}

void gossip_outlive(struct gossip *gossip, uint64_t core_seed, struct mix_xid known)
{
    const struct mix_xid last = {gossip->rules.life, gossip->counter};
    if (mix_xid_after(known, last) && known.life <= MIX_LIFE_CLAIMED_MAX) {
        gossip->rules.life = gossip_life_after(core_seed, known.life);
    }
}

/* ---- time ---- */

void gossip_tick(struct gossip *gossip, int64_t rate_step, int64_t now_ms)
{
    gossip->rate_step = rate_step;
    for (size_t g = 0; g < gossip->count; g++) {
        struct gossip_group *group = &gossip->group[g];
        if (gossip_is_open(group) && now_ms >= group->open_until_ms) {
            group->open = no_xid;
        }
    }
    if (now_ms >= gossip->arrives_until_ms || !gossip->group[gossip->averager].tried) {
        gossip->overdue += gossip->arrives_until_ms > 0 && now_ms >= gossip->arrives_until_ms;
        gossip->arrives_until_ms = 0;
    }
    gossip_tick_tests(gossip, now_ms);
    gossip_average(gossip, now_ms);
    if (gossip_may_match(gossip)) {
        gossip_match(gossip, now_ms);
    }
}

void gossip_stored(struct gossip *gossip, struct mix_xid xid)
{
    if (mix_xid_is(xid, gossip->average)) {
        gossip->arrives_until_ms = 0;
        gossip->overdue = 0;
        gossip->stored = true;
        gossip_store_tests(gossip);
    }
}

int64_t gossip_due_ms(const struct gossip *gossip)
{
    int64_t due_ms = gossip->phase == GOSSIP_MIXES ? INT64_MAX : gossip->phase_until_ms;
    for (size_t g = 0; g < gossip->count; g++) {
        const struct gossip_group *group = &gossip->group[g];
        if (gossip_is_open(group) && group->open_until_ms < due_ms) {
            due_ms = group->open_until_ms;
        }
    }
    if (gossip->arrives_until_ms > 0 && gossip->arrives_until_ms < due_ms) {
        due_ms = gossip->arrives_until_ms;
    }
    if (gossip->tests_until_ms > 0 && gossip->tests_until_ms < due_ms) {
        due_ms = gossip->tests_until_ms;
    }
    const int64_t late_ms = gossip_late_ms(gossip);
    return late_ms < due_ms ? late_ms : due_ms;
}
