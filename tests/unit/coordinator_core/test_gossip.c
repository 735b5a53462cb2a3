/* Matches of groups, with the real part of a group (agent/core/mixing.h), in virtual time. A
 * group's state is one number, which only mixes change. */
#include <math.h>

#include "agent/core/mixing.h"
#include "base/rng.h"
#include "coordinator/core/gossip/gossip.h"
#include "tests/support/test.h"

enum { MOST = 6, BEAT_MS = 100, TICK_MS = 10, SAMPLES = 320, BATCH = 32 };

struct group {
    bool alive;
    struct mixing mixing;
    double x, own[MIXING_PLACES], peer[MIXING_PLACES][GROUPS_MAX], average;
    int64_t version, step_ms, next_step_ms, next_beat_ms;
    struct mix_match order[MIXING_PLACES]; /* it is repeated with every answer */
    int64_t mixes;
};

struct world {
    struct rng_stream random;
    uint64_t draws;
    struct gossip gossip;
    struct group group[MOST];
    size_t count;
    int64_t now_ms, copy_ms;
    bool disturbed; /* messages are lost, groups die, the coordinator restarts */
    struct mix_xid newest;
    double pair_alpha;
};

static size_t draw(struct world *world, size_t bound)
{
    return (size_t)rng_below(&world->random, world->draws++, bound);
}

static void start_group(struct world *world, size_t g, int64_t generation)
{
    struct group *group = &world->group[g];
    *group = (struct group){.alive = true,
                            .x = (double)draw(world, 1000) / 100,
                            .step_ms = 20 + (int64_t)draw(world, 300)};
    mixing_init(&group->mixing, (int64_t)g, generation, 0);
    gossip_enter(&world->gossip, g, generation, SAMPLES,
                 (double)BATCH * 1000 / (double)group->step_ms, generation > 1, world->now_ms);
}

struct way {
    bool adopts, disturbed, rounds, level;
    int64_t average_every;
};

static void start(uint64_t seed, const struct way *way, struct world *world)
{
    *world = (struct world){.random = rng_stream(seed, RNG_SIMULATION, 1, 0),
                            .disturbed = way->disturbed,
                            .copy_ms = 10};
    const struct gossip_rules options = {.seed = seed,
                                         .life = 1,
                                         .batch = BATCH,
                                         .rounds = way->rounds,
                                         .level = way->level,
                                         .adopts = way->adopts,
                                         .uniform = seed % 2 == 0,
                                         .average_every = way->average_every};
    gossip_init(&world->gossip, &options);
    world->count = 2 + draw(world, MOST - 1);
    for (size_t g = 0; g < world->count; g++) {
        start_group(world, g, 1);
    }
}

/* ---- groups ---- */

static void boundary(struct group *group)
{
    enum mixing_place place;
    enum mixing_work work;
    while ((work = mixing_next(&group->mixing, &place)) != MIXING_GO_ON) {
        const struct mix_match *match = &group->mixing.slot[place].match;
        if (work == MIXING_COPY) {
            group->own[place] = group->x;
            mixing_copied(&group->mixing, place, group->version, true);
            continue;
        }
        double given = group->peer[place][0];
        if (match->averages) {
            given = 0;
            for (size_t i = 0; i < match->peer_count; i++) {
                const bool own = match->peer[i].group == group->mixing.group;
                given +=
                    (own ? group->own[place] : group->peer[place][i]) / (double)match->peer_count;
            }
            group->average = given;
        }
        group->x += match->alpha * (given - group->own[place]);
        group->mixes += place == MIXING_PAIRS;
        mixing_applied(&group->mixing, place, group->version);
    }
}

