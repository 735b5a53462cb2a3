/* Storages lie in the lowest gap there is, as a plain search finds it, and no search looks among
 * those that leave none. */
#include "libtrain/memory/storage.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/support/test.h"

#define COUNT 400
#define KEPT_MAX 4096

static bool meet(const struct storage *a, const struct storage *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset at which `own` meets none of the others that lie there. */
static uint64_t lowest(const struct storage *storage, const bool *lies, size_t count,
                       const struct storage *own)
{
    uint64_t offset = 0;
    bool moved = true;
    while (moved) {
        moved = false;
        for (size_t i = 0; i < count; i++) {
            const struct storage *other = &storage[i];
            if (lies[i] && meet(own, other) && other->offset < offset + own->bytes &&
                offset < other->offset + other->bytes) {
                offset = other->offset + other->bytes;
                moved = true;
            }
        }
    }
    return offset;
}

/* The kept ones lie side by side; all are put before tensors that are alive with them. */
static void check_drawn(const struct rng_stream *stream, uint64_t limit_parts)
{
    struct storage storage[COUNT] = {0};
    bool kept[COUNT], lies[COUNT];
    struct storage_alive live[COUNT + 1];
    uint64_t index = 0, kept_bytes = 0;
    size_t step = 0, next = 0;
    for (size_t i = 0; i < COUNT; i++) {
        step += rng_below(stream, index++, 2);
        kept[i] = lies[i] = limit_parts > 0 && rng_below(stream, index++, 2) == 0;
        size_t lasts = kept[i] ? 2 * (COUNT - i) + rng_below(stream, index++, 9)
                               : rng_below(stream, index++, 12);
        storage[i] = (struct storage){
            .bytes = 1 + rng_below(stream, index++, 6), .first = step, .last = step + lasts};
        storage[i].offset = kept[i] ? kept_bytes : 0;
        kept_bytes += kept[i] ? storage[i].bytes : 0;
    }
    struct storage_room room = {
        .live = live, .limit = limit_parts > 0 ? kept_bytes * limit_parts / 4 : UINT64_MAX};
    uint64_t peak = 0;
    for (size_t i = 0; i < COUNT; i++) {
        for (; next < COUNT && storage[next].first <= storage[i].last && !kept[i]; next++) {
            if (kept[next]) {
                storage_put(&room, storage, next);
            }
        }
        if (kept[i]) {
            continue;
        }
        uint64_t wanted = lowest(storage, lies, COUNT, &storage[i]);
        lies[i] = storage_place(&room, storage, i);
        assert_int_equal(lies[i], wanted + storage[i].bytes <= room.limit);
        if (lies[i]) {
            assert_int_equal(storage[i].offset, wanted);
            peak = wanted + storage[i].bytes > peak ? wanted + storage[i].bytes : peak;
        }
        assert_int_equal(room.peak, peak);
    }
}

static void each_lies_in_the_lowest_gap(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 100; seed++) {
        const struct rng_stream stream = rng_stream(seed, RNG_SIMULATION, 0, 0);
        check_drawn(&stream, seed % 6);
    }
}

/* A forward keeps one thing per step and needs another for two steps; a backward gives one free per
 * step. */
static void an_arena_without_gaps_is_not_searched(void **state)
{
    (void)state;
    struct storage *storage = calloc(2 * KEPT_MAX, sizeof(*storage));
    struct storage_alive *live = calloc(2 * KEPT_MAX + 1, sizeof(*live));
    struct storage_room room = {.live = live, .limit = UINT64_MAX};
    assert_true(storage && live);
    for (size_t i = 0; i < KEPT_MAX; i++) {
        storage[i] =
            (struct storage){.bytes = 2, .offset = 2 * i, .first = i, .last = 2 * KEPT_MAX - 1 - i};
    }
    for (size_t i = 0; i < KEPT_MAX; i++) {
        storage_put(&room, storage, i);
        storage[KEPT_MAX + i] = (struct storage){.bytes = 4, .first = i, .last = i + 1};
        assert_true(storage_place(&room, storage, KEPT_MAX + i));
        assert_true(room.live_count - room.solid <= 4);
    }
    for (size_t i = 0; i < KEPT_MAX; i++) {
        storage[KEPT_MAX + i] =
            (struct storage){.bytes = 4, .first = KEPT_MAX + i, .last = KEPT_MAX + i + 1};
        assert_true(storage_place(&room, storage, KEPT_MAX + i));
        assert_true(room.live_count - room.solid <= 4);
    }
    free(storage);
    free(live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_lies_in_the_lowest_gap),
        cmocka_unit_test(an_arena_without_gaps_is_not_searched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
