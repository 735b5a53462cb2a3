/* The law of the mix log: the records that the coordinator has, with those that live groups carry,
 * determine every bit of every live group. Groups train, mix, average, die and are replaced, over a
 * network that loses, repeats and delays. */
#include <stdlib.h>
#include <string.h>

#include "agent/core/mixing.h"
#include "base/rng.h"
#include "tests/support/test.h"

enum { MOST = 5, EVENTS = 1500, MATCHES = 256, LOG = 1024, STATES = 4096 };

/* ---- states ---- */

static uint64_t mix64(uint64_t a, uint64_t b)
{
    a ^= b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2);
    a *= 0xbf58476d1ce4e5b9u;
    return a ^ (a >> 29);
}

static uint64_t first_state(int64_t group, int64_t generation)
{
    return mix64((uint64_t)group + 1, (uint64_t)generation + 77);
}

static uint64_t step(uint64_t state, int64_t version)
{
    return mix64(state, 1000003 * (uint64_t)version);
}

static uint64_t move(uint64_t state, uint64_t own, uint64_t peer, double alpha)
{
    return mix64(mix64(mix64(state, own), peer), (uint64_t)(alpha * 1024) + 5);
}

/* ---- the world ---- */

struct buffers {
    uint64_t own, peer[GROUPS_MAX], average;
};

struct group {
    struct mixing mixing;
    int64_t version;
    uint64_t state;
    struct buffers buffer[MIXING_PLACES];
};

struct world {
    struct rng_stream random;
    uint64_t draws;
    size_t count;
    bool adopts;
    struct group group[MOST];
    struct mix_match match[MATCHES]; /* that were sent; any may come again, and late */
    size_t matches;
    int64_t counter;
    struct mix_record log[LOG];
    size_t logged, applied;
    struct {
        struct mix_xid xid;
        struct mix_member own;
    } moved[LOG]; /* [applied] */
};

static size_t draw(struct world *world, size_t bound)
{
    return (size_t)rng_below(&world->random, world->draws++, bound);
}

static void start(struct world *world, size_t g, int64_t generation)
{
    struct group *group = &world->group[g];
    *group = (struct group){.state = first_state((int64_t)g, generation)};
    mixing_init(&group->mixing, (int64_t)g, generation, 0);
}

static struct mix_member member_of(const struct world *world, size_t g)
{
    return (struct mix_member){.group = (int64_t)g,
                               .generation = world->group[g].mixing.generation};
}

static void send(struct world *world, struct mix_match match)
{
    match.deadline_ms = 20 + (int64_t)draw(world, 200);
    match.rate_step = 1;
    if (world->matches < MATCHES) {
        world->match[world->matches++] = match;
    }
}

/* ---- the coordinator, which need not be right ---- */

static void match_pair(struct world *world)
{
    const size_t a = draw(world, world->count);
    const size_t b = (a + 1 + draw(world, world->count - 1)) % world->count;
    const struct mix_xid xid = {1, ++world->counter};
    const double alpha = (double)(1 + draw(world, 3)) / 4;
    for (size_t side = 0; side < 2; side++) {
        struct mix_match match = {.xid = xid,
                                  .kind = MIX_PAIR,
                                  .own = member_of(world, side ? b : a),
                                  .peer_count = 1,
                                  .alpha = side ? 1 - alpha : alpha};
        match.peer[0] = member_of(world, side ? a : b);
        send(world, match);
    }
}

/* All groups give a copy. */
static void match_average(struct world *world)
{
    const struct mix_xid xid = {1, ++world->counter};
    for (size_t g = 0; g < world->count; g++) {
        send(world, (struct mix_match){.xid = xid,
                                       .kind = MIX_AVERAGE,
                                       .own = member_of(world, g),
                                       .alpha = world->adopts});
    }
}

static bool gave(const struct group *group, struct mix_xid xid)
{
    const struct mixing_slot *slot = &group->mixing.slot[MIXING_AVERAGES];
    return slot->match.kind == MIX_AVERAGE && mix_xid_is(slot->match.xid, xid) && slot->has_copy &&
           slot->state != MIXING_EXPIRED;
}

