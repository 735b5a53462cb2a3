/* coordinator.h: the coordinator: its real core, and an edge that does what coordinator/loop, turn,
 * http and store do: requests and finished facts are turned into events, a turn's rows are
 * committed before anybody is answered, polls are parked on revisions, blobs are durable before the
 * core hears of them. One thread. */
#ifndef TESTS_SIM_COORDINATOR_H
#define TESTS_SIM_COORDINATOR_H

#include "coordinator/core/core.h"
#include "coordinator/core/placement/question.h"
#include "coordinator/core/state/planning.h"
#include "tests/sim/net.h"
#include "tests/sim/rows.h"

#define INBOX_MAX 512
#define PARKED_MAX 128
#define LATE_MAX 512
#define EXPORTS_MAX 16
#define TUNED "tuned" /* in place of the hash of a description with measured kernels */

/* Where it dies, as seen from a turn's transaction. */
enum crash_point { CRASH_NOT, CRASH_BEFORE_COMMIT, CRASH_AFTER_COMMIT };

/* What waits for the next turn. */
struct inbox_item {
    struct call *call;              /* held; NULL: an export's answer, or a job's kernels */
    bool stored;                    /* the call's blob is durable */
    bool broken;                    /* the call was a poll, and its connection broke */
    struct event_exported exported; /* without a call */
    uint64_t planned;               /* without one: the question that was answered; 0: none */
    struct job_id tuned; /* without one: whose kernels all have measured; "": an export */
    struct event parent; /* without one: an answer for a parent; type 0: none */
};

struct parked {
    struct call *call; /* held */
    int64_t deadline_us;
    bool woken;
};

/* Of an earlier time. */
struct backup {
    struct rows rows;
    struct blobs blobs;
};

struct coordinator {
    struct core *core; /* NULL while it is down */
    struct core_config config;
    struct actions actions;
    struct rows rows;
    struct blobs blobs;
    struct backup *backup; /* NULL: none was made */
    struct transaction transaction;
    struct inbox_item inbox[INBOX_MAX];
    size_t inbox_count;
    struct call *outbox[INBOX_MAX]; /* answered at the commit; held */
    int outbox_status[INBOX_MAX];
    size_t outbox_count;
    struct parked parked[PARKED_MAX];
    size_t parked_count;
    struct action late[LATE_MAX];
    size_t late_count;
    struct event_exported exporting[EXPORTS_MAX];
    bool exporting_busy[EXPORTS_MAX];
    struct planning *planning; /* the search under way, while plan_question is not 0 */
    struct planned planned;
    uint64_t plan_question, plan_next;
    int plan_code;
    struct err plan_err;
    struct call *asking; /* of the event under way */
    bool busy;           /* a commit is under way */
    bool turn_asked;
    int64_t timer_us;
    bool disk_full,
        disk_low; /* of the blob store: its state, and the state last reported to the core */
    int64_t disk_look_us;
    int64_t stepped_ms; /* when its core took the last event, by its clock */
    uint64_t lives, commits;
    uint64_t ticket_key;
    int64_t fsync_us;
};

/* Rows as the core takes them at a start. */
struct restored_rows {
    struct restored_job job[ROWS_JOBS_MAX];
    size_t job_count;
    struct plan plan[ROWS_JOBS_MAX];
    size_t plan_count;
    struct event event; /* points to the others and to the rows */
};
void coordinator_restored(const struct world *world, const struct rows *rows,
                          struct restored_rows *out);

int coordinator_new(struct world *world, struct err *err);
void coordinator_free(struct world *world);

/* What the job trains: the model of its name, as it was submitted or with the kernels that were
 * measured. */
const struct model *coordinator_model(const struct world *world, const struct job_spec *spec);
/* A model by its name, with the kernels that devices measure. */
const struct model *coordinator_tuned(const struct world *world, const char *name);
/* ---- parents.c ---- */
/* Make the descriptions of a parent's parts, or its harvested model; the answer comes later. */
void coordinator_derive(struct world *world, const struct action *action);
void coordinator_harvest(struct world *world, const struct action *action);
/* The harvested model of these parts. */
uint64_t coordinator_harvested(const struct parent *parent);
/* Of the joint job's model without missing classes. */
uint64_t coordinator_dropped(const struct parent *parent);

/* Of a snapshot of one of its units. */
int64_t coordinator_unit_bytes(const struct world *world, const char *model, int64_t unit);

/* From its rows. */
void coordinator_start(struct world *world);
/* Its process dies here and now. */
void coordinator_crash(struct world *world);
/* A request has arrived. */
void coordinator_take(struct world *world, struct call *call);
/* The connection of a parked poll broke. */
void coordinator_hang_up(struct world *world, struct call *call);
/* Keep a copy of rows and blobs, and put it back (while it is down). */
void coordinator_backup(struct world *world);
void coordinator_restore_backup(struct world *world);

/* Think of a turn now. */
void coordinator_poke(struct world *world);

/* ---- plans.c ---- */
/* Search for a plan (ACTION_PLAN), for as long as a worker thread may take. */
void coordinator_plan(struct world *world, uint64_t question);
/* The event of the search that has ended, and then the next search. */
void coordinator_planned(struct world *world, struct event *event);
void coordinator_plan_next(struct world *world);

/* ---- averages.c ---- */
/* The body of an average is here. */
void coordinator_take_average(struct world *world, struct call *call);
/* The event of an upload that is stored. */
void coordinator_stored(const struct call *call, struct event *event);

/* ---- answers.c ---- */
/* A request that is answered from committed state: polls, blobs, data sets. */
void coordinator_look(struct world *world, struct call *call);
/* Answer polls that were woken or have waited long enough. */
void coordinator_run_parked(struct world *world);
void coordinator_wake(struct world *world, const char *device_id);
void coordinator_drop_parked(struct world *world);
/* The body of an upload is here: admit it and make it durable. */
void coordinator_take_upload(struct world *world, struct call *call);
/* Its bytes are durable: the core hears of it. */
void coordinator_tell_stored(struct world *world, struct call *call);
/* Whether a known device asks; if not, the problem is answered. */
bool coordinator_asks(struct world *world, struct call *call);
void coordinator_export(struct world *world, const struct action *action);

#endif