static void fetch(struct world *world, struct group *group, enum mixing_place place)
{
    const struct mix_member *wanted = mixing_fetch(&group->mixing, place);
    enum mixing_place from;
    if (!wanted || (world->disturbed && draw(world, 10) == 0)) {
        return;
    }
    const struct mixing_slot *slot = &group->mixing.slot[place];
    const struct group *peer = &world->group[wanted->group];
    const bool average = slot->match.kind == MIX_ADOPT;
    if (!peer->alive ||
        mixing_serve(&peer->mixing, slot->match.xid, average, &from) != MIXING_SERVE ||
        (average && peer->mixing.slot[from].state != MIXING_APPLIED)) {
        return;
    }
    const struct mix_member copy = peer->mixing.slot[from].copy;
    group->peer[place][slot->fetched] = average ? peer->average : peer->own[from];
    mixing_fetched(&group->mixing, place, &copy, true, peer->mixing.record,
                   peer->mixing.record_count);
}

static struct gossip_report report_of(const struct world *world, const struct group *group,
                                      size_t g)
{
    const struct mixing_slot *slot = group->mixing.slot;
    struct gossip_report report = {
        .generation = group->mixing.generation,
        .step = group->version,
        .wants = mixing_wants(&group->mixing, group->version, gossip_steps(&world->gossip, g))};
    report.pair.xid = slot[MIXING_PAIRS].match.xid;
    report.pair.open =
        slot[MIXING_PAIRS].state >= MIXING_MATCHED && slot[MIXING_PAIRS].state <= MIXING_FETCHED;
    report.pair.applied = slot[MIXING_PAIRS].state == MIXING_APPLIED;
    report.average.xid = slot[MIXING_AVERAGES].match.xid;
    report.average.copied = slot[MIXING_AVERAGES].has_copy;
    report.average.fetched = slot[MIXING_AVERAGES].state == MIXING_FETCHED;
    report.average.applied =
        slot[MIXING_AVERAGES].state == MIXING_APPLIED &&
        slot[MIXING_AVERAGES].match.kind != MIX_PAIR &&
        (slot[MIXING_AVERAGES].match.averages || slot[MIXING_AVERAGES].match.kind == MIX_ADOPT);
    for (size_t r = 0; r < group->mixing.record_count; r++) {
        const struct mix_record *record = &group->mixing.record[r];
        report.computed =
            report.computed || (record->kind == MIX_AVERAGE && record->own.group == (int64_t)g &&
                                mix_xid_is(record->xid, report.average.xid));
    }
    return report;
}

/* A heartbeat: the report goes, the orders come, and records are stored. */
static void beat(struct world *world, size_t g)
{
    struct group *group = &world->group[g];
    const struct gossip_report report = report_of(world, group, g);
    if (world->disturbed && draw(world, 8) == 0) {
        return;
    }
    gossip_hear(&world->gossip, g, &report, world->now_ms);
    while (group->mixing.record_count > 0) {
        const struct mix_record record = group->mixing.record[0];
        mixing_acknowledge(&group->mixing, &record);
    }
    for (size_t p = 0; p < MIXING_PLACES; p++) {
        if (group->order[p].xid.counter > 0 && group->order[p].deadline_ms > world->now_ms) {
            (void)mixing_take(&group->mixing, &group->order[p]);
        }
    }
    mixing_pass(&group->mixing, gossip_passed(&world->gossip, g));
}

/* ---- orders ---- */

static void check_order(struct world *world, const struct gossip_order *order)
{
    const struct mix_match *match = &order->match;
    const bool newer = mix_xid_after(match->xid, world->newest);
    assert_true(match->deadline_ms > world->now_ms);
    assert_int_equal(match->own.generation, world->gossip.group[order->group].generation);
    if (match->kind == MIX_PAIR) {
        assert_true(newer || mix_xid_is(match->xid, world->newest));
        if (newer) {
            world->pair_alpha = match->alpha; /* the other side follows at once */
        } else {
            assert_true(match->alpha + world->pair_alpha == 1);
        }
        assert_true(world->gossip.phase == GOSSIP_MIXES || !world->gossip.rules.adopts);
        assert_true(match->peer[0].group != match->own.group);
    } else {
        assert_true(newer || mix_xid_is(match->xid, world->gossip.average));
    }
    world->newest = newer ? match->xid : world->newest;
}