/* One of them computes the average of those that have given theirs. */
static void match_averager(struct world *world)
{
    const size_t g = draw(world, world->count);
    const struct mixing_slot *slot = &world->group[g].mixing.slot[MIXING_AVERAGES];
    struct mix_match match = {.xid = slot->match.xid,
                              .kind = MIX_AVERAGE,
                              .own = member_of(world, g),
                              .averages = true,
                              .alpha = world->adopts};
    for (size_t p = 0; p < world->count; p++) {
        if (gave(&world->group[p], match.xid)) {
            match.peer[match.peer_count++] = member_of(world, p);
        }
    }
    if (gave(&world->group[g], match.xid)) {
        send(world, match);
    }
}

/* The average that a group has computed is offered to the others. */
static void match_adopt(struct world *world)
{
    const size_t g = draw(world, world->count);
    const struct mixing_slot *slot = &world->group[g].mixing.slot[MIXING_AVERAGES];
    if (!world->adopts || !slot->match.averages || slot->state != MIXING_APPLIED) {
        return;
    }
    for (size_t other = 0; other < world->count; other++) {
        struct mix_match match = {.xid = slot->match.xid,
                                  .kind = MIX_ADOPT,
                                  .own = member_of(world, other),
                                  .peer_count = 1,
                                  .alpha = 1};
        match.peer[0] = member_of(world, g);
        if (other != g) {
            send(world, match);
        }
    }
}

static void store_records(struct world *world, size_t g)
{
    struct mixing *mixing = &world->group[g].mixing;
    const bool acknowledged = draw(world, 2) == 0;
    for (size_t i = mixing->record_count; i-- > 0;) {
        const struct mix_record record = mixing->record[i];
        size_t at = 0;
        while (at < world->logged && !mix_record_is(&world->log[at], &record)) {
            at++;
        }
        assert_true(at < LOG);
        if (at == world->logged) {
            world->log[world->logged++] = record;
        } else {
            assert_int_equal(world->log[at].own.version, record.own.version);
            assert_int_equal(world->log[at].own.mixes, record.own.mixes);
            assert_int_equal(world->log[at].applied_step, record.applied_step);
            assert_int_equal(world->log[at].applied_mixes, record.applied_mixes);
        }
        if (acknowledged) {
            mixing_acknowledge(mixing, &record);
        }
    }
}

/* ---- groups ---- */

static void check_match(const struct mixing *mixing, enum mixing_place place)
{
    const struct mixing_slot *slot = &mixing->slot[place];
    const struct mixing_slot *average = &mixing->slot[MIXING_AVERAGES];
    assert_int_equal(slot->match.own.group, mixing->group);
    assert_int_equal(slot->match.own.generation, mixing->generation);
    /* What was copied before the copy for an average that is adopted is not applied after it. */
    const bool tagged = place == MIXING_PAIRS && average->has_copy && average->match.alpha > 0;
    const bool spans = tagged && (average->copy.version > slot->copy.version ||
                                  average->copy.mixes > slot->copy.mixes);
    assert_false(spans && slot->state == MIXING_FETCHED);
}

/* No incarnation moves twice for one match. */
static void note_once(struct world *world, const struct mix_match *match)
{
    for (size_t i = 0; i < world->applied; i++) {
        assert_false(mix_xid_is(world->moved[i].xid, match->xid) &&
                     world->moved[i].own.group == match->own.group &&
                     world->moved[i].own.generation == match->own.generation);
    }
    assert_true(world->applied < LOG);
    world->moved[world->applied].xid = match->xid;
    world->moved[world->applied++].own = match->own;
}

