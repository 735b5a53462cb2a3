/* outbox.h: the thread "replicate" of a run: it does the tasks of agent/copies/outbox_tasks, which
 * sends snapshots to the neighbour and to the center. One thread. */
#ifndef TESTS_SIM_OUTBOX_H
#define TESTS_SIM_OUTBOX_H

#include "agent/copies/outbox_tasks.h"
#include "agent/core/repeat.h"
#include "schema/heartbeat.h"
#include "tests/sim/digest.h"
#include "tests/sim/world.h"

struct run;
struct call;

struct outbox {
    struct outbox_tasks *tasks;
    uint64_t set[OUTBOX_SETS_MAX][DIGEST_UNITS_MAX]; /* copies of the stage's units */
    struct outbox_send sending;                      /* while call is not NULL */
    struct call *call;
    int64_t timer_us;
    struct repeat repeat; /* of the neighbor */
    int64_t bytes_sent;
};

/* The stage is built. */
int outbox_start(const struct world *world, struct run *run, struct err *err);
/* The step is applied: take a snapshot for the rounds of the mark. */
void outbox_take(struct world *world, struct run *run, int64_t step, const struct round_mark *mark);
/* The stage stopped at this version. false: it could not be kept. */
bool outbox_keep(struct world *world, struct run *run, int64_t version);
/* Snapshots were dropped. */
void outbox_drop(struct world *world, struct run *run, const struct drop *drop);
/* The version is to be sent to the center, too. */
void outbox_collect(struct world *world, struct run *run, int64_t version);
/* No more calls. */
void outbox_cancel(struct world *world, struct run *run);
void outbox_free(struct world *world, struct run *run);

#endif