static void take_orders(struct world *world)
{
    struct gossip_order order;
    if (world->gossip.phase == GOSSIP_ADOPTS) { /* it is sent meanwhile */
        gossip_stored(&world->gossip, world->gossip.average);
    }
    gossip_tick(&world->gossip, 1, world->now_ms);
    while (gossip_next(&world->gossip, &order)) {
        check_order(world, &order);
        world->group[order.group]
            .order[order.match.kind == MIX_PAIR ? MIXING_PAIRS : MIXING_AVERAGES] = order.match;
    }
}

/* ---- time ---- */

static void restart(struct world *world)
{
    struct gossip_rules options = world->gossip.rules;
    options.life++;
    gossip_init(&world->gossip, &options);
    for (size_t g = 0; g < world->count; g++) {
        const struct group *group = &world->group[g];
        if (group->alive) {
            gossip_enter(&world->gossip, g, group->mixing.generation, SAMPLES,
                         (double)BATCH * 1000 / (double)group->step_ms, false, world->now_ms);
        }
        for (size_t p = 0; p < MIXING_PLACES; p++) {
            world->group[g].order[p] = (struct mix_match){0};
        }
    }
}

static void disturb(struct world *world)
{
    const size_t g = draw(world, world->count), kind = draw(world, 3000);
    if (kind < 4 && world->group[g].alive) {
        world->group[g].alive = false;
        gossip_leave(&world->gossip, g);
    } else if (kind < 12 && !world->group[g].alive) {
        start_group(world, g, world->group[g].mixing.generation + 1);
    } else if (kind == 12) {
        restart(world);
    }
}

static bool holds(const struct world *world, size_t g)
{
    const struct group *group = &world->group[g];
    return world->gossip.rules.rounds &&
           group->version >= mixing_due_at(&group->mixing, gossip_steps(&world->gossip, g));
}

static void pass(struct world *world, int64_t ms)
{
    for (const int64_t end_ms = world->now_ms + ms; world->now_ms < end_ms;
         world->now_ms += TICK_MS) {
        for (size_t g = 0; g < world->count; g++) {
            struct group *group = &world->group[g];
            if (!group->alive) {
                continue;
            }
            mixing_tick(&group->mixing, world->now_ms);
            for (size_t p = 0; p < MIXING_PLACES; p++) {
                fetch(world, group, (enum mixing_place)p);
            }
            if (world->now_ms >= group->next_step_ms) {
                boundary(group);
                if (!holds(world, g)) {
                    group->version++;
                    group->next_step_ms = world->now_ms + group->step_ms;
                }
            }
            if (world->now_ms >= group->next_beat_ms) {
                group->next_beat_ms = world->now_ms + BEAT_MS;
                beat(world, g);
            }
        }
        take_orders(world);
        if (world->disturbed) {
            disturb(world);
        }
    }
}

static double sum_of(const struct world *world)
{
    double sum = 0;
    for (size_t g = 0; g < world->count; g++) {
        sum += world->group[g].x;
    }
    return sum;
}

static double spread_of(const struct world *world)
{
    double least = INFINITY, most = -INFINITY;
    for (size_t g = 0; g < world->count; g++) {
        least = fmin(least, world->group[g].x);
        most = fmax(most, world->group[g].x);
    }
    return most - least;
}

/* ---- tests ---- */

