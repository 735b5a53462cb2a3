/* member.h: one device in one generation of parameter_server, as worker, server or both: its
 * arithmetic (libtrain), its protocol (core/exchange), and the memory of the data of messages.
 * member_new allocates everything; later calls allocate nothing.
 *
 * Threads: the compute thread makes the member and runs member_loop (member_loop.h); the receiver
 * brings requests of others (routes.c), callers make requests to others (caller.h), the control
 * thread reads and controls. One mutex guards protocol, lanes and measurements. Data moves without
 * it: only the holder of a claim writes to its part of a buffer, and nobody writes parameters while
 * they are served or pulled. */
#ifndef AGENT_PARAMETER_SERVER_MEMBER_H
#define AGENT_PARAMETER_SERVER_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/exchange.h"
#include "agent/parameter_server/body.h"
#include "agent/runtime/work.h"

struct member;

/* model: taken, also on failure. The state of the keeper's units is undefined. ERR_INVALID: the
 * assignment does not fit the model; ERR_MEMORY. The compute thread calls it. */
NODISCARD int member_new(const struct work_config *config, struct model **model,
                         struct member **out, struct err *err);
struct work *member_work(struct member *member);
/* Return the member of a work of this strategy. */
struct member *member_of(struct work *work);
void member_free(struct work *work);

/* ---- the control side; any thread ---- */
void member_follow(struct member *member, const struct orders *orders);
void member_take_rounds(struct member *member, const struct round round[REPLICA_KINDS]);
/* End every wait in the member. */
void member_cancel(struct member *member);
void member_measure(struct member *member, struct heartbeat *out);

/* ---- data of messages ---- */

/* The memory of a message's data on this device. */
struct member_view {
    struct body body;
    double *numbers;
    float *data;                      /* in the form of the arena */
    const struct member_arena *arena; /* of the layers; NULL: there are none */
    size_t first, end;                /* layers of the model */
    bool backward; /* the data of the last layer comes first, in the order of backward passes */
    bool running;  /* statistics: the running ones; else what these micro-batches have added: */
    struct reduce_range micro_batches;
};
/* Return the view of a message. outgoing: this device sends the data (PARAMETERS: of the
 * answer). */
struct member_view member_view(struct member *member, const struct exchange_message *message,
                               bool outgoing);
struct member_piece {
    void *data;
    size_t size;
    size_t layer; /* backward: the layer of the data; else the view's end */
};
/* Return the piece of the body at `offset` bytes, below body_bytes. */
struct member_piece member_piece(const struct member_view *view, size_t offset);
/* Return whether all numbers and statistics of a body are finite. The update checks its data. */
bool member_is_finite(const struct member_view *view);
/* Copy the data of one view to another with the same body. */
void member_copy(const struct member_view *from, const struct member_view *to);

/* ---- the receiver: requests of other stages ---- */

size_t member_index(const struct member *member);
/* Return the stage of a device; STAGES_MAX: none. */
size_t member_stage_of(const struct member *member, const char *device_id);
enum exchange_verdict member_offer(struct member *member, const struct exchange_message *message,
                                   struct exchange_claim *claim);
bool member_holds(struct member *member, const struct exchange_message *message,
                  const struct exchange_claim *claim);
enum exchange_verdict member_received(struct member *member, const struct exchange_message *message,
                                      const struct exchange_claim *claim);
void member_abandon(struct member *member, const struct exchange_message *message,
                    const struct exchange_claim *claim);
enum exchange_verdict member_commit(struct member *member, const struct exchange_message *message);

#define MEMBER_PULLS_MAX 64 /* parked requests of others, by their handles */
/* handle: below MEMBER_PULLS_MAX. */
enum exchange_verdict member_pull(struct member *member, const struct exchange_message *message,
                                  size_t handle);
/* Return whether the parked request has an answer, in *verdict. */
bool member_answered(struct member *member, size_t handle, enum exchange_verdict *verdict);
void member_forget(struct member *member, size_t handle);
/* Return the last version of the generation. */
int64_t member_last(struct member *member);
/* Copy `size` bytes of the answer from `offset` on. false: an update may have changed them. */
bool member_serve(struct member *member, const struct exchange_message *message,
                  const struct member_view *view, size_t offset, void *out, size_t size);

/* ---- the callers: requests to other stages ---- */

/* Requests wait in lanes: pulls, pushes, and notices to each stage. */
enum { MEMBER_PULLS, MEMBER_PUSHES, MEMBER_NOTICES };
#define MEMBER_LANES (MEMBER_NOTICES + STAGES_MAX)

/* Wait up to wait_ns for a message of the lane. false: none, or cancelled. */
bool member_next_message(struct member *member, size_t lane, int64_t wait_ns,
                         struct exchange_message *out);
bool member_wants(struct member *member, const struct exchange_message *message);
/* CONTRIBUTION: return whether the sums of all its layers are final. */
bool member_has_sums(struct member *member, const struct exchange_message *message);
/* CONTRIBUTION: wait until the layers from `layer` on may be sent. */
enum member_sums {
    MEMBER_SUMS_READY,
    MEMBER_SUMS_WITHHELD, /* for 5 s: the last layer may be sent, except its last byte */
    MEMBER_SUMS_UNWANTED, /* the message no longer matters, or the member is cancelled */
};
enum member_sums member_wait_sums(struct member *member, const struct exchange_message *message,
                                  size_t layer);
/* Note that bytes of a message have arrived here. */
void member_moved(struct member *member, size_t bytes);
/* Note the time (clock_now_seconds) at which the server could begin to send the first layer of
 * PARAMETERS. 0: the pull of this step is not measured. */
void member_pull_began(struct member *member, double began_seconds);
void member_pulled(struct member *member, const struct exchange_message *message, size_t end);
NODISCARD int member_ended(struct member *member, const struct exchange_message *message,
                           int64_t version, struct err *err);
void member_sent(struct member *member, const struct exchange_message *message);
/* Deliver a message from this stage to itself. *done false: it cannot be delivered yet. */
NODISCARD int member_deliver(struct member *member, const struct exchange_message *message,
                             bool *done, struct err *err);
/* A transfer, as the calling thread measured it. */
struct member_transfer {
    double bytes;
    double seconds;        /* without the time for which the answer was parked */
    bool parked;           /* it was parked, */
    double answer_seconds; /* then: seconds from the first byte of the answer to the last */
};
void member_add_link(struct member *member, const struct exchange_message *message,
                     const struct member_transfer *transfer);
bool member_is_cancelled(struct member *member);

#endif