static void boundary(struct world *world, size_t g)
{
    struct group *group = &world->group[g];
    enum mixing_place place;
    enum mixing_work work;
    while ((work = mixing_next(&group->mixing, &place)) != MIXING_GO_ON) {
        struct buffers *buffer = &group->buffer[place];
        check_match(&group->mixing, place);
        if (work == MIXING_COPY) {
            mixing_copied(&group->mixing, place, group->version);
            *buffer = (struct buffers){.own = group->state};
        } else {
            const struct mix_match *match = &group->mixing.slot[place].match;
            const double alpha = match->alpha;
            if (match->averages) {
                buffer->average = 0;
                for (size_t i = 0; i < match->peer_count; i++) {
                    const bool own = match->peer[i].group == (int64_t)g;
                    buffer->average = mix64(buffer->average, own ? buffer->own : buffer->peer[i]);
                }
            }
            const uint64_t peer = match->averages ? buffer->average : buffer->peer[0];
            const bool moves = match->kind != MIX_AVERAGE || alpha > 0;
            mixing_applied(&group->mixing, place, group->version);
            group->state = moves ? move(group->state, buffer->own, peer, alpha) : group->state;
            if (moves) {
                note_once(world, match);
            }
        }
    }
}

static void fetch(struct world *world, size_t g)
{
    struct group *group = &world->group[g];
    const enum mixing_place place = (enum mixing_place)draw(world, MIXING_PLACES);
    const struct mix_member *wanted = mixing_fetch(&group->mixing, place);
    enum mixing_place from;
    if (!wanted) {
        return;
    }
    const struct mixing_slot *slot = &group->mixing.slot[place];
    const struct group *peer = &world->group[wanted->group];
    const bool average = slot->match.kind == MIX_ADOPT;
    if (mixing_serve(&peer->mixing, slot->match.xid, average, &from) != MIXING_SERVE) {
        return;
    }
    const struct mixing_slot *other = &peer->mixing.slot[from];
    const struct mix_member copy = other->copy, named = *wanted;
    const size_t before = slot->fetched;
    if (average && other->state != MIXING_APPLIED) {
        return; /* its owner adds at the boundary in this world */
    }
    group->buffer[place].peer[slot->fetched] =
        average ? peer->buffer[from].average : peer->buffer[from].own;
    mixing_fetched(&group->mixing, place, &copy, draw(world, 50) > 0, peer->mixing.record,
                   peer->mixing.record_count);
    assert_true(slot->fetched == before || copy.generation == named.generation);
}

static void event(struct world *world, int64_t now_ms)
{
    const size_t g = draw(world, world->count), kind = draw(world, 100);
    struct group *group = &world->group[g];
    if (kind < 40) {
        boundary(world, g);
        if (draw(world, 3) > 0) {
            group->state = step(group->state, ++group->version);
        }
    } else if (kind < 65) {
        fetch(world, g);
    } else if (kind < 69) {
        match_pair(world);
    } else if (kind < 70) {
        match_average(world);
    } else if (kind == 70) {
        match_averager(world);
    } else if (kind < 73) {
        match_adopt(world);
    } else if (kind < 92 && world->matches > 0) {
        const size_t newest = world->matches < 8 ? world->matches : 8;
        struct mix_match match = world->match[world->matches - 1 - draw(world, newest)];
        match.deadline_ms += now_ms;
        (void)mixing_take(&world->group[match.own.group].mixing, &match);
    } else if (kind < 97) {
        store_records(world, g);
    } else if (kind == 97) {
        start(world, g, group->mixing.generation + 1);
    } else {
        mixing_tick(&group->mixing, now_ms);
    }
}

/* ---- the replay ---- */

struct replay {
    const struct mix_record *record[LOG + MOST * MIXING_RECORDS_MAX];
    size_t records;
    struct {
        struct mix_member at;
        uint64_t state;
    } known[STATES];
    size_t states;
};

static uint64_t state_at(struct replay *replay, const struct mix_member *at);

/* The average that a group has computed. */
static const struct mix_record *find(const struct replay *replay, struct mix_xid xid,
                                     const struct mix_member *author)
{
    const struct mix_record wanted = {.xid = xid, .kind = MIX_AVERAGE, .own = *author};
    size_t i = 0;
    while (i < replay->records && !mix_record_is(replay->record[i], &wanted)) {
        i++;
    }
    assert_true(i < replay->records); /* else a record was lost on which a state depends */
    return replay->record[i];
}

