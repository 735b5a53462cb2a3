/* slots.h: the receive slots of a stage, by lane. A slot is claimed by the connection that brings
 * its tensor, filled, and released when the compute thread has used it. The newest claim of a
 * tensor wins: an earlier connection that died half way does not block its repeat. Holds no bytes.
 * Pure, allocates in slots_init only. */
#ifndef AGENT_CORE_SLOTS_H
#define AGENT_CORE_SLOTS_H

#include "agent/core/rounds.h"
#include "agent/core/transfer.h"
#include "base/err.h"

struct slot;
struct slots {
    struct slot *slot[TRANSFER_LANES];
    size_t count[TRANSFER_LANES];
    uint64_t claims;    /* made so far: each has its own number */
    bool steps_overlap; /* transfer_position */
};

/* count by lane; may be 0. ERR_MEMORY; slots_done also on failure. */
NODISCARD int slots_init(struct slots *slots, const size_t count[TRANSFER_LANES],
                         bool steps_overlap, struct err *err);
void slots_done(struct slots *slots);

struct slot_claim {
    size_t slot; /* of its lane */
    uint64_t number;
    struct round_mark mark; /* of an activation; empty at first: set it before slots_fill */
};

enum slot_answer {
    SLOT_CLAIMED,
    SLOT_OCCUPIED, /* another tensor has the slot */
    SLOT_HAS_IT,   /* the tensor is here */
};
enum slot_answer slots_claim(struct slots *slots, const struct transfer *transfer,
                             struct slot_claim *claim);
/* Return whether the claim is still valid: no newer connection has taken over the slot. */
bool slots_holds(const struct slots *slots, const struct transfer *transfer,
                 const struct slot_claim *claim);
/* Mark the claimed slot as filled, or (used: false) as free. */
void slots_fill(struct slots *slots, const struct transfer *transfer,
                const struct slot_claim *claim, bool used);
/* Return whether the tensor has arrived. */
bool slots_have(const struct slots *slots, const struct transfer *transfer);
/* Return the mark that came with the activation in that slot. */
struct round_mark slots_mark(const struct slots *slots, size_t slot);
void slots_release(struct slots *slots, enum transfer_lane lane, size_t slot);
/* Release every filled slot of a lane. */
void slots_release_all(struct slots *slots, enum transfer_lane lane);

#endif
