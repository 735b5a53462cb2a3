#include "libtrain/model/storage.h"

#include <string.h>

/* Those that ended before `step` are of no use to anyone who is still to come. */
static void forget(struct storage_room *room, const struct storage *storage, size_t step)
{
    size_t kept = 0;
    for (size_t i = 0; i < room->live_count; i++) {
        if (storage[room->live[i]].last >= step) {
            room->live[kept++] = room->live[i];
        }
    }
    room->live_count = kept;
}

bool storage_place(struct storage_room *room, struct storage *storage, size_t index)
{
    struct storage *own = &storage[index];
    uint64_t end = 0; /* of those alive with it, up to the gap */
    forget(room, storage, own->first);
    for (size_t i = 0; i < room->live_count; i++) {
        const struct storage *other = &storage[room->live[i]];
        if (other->first > own->last) {
            continue;
        }
        if (other->offset >= end + own->bytes) {
            break;
        }
        end = other->offset + other->bytes > end ? other->offset + other->bytes : end;
    }
    if (end + own->bytes > room->limit) {
        return false;
    }
    size_t position = 0;
    while (position < room->live_count && storage[room->live[position]].offset < end) {
        position++;
    }
    memmove(&room->live[position + 1], &room->live[position], (room->live_count - position) * sizeof(room->live[0]));
    room->live[position] = index;
    room->live_count++;
    own->offset = end;
    room->peak = end + own->bytes > room->peak ? end + own->bytes : room->peak;
    return true;
}
