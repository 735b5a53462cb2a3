/* storage.h: pieces of memory that are alive for some steps of a pass, and where they lie, so that pieces that are
 * never alive together share bytes. Private to libtrain/model: the memory plan (arena.c) is made with it. Pure. */
#ifndef LIBTRAIN_MODEL_STORAGE_H
#define LIBTRAIN_MODEL_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct storage {
    uint64_t bytes;
    uint64_t offset;    /* storage_place: out */
    size_t first, last; /* steps in which it is alive, first <= last */
};

/* What lies in a piece of memory, while storages are placed in the order of their first steps. */
struct storage_room {
    size_t *live;      /* [capacity] by offset; the caller's */
    size_t live_count; /* at most as many as storages are placed */
    uint64_t limit;    /* bytes there are */
    uint64_t peak;     /* bytes used */
};

/* Put storage `index` into the lowest gap among those it is alive with. The room may hold storages that begin later.
 * False, and nothing changed, where the limit leaves no gap. O(live_count). */
bool storage_place(struct storage_room *room, struct storage *storage, size_t index);

#endif
