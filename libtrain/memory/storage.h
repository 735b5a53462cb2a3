/* storage.h: placement of storages: pieces of memory that are alive for some steps of a pass.
 * Storages that are never alive together share bytes. Private to libtrain/memory; the memory plan
 * (arena.c) uses it. Pure. */
#ifndef LIBTRAIN_MEMORY_STORAGE_H
#define LIBTRAIN_MEMORY_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct storage {
    uint64_t bytes;
    uint64_t offset;    /* storage_place: out */
    size_t first, last; /* first and last step in which it is alive, first <= last */
};

/* A storage that occupies the room. */
struct storage_alive {
    size_t index;
    size_t until; /* for entries below `solid`: the step in which the first of the entries up to
                     this one ends */
};

/* The contents of a piece of memory while storages are placed in the order of their first steps. */
struct storage_room {
    struct storage_alive *live; /* [capacity] ordered by offset; owned by the caller */
    size_t live_count;          /* at most the number of storages placed and put */
    size_t solid; /* the first `solid` entries are alive and leave no gap: the search skips them */
    uint64_t limit; /* bytes available */
    uint64_t peak;  /* bytes used by placed storages */
};

/* Place storage `index` in the lowest gap between the storages alive with it. The room may hold
 * storages that begin later. False, and nothing changed, if the limit leaves no gap. Cost: linear
 * in the storages that are alive and not solid; in a stage's plan these belong to one unit and its
 * neighbours. */
bool storage_place(struct storage_room *room, struct storage *storage, size_t index);
/* Enter storage `index`, which has its offset already. Storages that must not share bytes with it
 * are placed afterwards. */
void storage_put(struct storage_room *room, const struct storage *storage, size_t index);

#endif
