/* exchange_server.h: the server's part of exchange.h: the stage collects the blocks of the step
 * after its version, adds siblings of the reduction tree as soon as both are here, and updates when
 * the lead has committed the step. Pure; allocates in exchange_server_init only.
 *
 * In each step the server goes through the states collecting, complete, committed, applied. There
 * is one buffer per block. A buffer takes only contributions of the step after the server's version
 * and is free again when that step is applied, so it never holds two steps. At a commit every block
 * is here, because a worker reports `done` only after its other contributions were acknowledged. A
 * commit while a block is missing is refused. No worker waits for a server without layers, so that
 * server acknowledges a commit only when it has applied it.
 *
 * If the job clips, the sum of squares starts at the last server after its commit, each server adds
 * its own, and the total of the lead travels back (as in pipeline.h). No server updates without
 * it. */
#ifndef AGENT_CORE_EXCHANGE_SERVER_H
#define AGENT_CORE_EXCHANGE_SERVER_H

#include "agent/core/exchange_arrivals.h"
#include "agent/core/exchange_plan.h"

/* A number for another server. The task that computes this number in the next step waits while the
 * buffer is in use. */
enum exchange_number_state { NUMBER_NONE, NUMBER_READY, NUMBER_SENDING };
struct exchange_number {
    enum exchange_number_state state;
    int64_t step;
};

struct exchange_server {
    const struct exchange_plan *plan;
    struct exchange_course *course;
    struct round_mark mark;                /* of the committed step */
    struct exchange_arrivals contribution; /* [blocks][1 + layers]: `done`, then the layers */
    struct exchange_arrivals number;       /* NORM, NORM_TOTAL */
    size_t *covers;                        /* [blocks] one past the last micro-batch of the sum in
                                              its buffer; 0: not whole, or added to another */
    size_t whole;                          /* blocks that were whole in this step */
    bool updating;
    bool summed, passed_on;             /* the sum of squares, the total */
    struct exchange_number norm, total; /* to the previous server, to the next */
};

/* plan, course: borrowed. ERR_MEMORY; exchange_server_done also on failure. */
NODISCARD int exchange_server_init(struct exchange_server *server, const struct exchange_plan *plan,
                                   struct exchange_course *course, struct err *err);
void exchange_server_done(struct exchange_server *server);

/* The functions of exchange.h for CONTRIBUTION, NORM and NORM_TOTAL. */
enum exchange_verdict exchange_server_offer(struct exchange_server *server,
                                            const struct exchange_message *message,
                                            struct exchange_claim *claim);
bool exchange_server_holds(const struct exchange_server *server,
                           const struct exchange_message *message,
                           const struct exchange_claim *claim);
/* Note, for a valid claim, that the data has arrived (receive, as exchange_received), or will not
 * arrive (abandon). */
enum exchange_verdict exchange_server_receive(struct exchange_server *server,
                                              const struct exchange_message *message);
void exchange_server_abandon(struct exchange_server *server,
                             const struct exchange_message *message);
/* As exchange_commit. */
enum exchange_verdict exchange_server_commit(struct exchange_server *server,
                                             const struct exchange_message *message);
/* Return whether every block is here, so that the step after the version may be committed. */
bool exchange_server_is_complete(const struct exchange_server *server);
/* Lead: return whether the worker has sent everything of the step after the version. */
bool exchange_server_is_done(const struct exchange_server *server, size_t stage);
/* Apply a commit that the lead on this device has decided. */
void exchange_server_take_commit(struct exchange_server *server, const struct round_mark *mark);

/* Return the next task; false: none, for the reason in *why. */
bool exchange_server_next(const struct exchange_server *server, struct exchange_task *task,
                          enum exchange_wait *why);
void exchange_server_begin(struct exchange_server *server, const struct exchange_task *task);
void exchange_server_end(struct exchange_server *server, const struct exchange_task *task);

/* Take the next number for another server; false: none. */
bool exchange_server_message(struct exchange_server *server, struct exchange_message *out);
void exchange_server_sent(struct exchange_server *server, const struct exchange_message *message);

#endif
