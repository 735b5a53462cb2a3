/* replicate.h: the thread of a run that sends snapshots to the neighbor and to the center, one blob
 * at a time, around the real bookkeeping of agent/copies/outbox_queue. One thread. */
#ifndef TESTS_SIM_REPLICATE_H
#define TESTS_SIM_REPLICATE_H

#include "agent/copies/outbox_queue.h"
#include "agent/core/repeat.h"
#include "schema/heartbeat.h"
#include "tests/sim/world.h"

struct run;
struct call;

struct replicate {
    struct outbox_queue *book;
    struct outbox_send sending; /* while call is not NULL */
    struct call *call;
    int64_t held;       /* the version kept last */
    int64_t collecting; /* the version that is wanted in the center; 0: none */
    int64_t timer_us;
    struct repeat repeat; /* of the neighbor */
    int64_t bytes_sent;
};

/* The stage is built. */
int replicate_new(struct run *run, struct err *err);
/* The step is applied: keep it for the rounds of the mark, and begin to send. */
void replicate_step(struct world *world, struct run *run, int64_t step,
                    const struct round_mark *mark);
/* It has stopped at this version, and keeps it. false: there is no room. */
bool replicate_stop(struct world *world, struct run *run, int64_t version);
/* Older versions were dropped. */
void replicate_drop(struct run *run, int64_t below_version);
/* The version is to be sent to the center, too. */
void replicate_collect(struct world *world, struct run *run, int64_t version);
/* No more calls. */
void replicate_cancel(struct world *world, struct run *run);
void replicate_free(struct world *world, struct run *run);

#endif
