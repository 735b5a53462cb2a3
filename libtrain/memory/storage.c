#include "libtrain/memory/storage.h"

#include <string.h>

static uint64_t end_of(const struct storage *storage)
{
    return storage->offset + storage->bytes;
}

/* Drop storages that ended before `step`: later storages cannot overlap them. */
static void forget(struct storage_room *room, const struct storage *storage, size_t step)
{
    while (room->solid > 0 && room->live[room->solid - 1].until < step) {
        room->solid--;
    }
    size_t kept = room->solid;
    for (size_t i = room->solid; i < room->live_count; i++) {
        if (storage[room->live[i].index].last >= step) {
            room->live[kept++] = room->live[i];
        }
    }
    room->live_count = kept;
}

/* Extend the solid entries: storages alive in `step` that follow each other without a gap from the
 * room's first byte. A storage that begins now is alive together with them. */
static void grow_solid(struct storage_room *room, const struct storage *storage, size_t step)
{
    while (room->solid < room->live_count) {
        struct storage_alive *next = &room->live[room->solid];
        const struct storage_alive *below = room->solid > 0 ? next - 1 : NULL;
        const struct storage *own = &storage[next->index];
        if (own->first > step || own->offset != (below ? end_of(&storage[below->index]) : 0)) {
            return;
        }
        next->until = below && below->until < own->last ? below->until : own->last;
        room->solid++;
    }
}

void storage_put(struct storage_room *room, const struct storage *storage, size_t index)
{
    size_t position = room->live_count;
    while (position > 0 &&
           storage[room->live[position - 1].index].offset >= storage[index].offset) {
        position--;
    }
    memmove(&room->live[position + 1], &room->live[position],
            (room->live_count - position) * sizeof(room->live[0]));
    room->live[position] = (struct storage_alive){.index = index};
    room->live_count++;
    room->solid = room->solid < position ? room->solid : position;
}

bool storage_place(struct storage_room *room, struct storage *storage, size_t index)
{
    struct storage *own = &storage[index];
    forget(room, storage, own->first);
    grow_solid(room, storage, own->first);
    uint64_t end = room->solid > 0 ? end_of(&storage[room->live[room->solid - 1].index]) : 0;
    for (size_t i = room->solid; i < room->live_count; i++) {
        const struct storage *other = &storage[room->live[i].index];
        if (other->first > own->last) {
            continue;
        }
        if (other->offset >= end + own->bytes) {
            break;
        }
        end = end_of(other) > end ? end_of(other) : end;
    }
    if (end + own->bytes > room->limit) {
        return false;
    }
    own->offset = end;
    storage_put(room, storage, index);
    room->peak = end_of(own) > room->peak ? end_of(own) : room->peak;
    return true;
}
