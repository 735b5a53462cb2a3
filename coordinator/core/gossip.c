#include "coordinator/core/gossip.h"

#include <math.h>

#include "base/assert.h"
#include "base/rng.h"
#include "libtrain/model/shards.h"

#define PATIENCE_MS 2000 /* of a match, at least */
#define PATIENCE_COPIES 3
#define ARRIVAL_MS 600000 /* of the last average, until another one is begun */
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

static bool is_open(const struct gossip_group *group)
{
    return group->open.counter > 0;
}

/* It may be matched. */
static bool is_free(const struct gossip_group *group)
{
    return group->present && group->heard && !is_open(group);
}

static size_t count_present(const struct gossip *gossip)
{
    size_t count = 0;
    for (size_t g = 0; g < gossip->count; g++) {
        count += gossip->group[g].present;
    }
    return count;
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
    gossip->period = levels_period(&problem);
    (void)levels_chances(&problem, chance);
    for (size_t a = 0; a < count; a++) {
        for (size_t b = 0; b < count; b++) {
            gossip->chance[index[a]][index[b]] = chance[a * count + b];
        }
    }
}

int64_t gossip_steps(const struct gossip *gossip, size_t group)
{
    return gossip->period > 0
               ? levels_steps(gossip->group[group].speed, gossip->period, gossip->rules.batch)
               : 1;
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

void gossip_leave(struct gossip *gossip, size_t group)
{
    gossip->group[group].present = gossip->group[group].tried = false;
    gossip_level(gossip);
}

static void hear_pair(struct gossip_group *group, const struct gossip_report *report,
                      int64_t now_ms)
{
    if (report->pair.open) {
        const bool known = mix_xid_is(report->pair.xid, group->open);
        group->open_until_ms = known ? group->open_until_ms : now_ms + PATIENCE_MS;
        group->open = report->pair.xid;
    } else if (is_open(group) && mix_xid_is(report->pair.xid, group->open)) {
        group->open = no_xid;
        group->mixes += report->pair.applied;
        group->successor = group->successor && !report->pair.applied;
        group->last_mix_ms = report->pair.applied ? now_ms : group->last_mix_ms;
    }
}

/* Of any average: a restarted coordinator learns it again. */
static void hear_loss(struct gossip_group *group, const struct gossip_report *report)
{
    if (report->average.has_loss && isfinite(report->average.loss) && report->average.loss >= 0) {
        group->loss = report->average.loss;
        group->has_loss = true;
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
    group->wants = report->wants;
    group->successor = group->successor && !report->mixed;
    hear_pair(group, report, now_ms);
    hear_loss(group, report);
    if (gossip->phase == GOSSIP_MIXES || !mix_xid_is(report->average.xid, gossip->average)) {
        return;
    }
    group->gave = group->gave || report->average.copied;
    group->adopted = group->adopted || (gossip->phase == GOSSIP_ADOPTS && report->average.applied);
    const bool computed = report->average.fetched || report->average.applied;
    if (gossip->phase == GOSSIP_COMPUTES && index == gossip->averager && computed) {
        gossip->averages++;
        gossip->phase = GOSSIP_ADOPTS;
        gossip->offered = false;
    }
}

/* ---- orders ---- */

static struct mix_match *add(struct gossip *gossip, size_t group, struct mix_xid xid, int kind,
                             int64_t deadline_ms)
{
    ASSERT(gossip->orders < GOSSIP_ORDERS_MAX);
    struct gossip_order *order =
        &gossip->order[(gossip->first + gossip->orders++) % GOSSIP_ORDERS_MAX];
    *order = (struct gossip_order){
        .group = group,
        .match = {.xid = xid,
                  .kind = kind,
                  .own = {.group = (int64_t)group, .generation = gossip->group[group].generation},
                  .rate_step = gossip->rate_step,
                  .deadline_ms = deadline_ms}};
    return &order->match;
}

static void add_peer(const struct gossip *gossip, struct mix_match *match, size_t group)
{
    match->peer[match->peer_count++] =
        (struct mix_member){.group = (int64_t)group, .generation = gossip->group[group].generation};
}

static void add_alpha(struct mix_match *match, double alpha)
{
    match->alpha = match->statistics_alpha = alpha;
}

bool gossip_next(struct gossip *gossip, struct gossip_order *out)
{
    if (gossip->orders == 0) {
        return false;
    }
    *out = gossip->order[gossip->first];
    gossip->first = (gossip->first + 1) % GOSSIP_ORDERS_MAX;
    gossip->orders--;
    return true;
}

static bool has_room(const struct gossip *gossip, size_t orders)
{
    return gossip->orders + orders <= GOSSIP_ORDERS_MAX;
}

static struct mix_xid new_xid(struct gossip *gossip)
{
    return (struct mix_xid){gossip->rules.life, ++gossip->counter};
}

static int64_t patience_ms(double seconds)
{
    return (int64_t)fmax(PATIENCE_MS, PATIENCE_COPIES * 1000 * fmin(seconds, 1e6));
}

/* ---- pairs ---- */

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
    const int64_t until_ms = now_ms + patience_ms(gossip->seconds[a][b]);
    const struct mix_xid xid = new_xid(gossip);
    double alpha[2];
    levels_alphas(weights_of(gossip, a, b), side, alpha);
    for (size_t i = 0; i < 2; i++) {
        struct mix_match *match = add(gossip, group[i], xid, MIX_PAIR, until_ms);
        add_peer(gossip, match, group[1 - i]);
        add_alpha(match, alpha[i]);
        gossip->group[group[i]].open = xid;
        gossip->group[group[i]].open_until_ms = until_ms;
        gossip->group[group[i]].wants = false;
    }
}

static void match_all(struct gossip *gossip, int64_t now_ms)
{
    bool free[LEVELS_GROUPS_MAX];
    for (size_t g = 0; g < gossip->count; g++) {
        if (!is_free(&gossip->group[g]) || !gossip->group[g].wants || !has_room(gossip, 2)) {
            continue;
        }
        for (size_t other = 0; other < gossip->count; other++) {
            free[other] = other != g && is_free(&gossip->group[other]);
        }
        const struct rng_stream stream =
            rng_stream(gossip->rules.seed, RNG_MATCH, (uint64_t)gossip->rules.life, 0);
        const double at = (double)rng_uniform(&stream, (uint64_t)gossip->counter);
        const size_t partner = levels_partner(gossip->chance[g], free, gossip->count, at);
        if (partner < gossip->count) {
            match_pair(gossip, g, partner, now_ms);
        }
    }
}

/* ---- averages ---- */

static void enter_phase(struct gossip *gossip, enum gossip_phase phase, double seconds,
                        int64_t now_ms)
{
    gossip->phase = phase;
    gossip->phase_until_ms = now_ms + patience_ms(seconds);
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

static bool average_is_due(const struct gossip *gossip)
{
    int64_t mixes = 0;
    for (size_t g = 0; g < gossip->count; g++) {
        mixes += gossip->group[g].present ? gossip->group[g].mixes : 0;
    }
    const size_t present = count_present(gossip);
    return gossip->finishes
               ? present >= 1
               : present >= 2 && mixes >= gossip->rules.average_every * (int64_t)present;
}

/* Whether the groups move to the average: to the last one none does. */
static bool adopts(const struct gossip *gossip)
{
    return gossip->rules.adopts && !gossip->is_last;
}

static void gather(struct gossip *gossip, int64_t now_ms)
{
    if (!has_room(gossip, gossip->count)) {
        return;
    }
    gossip->average = new_xid(gossip);
    gossip->average_step = gossip->rate_step;
    gossip->is_last = gossip->finishes;
    double seconds = 0;
    for (size_t g = 0; g < gossip->count; g++) {
        struct gossip_group *group = &gossip->group[g];
        group->asked = group->present && group->heard;
        group->gave = group->tried = group->adopted = false;
        group->mixes = 0;
        seconds = group->asked ? fmax(seconds, longest_copy(gossip, g)) : seconds;
    }
    /* Until it is adopted the copy is needed: each phase has its own time. */
    const int64_t until_ms = now_ms + 3 * patience_ms(seconds * (double)gossip->count);
    for (size_t g = 0; g < gossip->count; g++) {
        if (gossip->group[g].asked) {
            add_alpha(add(gossip, g, gossip->average, MIX_AVERAGE, until_ms),
                      adopts(gossip) ? 1 : 0);
        }
    }
    enter_phase(gossip, GOSSIP_GATHERS, seconds, now_ms);
}

static bool contributes(const struct gossip_group *group)
{
    return group->present && group->asked && group->gave;
}

/* The best connected one, then the fastest; count: none is left. */
static size_t choose_averager(const struct gossip *gossip)
{
    size_t best = gossip->count;
    double least = INFINITY;
    for (size_t g = 0; g < gossip->count; g++) {
        const struct gossip_group *group = &gossip->group[g];
        double sum = 0;
        for (size_t other = 0; other < gossip->count; other++) {
            sum += other != g && contributes(&gossip->group[other]) ? gossip->seconds[g][other] : 0;
        }
        const bool may = contributes(group) && !group->tried;
        const bool better = sum < least || (sum <= least && best < gossip->count &&
                                            group->speed > gossip->group[best].speed);
        best = may && better ? g : best;
        least = best == g ? sum : least;
    }
    return best;
}

static void compute(struct gossip *gossip, int64_t now_ms)
{
    const size_t averager = choose_averager(gossip);
    if (averager == gossip->count) {
        gossip->phase = GOSSIP_MIXES; /* nobody can: it is abandoned */
        return;
    }
    if (!has_room(gossip, 1)) {
        return;
    }
    const double seconds = longest_copy(gossip, averager) * (double)gossip->count;
    struct mix_match *match =
        add(gossip, averager, gossip->average, MIX_AVERAGE, now_ms + 2 * patience_ms(seconds));
    match->averages = true;
    add_alpha(match, adopts(gossip) ? 1 : 0);
    for (size_t g = 0; g < gossip->count; g++) {
        if (contributes(&gossip->group[g])) {
            add_peer(gossip, match, g);
        }
    }
    gossip->averager = averager;
    gossip->group[averager].tried = true;
    enter_phase(gossip, GOSSIP_COMPUTES, seconds, now_ms);
}

/* Late groups adopt it, too. */
static void offer(struct gossip *gossip, int64_t now_ms)
{
    const double seconds = longest_copy(gossip, gossip->averager);
    gossip->offered = true;
    enter_phase(gossip, GOSSIP_ADOPTS, seconds, now_ms);
    if (gossip->is_last) {
        gossip->phase_until_ms = now_ms + ARRIVAL_MS; /* it travels to the coordinator */
    }
    for (size_t g = 0; g < gossip->count; g++) {
        struct gossip_group *group = &gossip->group[g];
        if (gossip->is_last) {
            continue; /* it is computed again from the same copies if it does not arrive */
        }
        group->asked = adopts(gossip) && group->present && group->heard;
        if (group->asked && g != gossip->averager && has_room(gossip, 1)) {
            struct mix_match *match =
                add(gossip, g, gossip->average, MIX_ADOPT, gossip->phase_until_ms);
            add_peer(gossip, match, gossip->averager);
            add_alpha(match, 1);
        }
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

static void average(struct gossip *gossip, int64_t now_ms)
{
    const bool over = now_ms >= gossip->phase_until_ms;
    switch (gossip->phase) {
    case GOSSIP_MIXES:
        if (average_is_due(gossip)) {
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
        } else if (over || (gossip->is_last ? !gossip->group[gossip->averager].tried
                                            : all_did(gossip, true))) {
            gossip->phase = GOSSIP_MIXES;
        }
        break;
    }
}

void gossip_tick(struct gossip *gossip, int64_t rate_step, int64_t now_ms)
{
    gossip->rate_step = rate_step;
    for (size_t g = 0; g < gossip->count; g++) {
        struct gossip_group *group = &gossip->group[g];
        if (is_open(group) && now_ms >= group->open_until_ms) {
            group->open = no_xid;
        }
    }
    average(gossip, now_ms);
    if (!gossip->finishes && (gossip->phase == GOSSIP_MIXES || !adopts(gossip))) {
        match_all(gossip, now_ms);
    }
}

void gossip_refuse(struct gossip *gossip, int64_t now_ms)
{
    if (gossip->is_last && choose_averager(gossip) < gossip->count) {
        enter_phase(gossip, GOSSIP_COMPUTES, 0, now_ms - PATIENCE_MS);
    }
}

int64_t gossip_due_ms(const struct gossip *gossip)
{
    int64_t due_ms = gossip->phase == GOSSIP_MIXES ? INT64_MAX : gossip->phase_until_ms;
    for (size_t g = 0; g < gossip->count; g++) {
        const struct gossip_group *group = &gossip->group[g];
        if (is_open(group) && group->open_until_ms < due_ms) {
            due_ms = group->open_until_ms;
        }
    }
    return due_ms;
}
