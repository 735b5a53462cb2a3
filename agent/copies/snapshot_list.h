/* snapshot_list.h: decides which snapshots a device holds: which may enter the list and which they
 * replace, which leave it and why, whether another replica fits, and whether a version is whole
 * here. It handles neither memory nor files. Pure; its owner guards it (snapshot.c, the simulator).
 *
 * A device promises memory for the replicas of the stage before it: replica_bytes of its
 * assignment, twice that stage's state. A new plan starts with replicas of the previous plan, which
 * the coordinator needs until a round of the new plan is committed. So one set of the new plan
 * always fits, even if the old replicas fill the bound. */
#ifndef AGENT_COPIES_SNAPSHOT_LIST_H
#define AGENT_COPIES_SNAPSHOT_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/copies/outbox_queue.h"
#include "base/err.h"
#include "schema/assignment.h"
#include "schema/heartbeat.h"
#include "schema/id.h"
#include "schema/limits.h"

enum snapshot_origin { SNAPSHOT_OWN, SNAPSHOT_REPLICA };

struct snapshot {
    struct holding holding;
    enum snapshot_origin origin;
    const void *data; /* holding.bytes; NULL: on disk, read it with snapshot_read */
};

/* A generation of the job starts from that version. */
struct snapshot_start {
    struct job_id job;
    int64_t generation, version;
};
#define SNAPSHOT_STARTS_MAX 8

/* By (job, version, unit). All 0: empty. */
struct snapshot_list {
    struct snapshot *item[HOLDINGS_MAX]; /* owned by the caller; the list does not move them */
    size_t count;
    uint64_t revision; /* rises with each change */
    bool whole;        /* since it was cleared, a version has reached as many units here as the
                          job's newest version before it: more is not likely to come soon */
    struct snapshot_start start[SNAPSHOT_STARTS_MAX];
    size_t starts; /* starts ever noted; only the newest are kept */
};

/* Return the snapshot; NULL: not in the list. */
struct snapshot *snapshot_list_find(const struct snapshot_list *list, const char *job,
                                    int64_t version, int64_t unit);
/* Return a snapshot of the same job, unit and hash under any version; NULL: none. */
struct snapshot *snapshot_list_find_same(const struct snapshot_list *list,
                                         const struct holding *holding);
/* Check whether a snapshot may enter. ERR_STALE: its version was abandoned, or the list has it from
 * a later generation; ERR_LIMIT: no room, since replicas must leave room for one set of own
 * snapshots. */
NODISCARD int snapshot_list_check(const struct snapshot_list *list, const struct snapshot *snapshot,
                                  struct err *err);
/* Insert a snapshot in place of one with the same key (*old, or NULL). Errors as of
 * snapshot_list_check. */
NODISCARD int snapshot_list_insert(struct snapshot_list *list, struct snapshot *snapshot,
                                   struct snapshot **old, struct err *err);

/* Return the HTTP status for a device that offered a replica. rc 0: the replica is held;
 * ERR_NOT_FOUND: its bytes must be sent; ERR_FORMAT: the bytes are not those announced; ERR_STALE;
 * else: no room. */
int snapshot_list_status(int rc);

/* ---- removal: each returns the number of removed snapshots, in `gone` ---- */

/* Remove versions of a job as the coordinator ordered. */
size_t snapshot_list_drop(struct snapshot_list *list, const struct drop *drop,
                          struct snapshot *gone[HOLDINGS_MAX]);
/* Remove the versions newer than the start. Those of earlier generations may not enter again. */
size_t snapshot_list_start(struct snapshot_list *list, const struct snapshot_start *start,
                           struct snapshot *gone[HOLDINGS_MAX]);
/* Remove versions of that origin and generation whose rounds were abandoned, because memory is
 * short. */
size_t snapshot_list_release(struct snapshot_list *list, enum snapshot_origin origin,
                             const struct job_id *job, int64_t generation,
                             const struct outbox_queue *queue, struct snapshot *gone[HOLDINGS_MAX]);
/* Remove a snapshot whose bytes are damaged. */
size_t snapshot_list_discard(struct snapshot_list *list, const struct snapshot *snapshot,
                             struct snapshot *gone[HOLDINGS_MAX]);

/* ---- room ---- */

/* Bytes of the snapshots of an origin, and the part that belongs to one generation of a job. */
struct snapshot_bytes {
    int64_t held, present;
};
void snapshot_bytes_add(struct snapshot_bytes *bytes, const struct holding *holding,
                        const struct job_id *job, int64_t generation);
/* Return whether another replica of that generation fits. bound: replica_bytes of the
 * assignment. */
bool snapshot_bytes_fit(int64_t bound, const struct snapshot_bytes *replicas, int64_t bytes);

#endif
