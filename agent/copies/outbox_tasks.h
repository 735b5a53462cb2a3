/* outbox_tasks.h: decides the next task of a stage's outbox: which set of blocks to prepare, which
 * snapshot to keep, what to send, when to drop abandoned rounds, and when a collection ends. It
 * also interprets the answers of targets. It holds no blocks and moves no bytes. Its owner does one
 * task at a time and reports the result. Pure, allocates in outbox_tasks_new only; its owner guards
 * it (outbox.c, the simulator).
 *
 * A set goes from none to ready (prepared before a step needs it) and to filled (the stage's units
 * are copied into it). Once it is kept, the snapshot store owns its blocks and the set goes back to
 * none. Sets and own snapshots together fit into three sets. A stop has priority: it takes a fourth
 * set if necessary, and nothing is sent until its snapshot is kept. Plans therefore count four
 * sets. */
#ifndef AGENT_COPIES_OUTBOX_TASKS_H
#define AGENT_COPIES_OUTBOX_TASKS_H

#include "agent/copies/outbox_queue.h"
#include "agent/copies/snapshot_list.h"

/* Time without an answer of the center that counts as a stall. */
#define OUTBOX_CENTER_STALL_MS 10000

struct outbox_tasks_config {
    struct outbox_queue_config queue;
    int64_t set_bytes;     /* of one snapshot of the stage */
    int64_t replica_bytes; /* bound of replicas; if it is full, abandoned rounds are dropped */
    bool stops_only;       /* no rounds: the only set is that of a stop */
};

struct outbox_tasks;
/* Errors as of outbox_queue_new. */
NODISCARD int outbox_tasks_new(const struct outbox_tasks_config *config, struct outbox_tasks **out,
                               struct err *err);
void outbox_tasks_free(struct outbox_tasks **tasks);
/* Return the queue for queries; only this module changes it. */
const struct outbox_queue *outbox_tasks_queue(const struct outbox_tasks *tasks);

/* ---- the next task ---- */

/* Bytes that the device holds. `own` does not count those in files. */
struct outbox_room {
    struct snapshot_bytes own, replicas;
};

enum outbox_work {
    OUTBOX_WAIT,      /* until due_ms or any report to this module */
    OUTBOX_PREPARE,   /* allocate the blocks of `set`; then outbox_tasks_prepared */
    OUTBOX_RELEASE,   /* drop abandoned rounds of `origin` (snapshot_list_release) */
    OUTBOX_KEEP,      /* hash and keep each unit of `set` (outbox_tasks_hold); then _kept */
    OUTBOX_SEND,      /* `send`; then outbox_tasks_answered */
    OUTBOX_COLLECTED, /* every unit of `version` is in the center */
};

struct outbox_task {
    enum outbox_work work;
    size_t set;                  /* PREPARE, KEEP */
    int64_t version;             /* KEEP, COLLECTED */
    enum snapshot_origin origin; /* RELEASE */
    struct outbox_send send;     /* SEND */
    int64_t due_ms;              /* WAIT; INT64_MAX: never */
};

/* Return whether outbox_tasks_next reads `room` now. Computing it takes a pass over all
 * snapshots. */
bool outbox_tasks_needs_room(const struct outbox_tasks *tasks);
void outbox_tasks_next(struct outbox_tasks *tasks, int64_t now_ms, const struct outbox_room *room,
                       struct outbox_task *out);

/* ---- results ---- */

/* Report that the blocks of the set are allocated or (done: false) that there is no memory for them
 * now. */
void outbox_tasks_prepared(struct outbox_tasks *tasks, size_t set, bool done);
/* Report that a unit of a set is hashed and held, so it can be sent. */
void outbox_tasks_hold(struct outbox_tasks *tasks, const struct holding *holding);
enum outbox_kept { OUTBOX_HELD, OUTBOX_NOT_HELD, OUTBOX_CANCELLED };
/* Report whether every unit of the set is held. */
void outbox_tasks_kept(struct outbox_tasks *tasks, size_t set, enum outbox_kept kept);

/* Return the code of a target's status other than 2xx: ERR_NOT_FOUND (it does not have these
 * bytes), ERR_STATE or ERR_FULL (retry), ERR_STALE (this generation is over), ERR_PROTOCOL (it
 * rejects the version). *retry_ms is set if the status determines the time of the retry. */
int outbox_tasks_judge(enum replica_kind kind, int status, int64_t *retry_ms);
enum outbox_answer {
    OUTBOX_GOES_ON,       /* sent, or repeated later */
    OUTBOX_ABANDONED,     /* the target will not get that version */
    OUTBOX_NOT_COLLECTED, /* the same, so the collection of the version has failed */
};
/* Report the end of a send with 0, a code of outbox_tasks_judge, ERR_NETWORK, ERR_TIMEOUT,
 * ERR_CANCELLED; ERR_STALE also means that the snapshot is no longer held. Any other error rejects
 * the version. */
enum outbox_answer outbox_tasks_answered(struct outbox_tasks *tasks, const struct outbox_send *send,
                                         int rc, int64_t now_ms, int64_t retry_ms);

/* ---- events ---- */

/* Note that the stage has applied a step with a mark. true: copy its units into *set, then call
 * outbox_tasks_filled. false: no set is ready, so the snapshot is skipped. */
bool outbox_tasks_take(struct outbox_tasks *tasks, int64_t version, const struct round_mark *mark,
                       size_t *set);
void outbox_tasks_filled(struct outbox_tasks *tasks, size_t set);
/* Return the number of snapshots that were skipped because no set was ready. */
uint64_t outbox_tasks_skipped(const struct outbox_tasks *tasks);

enum outbox_stop {
    OUTBOX_STOP_FILL,  /* copy the units into *set, call outbox_tasks_filled, call again */
    OUTBOX_STOP_WAITS, /* call again after the next task */
    OUTBOX_STOP_HELD,
    OUTBOX_STOP_FAILED,
};
/* Note that the stage stopped at a version, which must be held before anything else is sent. Call
 * it until the version is held or has failed, then end the stop. */
enum outbox_stop outbox_tasks_stop(struct outbox_tasks *tasks, int64_t version, size_t *set);
void outbox_tasks_end_stop(struct outbox_tasks *tasks);

/* Send the version to the center too: the job ends or pauses there. */
void outbox_tasks_collect(struct outbox_tasks *tasks, int64_t version);
/* Note that the coordinator ordered to drop snapshots: of this job below the version, or (0) of
 * other jobs. */
void outbox_tasks_drop(struct outbox_tasks *tasks, int64_t below_version);

#endif
