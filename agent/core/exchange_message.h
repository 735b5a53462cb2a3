/* exchange_message.h: what workers and servers send to each other (strategy parameter_server): the
 * kinds of messages, and the verdicts on a message that arrives. Each is unique within a
 * generation, so repeats are harmless. Values only: data is in buffers of the owner. Pure.
 *
 *     PARAMETERS    worker -> server   asks for the layers [first, end) of version `step`; the
 *                                      server parks the request until it has applied that version
 *     CONTRIBUTION  worker -> server   the sum of a block's gradients for the layers [first, end)
 *                                      in step `step`, with the statistics of its micro-batches
 *     RESULT        worker -> lead     a micro-batch of the evaluation of version `step`
 *     COMMIT        lead -> others     every block of step `step` is done: update. `last`: that
 *                                      version is the last one of the generation; workers without
 *                                      units hear of the last one only
 *     NORM          server -> previous the sum of squares of the servers after the receiver
 *     NORM_TOTAL    server -> next     the sum of squares of all servers */
#ifndef AGENT_CORE_EXCHANGE_MESSAGE_H
#define AGENT_CORE_EXCHANGE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/core/rounds.h"

enum exchange_kind {
    EXCHANGE_PARAMETERS,
    EXCHANGE_CONTRIBUTION,
    EXCHANGE_RESULT,
    EXCHANGE_COMMIT,
    EXCHANGE_NORM,
    EXCHANGE_NORM_TOTAL,
};
#define EXCHANGE_KINDS 6

struct exchange_message {
    enum exchange_kind kind;
    size_t from, to;   /* stages; equal on a device that is worker and server */
    int64_t step;      /* PARAMETERS, RESULT: the version */
    size_t block;      /* CONTRIBUTION */
    size_t first, end; /* PARAMETERS, CONTRIBUTION: its layers, of one server */
    bool statistics;   /* PARAMETERS: for an evaluation, so with the running statistics */
    bool streams;      /* outgoing PARAMETERS: layers are used as they come, else when all of them
                          are there */
    bool done; /* CONTRIBUTION to the lead: the sender has nothing more to send in this step; its
                  losses, [micro-batches of its share], come along. [0, 0) if the lead keeps no
                  layers */
    size_t micro_batch;     /* RESULT: of the evaluation */
    bool last;              /* COMMIT */
    struct round_mark mark; /* COMMIT: of the step */
    size_t buffer;          /* outgoing RESULT: the buffer with its data; not for the receiver */
};

enum exchange_verdict {
    EXCHANGE_TAKE,     /* claimed: write into the buffer, then exchange_received */
    EXCHANGE_STORED,   /* 204: it is here or was used; accept and discard the body */
    EXCHANGE_NOT_YET,  /* 503: repeat it later */
    EXCHANGE_OUTDATED, /* 409: its step was discarded, its version is no longer there, or a repeat
                          took its place */
    EXCHANGE_REFUSE,   /* 422: not in this plan */
    EXCHANGE_SERVE,    /* PARAMETERS: send them now, while exchange_serves */
    EXCHANGE_PARK,     /* PARAMETERS: the answer comes from exchange_next_answer */
    EXCHANGE_LAST,     /* PARAMETERS: the answer is exchange_last, without data */
};

/* The right to write a message's data into the receiver's buffer: of the block, of the micro-batch
 * of the evaluation, or the only one of the kind. The newest claim wins. */
struct exchange_claim {
    uint64_t number;
};

/* The answer to a parked request. */
struct exchange_answer {
    uint64_t handle;               /* as given to exchange_pull */
    enum exchange_verdict verdict; /* SERVE, LAST or OUTDATED (a repeat replaced it) */
    struct exchange_message message;
};

#endif
