/* The law of the mix log: the records that the coordinator has, with those that live groups carry,
 * determine every bit of every live group. Groups train, mix, average, die and are replaced, over a
 * network that loses, repeats and delays. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/unit/agent_core/mixing_world.h"

enum { STATES = 4096 };

/* ---- the replay ---- */

struct replay {
    const struct mix_record *record[MIXING_LOG + MIXING_MOST * MIXING_RECORDS_MAX];
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
        sum = mixing_add(sum, state_at(replay, &average->peer[i]));
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
    uint64_t state = mixing_first_state(at->group, at->generation);
    int64_t version = 0;
    for (int64_t m = 0; m < at->mixes; m++) {
        const struct mix_record *record = mix_after(replay, at, m);
        while (version < record->applied_step) {
            state = mixing_step(state, ++version);
        }
        state = mixing_move(state, state_at(replay, &record->own), given(replay, record),
                            record->alpha);
    }
    while (version < at->version) {
        state = mixing_step(state, ++version);
    }
    assert_true(replay->states < STATES);
    replay->known[replay->states].at = *at;
    replay->known[replay->states++].state = state;
    return state;
}

static void check_law(const struct mixing_world *world)
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
        const struct mixing_group *group = &world->group[g];
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
    static struct mixing_world world;
    size_t applied = 0;
    for (uint64_t seed = first_seed; seed <= last_seed; seed++) {
        mixing_world_run(&world, seed, false);
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
