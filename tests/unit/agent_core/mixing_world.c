#include "tests/unit/agent_core/mixing_world.h"

#include "tests/support/test.h"

/* ---- states ---- */

static uint64_t mix64(uint64_t a, uint64_t b)
{
    a ^= b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2);
    a *= 0xbf58476d1ce4e5b9u;
    return a ^ (a >> 29);
}

uint64_t mixing_first_state(int64_t group, int64_t generation)
{
    return mix64((uint64_t)group + 1, (uint64_t)generation + 77);
}

uint64_t mixing_step(uint64_t state, int64_t version)
{
    return mix64(state, 1000003 * (uint64_t)version);
}

uint64_t mixing_move(uint64_t state, uint64_t own, uint64_t peer, double alpha)
{
    return mix64(mix64(mix64(state, own), peer), (uint64_t)(alpha * 1024) + 5);
}

uint64_t mixing_add(uint64_t average, uint64_t state)
{
    return mix64(average, state);
}

/* ---- the world ---- */

static size_t draw(struct mixing_world *world, size_t bound)
{
    return (size_t)rng_below(&world->random, world->draws++, bound);
}

static void start(struct mixing_world *world, size_t g, int64_t generation)
{
    struct mixing_group *group = &world->group[g];
    *group = (struct mixing_group){.state = mixing_first_state((int64_t)g, generation)};
    mixing_init(&group->mixing, (int64_t)g, generation, 0);
}

static struct mix_member member_of(const struct mixing_world *world, size_t g)
{
    return (struct mix_member){.group = (int64_t)g,
                               .generation = world->group[g].mixing.generation};
}

static void send(struct mixing_world *world, struct mix_match match)
{
    match.deadline_ms = 20 + (int64_t)draw(world, 200);
    match.rate_step = 1;
    if (world->matches < MIXING_MATCHES) {
        world->match[world->matches++] = match;
    }
}

/* ---- the coordinator, which need not be right ---- */

static void match_pair(struct mixing_world *world)
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
static void match_average(struct mixing_world *world)
{
    const struct mix_xid xid = {1, ++world->counter};
    for (size_t g = 0; g < world->count; g++) {
        send(world, (struct mix_match){.xid = xid,
                                       .kind = MIX_AVERAGE,
                                       .own = member_of(world, g),
                                       .alpha = world->adopts});
    }
}

static bool gave(const struct mixing_group *group, struct mix_xid xid)
{
    const struct mixing_slot *slot = &group->mixing.slot[MIXING_AVERAGES];
    return slot->match.kind == MIX_AVERAGE && mix_xid_is(slot->match.xid, xid) && slot->has_copy &&
           slot->state != MIXING_EXPIRED;
}

/* One of them computes the average of those that have given theirs. */
static void match_averager(struct mixing_world *world)
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
static void match_adopt(struct mixing_world *world)
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

