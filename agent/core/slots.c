#include "agent/core/slots.h"

#include <stdlib.h>

#include "base/assert.h"

enum slot_state { SLOT_FREE, SLOT_RECEIVING, SLOT_FULL };

struct slot {
    enum slot_state state;
    struct transfer key;
    uint64_t claim;
    struct round_mark mark;
};

int slots_init(struct slots *slots, const size_t count[TRANSFER_LANES], bool steps_overlap,
               struct err *err)
{
    *slots = (struct slots){.steps_overlap = steps_overlap};
    for (int lane = 0; lane < TRANSFER_LANES; lane++) {
        slots->count[lane] = count[lane];
        slots->slot[lane] = calloc(count[lane] + 1, sizeof(struct slot));
        if (!slots->slot[lane]) {
            return err_set(err, ERR_MEMORY, "%zu slots", count[lane]);
        }
    }
    return 0;
}

void slots_done(struct slots *slots)
{
    for (int lane = 0; lane < TRANSFER_LANES; lane++) {
        free(slots->slot[lane]);
        slots->slot[lane] = NULL;
    }
}

static struct slot *slot_of(const struct slots *slots, const struct transfer *transfer)
{
    const enum transfer_lane lane = transfer_info(transfer)->lane;
    ASSERT(slots->count[lane] > 0);
    const size_t position = transfer_position(transfer, slots->steps_overlap);
    return &slots->slot[lane][position % slots->count[lane]];
}

enum slot_answer slots_claim(struct slots *slots, const struct transfer *transfer,
                             struct slot_claim *claim)
{
    struct slot *slot = slot_of(slots, transfer);
    if (slot->state != SLOT_FREE && !transfer_equal(&slot->key, transfer)) {
        return SLOT_OCCUPIED;
    }
    if (slot->state == SLOT_FULL) {
        return SLOT_HAS_IT;
    }
    *slot = (struct slot){.state = SLOT_RECEIVING, .key = *transfer, .claim = ++slots->claims};
    *claim = (struct slot_claim){
        .slot = (size_t)(slot - slots->slot[transfer_info(transfer)->lane]), .number = slot->claim};
    return SLOT_CLAIMED;
}

bool slots_holds(const struct slots *slots, const struct transfer *transfer,
                 const struct slot_claim *claim)
{
    const struct slot *slot = slot_of(slots, transfer);
    return slot->state == SLOT_RECEIVING && slot->claim == claim->number;
}

void slots_fill(struct slots *slots, const struct transfer *transfer,
                const struct slot_claim *claim, bool used)
{
    struct slot *slot = slot_of(slots, transfer);
    ASSERT(slots_holds(slots, transfer, claim));
    slot->mark = claim->mark;
    slot->state = used ? SLOT_FULL : SLOT_FREE;
}

bool slots_have(const struct slots *slots, const struct transfer *transfer)
{
    const struct slot *slot = slot_of(slots, transfer);
    return slot->state == SLOT_FULL && transfer_equal(&slot->key, transfer);
}

struct round_mark slots_mark(const struct slots *slots, size_t slot)
{
    return slots->slot[LANE_ACTIVATION][slot].mark;
}

void slots_release(struct slots *slots, enum transfer_lane lane, size_t slot)
{
    slots->slot[lane][slot].state = SLOT_FREE;
}

void slots_release_all(struct slots *slots, enum transfer_lane lane)
{
    for (size_t i = 0; i < slots->count[lane]; i++) {
        if (slots->slot[lane][i].state == SLOT_FULL) {
            slots_release(slots, lane, i);
        }
    }
}