static void undisturbed_groups_keep_their_mean_and_agree(void **state)
{
    (void)state;
    static struct world world;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        const struct way way = {.adopts = seed % 3 == 0, .level = true, .average_every = 8};
        start(seed, &way, &world);
        const double before = sum_of(&world);
        pass(&world, 60000);
        /* A copy for an average that is adopted ends a pair that the other side may have applied.
         */
        assert_true(world.gossip.rules.adopts || fabs(sum_of(&world) - before) < 1e-6);
        assert_true(spread_of(&world) < 1e-3);
        assert_true(world.gossip.averages > 0);
        for (size_t g = 0; g < world.count; g++) {
            assert_true(world.group[g].mixes > 10);
        }
    }
}

static void disturbed_groups_go_on(void **state)
{
    (void)state;
    static struct world world;
    int64_t averages = 0, lives = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        const struct way way = {.adopts = seed % 2 == 0,
                                .disturbed = true,
                                .rounds = seed % 3 == 0,
                                .level = seed % 9 > 0,
                                .average_every = 8};
        start(seed, &way, &world);
        pass(&world, 60000);
        averages += world.gossip.averages;
        lives += world.gossip.rules.life;
        world.disturbed = false;
        for (size_t g = 0; g < world.count; g++) {
            if (!world.group[g].alive) {
                start_group(&world, g, world.group[g].mixing.generation + 1);
            }
            world.group[g].mixes = 0;
        }
        const int64_t before = world.gossip.averages;
        pass(&world, 60000);
        assert_true(spread_of(&world) < 1e-2);
        assert_true(world.gossip.averages > before);
        for (size_t g = 0; g < world.count; g++) {
            assert_true(world.group[g].mixes > 5);
        }
    }
    assert_true(averages > 0 && lives > 150);
}

static void in_rounds_all_wait_for_each_other(void **state)
{
    (void)state;
    static struct world world;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        const struct way way = {.rounds = true, .average_every = 4};
        start(seed, &way, &world);
        const double before = sum_of(&world);
        pass(&world, 120000);
        int64_t least = INT64_MAX, most = 0;
        for (size_t g = 0; g < world.count; g++) {
            least = world.group[g].version < least ? world.group[g].version : least;
            most = world.group[g].version > most ? world.group[g].version : most;
        }
        /* SAMPLES / BATCH steps each between two mixes, or without one for the odd one. */
        assert_true(least > 0 && most - least <= SAMPLES / BATCH);
        assert_true(fabs(sum_of(&world) - before) < 1e-6);
        assert_true(spread_of(&world) < 1e-3);
        assert_true(world.gossip.averages > 0);
    }
}

static void levelled_rounds_do_without_the_late(void **state)
{
    (void)state;
    static struct world world;
    const struct way way = {.rounds = true, .level = true, .average_every = 4};
    for (uint64_t seed = 1; seed <= 100; seed++) {
        start(seed, &way, &world);
        if (world.count < 3) {
            continue;
        }
        pass(&world, 30000);
        const int64_t before = world.group[1].mixes;
        world.group[0].next_step_ms = INT64_MAX; /* it makes no step, but reports */
        pass(&world, 60000);
        assert_true(world.group[1].mixes > before + 10);
    }
}

static void an_average_in_every_round_is_federated_averaging(void **state)
{
    (void)state;
    static struct world world;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        const struct way way = {
            .rounds = true, .level = seed % 2 == 0, .adopts = true, .average_every = 1};
        start(seed, &way, &world);
        const double before = sum_of(&world);
        pass(&world, 60000);
        /* Of levelled groups the late ones are not in the average. */
        assert_true(way.level || fabs(sum_of(&world) - before) < 1e-6);
        assert_true(spread_of(&world) < 1e-9);
        assert_true(world.gossip.averages > 3);
        for (size_t g = 0; g < world.count; g++) {
            assert_int_equal(world.group[g].mixes, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(undisturbed_groups_keep_their_mean_and_agree),
        cmocka_unit_test(disturbed_groups_go_on),
        cmocka_unit_test(in_rounds_all_wait_for_each_other),
        cmocka_unit_test(levelled_rounds_do_without_the_late),
        cmocka_unit_test(an_average_in_every_round_is_federated_averaging),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