static void store_records(struct mixing_world *world, size_t g)
{
    struct mixing *mixing = &world->group[g].mixing;
    const bool acknowledged = draw(world, 2) == 0;
    for (size_t i = mixing->record_count; i-- > 0;) {
        const struct mix_record record = mixing->record[i];
        size_t at = 0;
        while (at < world->logged && !mix_record_is(&world->log[at], &record)) {
            at++;
        }
        assert_true(at < MIXING_LOG);
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

static void note_start(struct mixing_world *world, const struct mix_record *record)
{
    if (world->continues) {
        assert_true(world->logged < MIXING_LOG);
        world->log[world->logged++] = *record;
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
static void note_once(struct mixing_world *world, const struct mix_match *match)
{
    for (size_t i = 0; i < world->applied; i++) {
        assert_false(mix_xid_is(world->moved[i].xid, match->xid) &&
                     world->moved[i].own.group == match->own.group &&
                     world->moved[i].own.generation == match->own.generation);
    }
    assert_true(world->applied < MIXING_LOG);
    world->moved[world->applied].xid = match->xid;
    world->moved[world->applied++].own = match->own;
}

static void note_average(struct mixing_world *world, struct mix_xid xid,
                         const struct mix_member *author, uint64_t state)
{
    assert_true(world->averages < MIXING_LOG);
    world->average[world->averages++] = (struct mixing_average){xid, *author, state};
}

static void boundary(struct mixing_world *world, size_t g)
{
    struct mixing_group *group = &world->group[g];
    enum mixing_place place;
    enum mixing_work work;
    while ((work = mixing_next(&group->mixing, &place)) != MIXING_GO_ON) {
        struct mixing_buffers *buffer = &group->buffer[place];
        check_match(&group->mixing, place);
        if (work == MIXING_COPY) {
            mixing_copied(&group->mixing, place, group->version, true);
            *buffer = (struct mixing_buffers){.own = group->state};
        } else {
            const struct mix_match *match = &group->mixing.slot[place].match;
            const double alpha = match->alpha;
            if (match->averages) {
                buffer->average = 0;
                for (size_t i = 0; i < match->peer_count; i++) {
                    const bool own = match->peer[i].group == (int64_t)g;
                    buffer->average =
                        mixing_add(buffer->average, own ? buffer->own : buffer->peer[i]);
                }
                note_average(world, match->xid, &match->own, buffer->average);
            }
            const uint64_t peer = match->averages ? buffer->average : buffer->peer[0];
            const bool moves = match->kind != MIX_AVERAGE || alpha > 0;
            mixing_applied(&group->mixing, place, group->version);
            group->state =
                moves ? mixing_move(group->state, buffer->own, peer, alpha) : group->state;
            if (moves) {
                note_once(world, match);
            }
        }
    }
}

static void fetch(struct mixing_world *world, size_t g)
{
    struct mixing_group *group = &world->group[g];
    const enum mixing_place place = (enum mixing_place)draw(world, MIXING_PLACES);
    const struct mix_member *wanted = mixing_fetch(&group->mixing, place);
    enum mixing_place from;
    if (!wanted) {
        return;
    }
    const struct mixing_slot *slot = &group->mixing.slot[place];
    const struct mixing_group *peer = &world->group[wanted->group];
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

static bool is_stored(const struct mixing_world *world, const struct mixing_average *average)
{
    const struct mix_record record = {
        .xid = average->xid, .kind = MIX_AVERAGE, .own = average->author};
    size_t i = 0;
    while (i < world->logged && !mix_record_is(&world->log[i], &record)) {
        i++;
    }
    return i < world->logged;
}

/* One whose match no other group has computed, too. */
static const struct mixing_average *draw_average(struct mixing_world *world)
{
    const struct mixing_average *average =
        world->averages > 0 ? &world->average[draw(world, world->averages)] : NULL;
    for (size_t i = 0; average && i < world->logged; i++) {
        const struct mix_record *record = &world->log[i];
        if (record->kind == MIX_AVERAGE && mix_xid_is(record->xid, average->xid) &&
            record->own.group != average->author.group) {
            return NULL;
        }
    }
    return average && is_stored(world, average) ? average : NULL;
}

/* From an average of the log, from the state of the group, whose records are in the log, or from
 * nothing. */
static void restart(struct mixing_world *world, size_t g)
{
    struct mixing_group *group = &world->group[g];
    const struct mixing_group before = *group;
    const int64_t generation = before.mixing.generation + 1;
    const size_t how = world->continues ? draw(world, 3) : 0;
    const struct mixing_average *average = how == 1 ? draw_average(world) : NULL;
    struct mix_record record = {.kind = MIX_START,
                                .own = {.group = (int64_t)g, .generation = generation}};
    if (how == 2) {
        store_records(world, g);
    }
    start(world, g, generation);
    if (average) {
        record.xid = average->xid;
        record.peer[record.peer_count++] = (struct mix_member){
            .group = average->author.group, .generation = average->author.generation};
        group->state = average->state;
    } else if (how == 2 && before.version > 0) {
        record.own.version = before.version;
        record.peer[record.peer_count++] = (struct mix_member){
            .group = (int64_t)g, .generation = generation - 1, .version = before.version};
        group->state = before.state;
        group->version = before.version;
        mixing_init(&group->mixing, (int64_t)g, generation, before.version);
    }
    note_start(world, &record);
}

static void event(struct mixing_world *world, int64_t now_ms)
{
    const size_t g = draw(world, world->count), kind = draw(world, 100);
    struct mixing_group *group = &world->group[g];
    if (kind < 40) {
        boundary(world, g);
        if (draw(world, 3) > 0) {
            group->state = mixing_step(group->state, ++group->version);
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
        restart(world, g);
    } else {
        mixing_tick(&group->mixing, now_ms);
    }
}

void mixing_world_run(struct mixing_world *world, uint64_t seed, bool continues)
{
    *world = (struct mixing_world){.random = rng_stream(seed, RNG_SIMULATION, 1, 0),
                                   .continues = continues};
    world->count = 2 + draw(world, MIXING_MOST - 1);
    world->adopts = draw(world, 2) == 0;
    for (size_t g = 0; g < world->count; g++) {
        const struct mix_record record = {.kind = MIX_START,
                                          .own = {.group = (int64_t)g, .generation = 1}};
        start(world, g, 1);
        note_start(world, &record);
    }
    for (int64_t i = 0; i < MIXING_EVENTS; i++) {
        event(world, i);
    }
}
