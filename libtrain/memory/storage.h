/* storage.h: pieces of memory that are alive for some steps of a pass, and where they lie, so that
 * pieces that are never alive together share bytes. Private to libtrain/model: the memory plan
 * (arena.c) is made with it. Pure. */
#ifndef LIBTRAIN_MEMORY_STORAGE_H
#define LIBTRAIN_MEMORY_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct storage {
    uint64_t bytes;
    uint64_t offset;    /* storage_place: out */
    size_t first, last; /* steps in which it is alive, first <= last */
};

/* One of those that lie in a room. */
struct storage_alive {
    size_t index;
    size_t
        until; /* up to `solid`: the step in which the first of this one and those below it ends */
};

/* What lies in a piece of memory, while storages are placed in the order of their first steps. */
struct storage_room {
    struct storage_alive *live; /* [capacity] by offset; the caller's */
    size_t live_count;          /* at most as many as storages are placed and put */
    size_t solid;   /* the lowest so many are alive now and leave no gap: nobody looks there */
    uint64_t limit; /* bytes there are */
    uint64_t peak;  /* bytes used by those that were placed */
};

/* Put storage `index` into the lowest gap among those it is alive with. The room may hold storages
 * that begin later. False, and nothing changed, where the limit leaves no gap. Cost: linear in
 * those that are alive and not solid; in a stage's plan these are of one unit and its neighbours.
 */
bool storage_place(struct storage_room *room, struct storage *storage, size_t index);
/* Storage `index` has its offset, and lies there in its steps: those that must not share bytes with
 * it are placed after this. */
void storage_put(struct storage_room *room, const struct storage *storage, size_t index);

#endif
