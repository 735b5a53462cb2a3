#include "coordinator/core/capacity/donor.h"

#include "coordinator/core/capacity/capacity.h"

static struct donor *place_of(const struct capacity *capacity, uint64_t shape)
{
    const uint64_t hash = shape * 0x9e3779b97f4a7c15u;
    return &capacity->donor[(hash ^ (hash >> 31)) % DONORS_MAX];
}

void donor_note(struct capacity *capacity, size_t slot, uint64_t shape)
{
    *place_of(capacity, shape) =
        (struct donor){.shape = shape, .slot = slot, .key = capacity->device[slot].key};
}

size_t donor_find(const struct capacity *capacity, uint64_t shape)
{
    const struct donor *donor = place_of(capacity, shape);
    const bool known = shape != UNIT_SHAPE_NONE && donor->shape == shape && donor->key != 0 &&
                       capacity->device[donor->slot].key == donor->key;
    return known ? donor->slot : SIZE_MAX;
}