static uint64_t given(struct replay *replay, const struct mix_record *record)
{
    if (record->kind == MIX_PAIR) {
        return state_at(replay, &record->peer[0]);
    }
    const struct mix_record *average = find(replay, record->xid, &record->peer[0]);
    uint64_t sum = 0;
    for (size_t i = 0; i < average->peer_count; i++) {
        sum = mix64(sum, state_at(replay, &average->peer[i]));
    }
    return sum;
}

/* The mix of an incarnation after so many others. */
static const struct mix_record *mix_after(const struct replay *replay, const struct mix_member *at,
                                          int64_t mixes)
{
    for (size_t i = 0; i < replay->records; i++) {
        const struct mix_record *record = replay->record[i];
        if (record->kind != MIX_AVERAGE && record->own.group == at->group &&
            record->own.generation == at->generation && record->applied_mixes == mixes) {
            return record;
        }
    }
    fail_msg("mix %d of group %d is in no record", (int)mixes, (int)at->group);
    return NULL;
}

static uint64_t state_at(struct replay *replay, const struct mix_member *at)
{
    for (size_t i = 0; i < replay->states; i++) {
        if (memcmp(&replay->known[i].at, at, sizeof(*at)) == 0) {
            return replay->known[i].state;
        }
    }
    uint64_t state = first_state(at->group, at->generation);
    int64_t version = 0;
    for (int64_t m = 0; m < at->mixes; m++) {
        const struct mix_record *record = mix_after(replay, at, m);
        while (version < record->applied_step) {
            state = step(state, ++version);
        }
        state = move(state, state_at(replay, &record->own), given(replay, record), record->alpha);
    }
    while (version < at->version) {
        state = step(state, ++version);
    }
    assert_true(replay->states < STATES);
    replay->known[replay->states].at = *at;
    replay->known[replay->states++].state = state;
    return state;
}

static void check_law(const struct world *world)
{
    static struct replay replay;
    replay.records = replay.states = 0;
    for (size_t i = 0; i < world->logged; i++) {
        replay.record[replay.records++] = &world->log[i];
    }
    for (size_t g = 0; g < world->count; g++) {
        for (size_t i = 0; i < world->group[g].mixing.record_count; i++) {
            replay.record[replay.records++] = &world->group[g].mixing.record[i];
        }
    }
    for (size_t g = 0; g < world->count; g++) {
        const struct group *group = &world->group[g];
        const struct mix_member now = {.group = (int64_t)g,
                                       .generation = group->mixing.generation,
                                       .version = group->version,
                                       .mixes = group->mixing.mixes};
        assert_true(state_at(&replay, &now) == group->state);
    }
}

static uint64_t first_seed = 1, last_seed = 2000;

static void records_determine_every_live_group(void **state)
{
    (void)state;
    static struct world world;
    size_t applied = 0;
    for (uint64_t seed = first_seed; seed <= last_seed; seed++) {
        world = (struct world){.random = rng_stream(seed, RNG_SIMULATION, 1, 0)};
        world.count = 2 + draw(&world, MOST - 1);
        world.adopts = draw(&world, 2) == 0;
        for (size_t g = 0; g < world.count; g++) {
            start(&world, g, 1);
        }
        for (int64_t i = 0; i < EVENTS; i++) {
            event(&world, i);
        }
        check_law(&world);
        applied += world.applied;
    }
    print_message("%zu mixes applied\n", applied);
    assert_true(applied > 5 * (last_seed - first_seed + 1));
}

int main(int argc, char **argv)
{
    first_seed = argc > 1 ? strtoull(argv[1], NULL, 10) : first_seed;
    last_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : last_seed;
    const struct CMUnitTest tests[] = {cmocka_unit_test(records_determine_every_live_group)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
