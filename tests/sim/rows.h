/* rows.h: the coordinator's store as the simulator keeps it: the rows that a restart finds, the
 * blobs of the center, and the transaction between them and a turn. Plain data; one thread. */
#ifndef TESTS_SIM_ROWS_H
#define TESTS_SIM_ROWS_H

#include "coordinator/core/action.h"
#include "schema/device.h"
#include "schema/incident.h"
#include "schema/job.h"
#include "schema/mix_row.h"
#include "schema/plan.h"
#include "tests/sim/world.h"

#define ROWS_DEVICES_MAX 32
#define ROWS_JOBS_MAX 128 /* ended ones included */
#define ROWS_LIVE_MAX 16
#define ROWS_PARENTS_MAX 8
#define ROWS_UNITS_MAX 1024
#define ROWS_CHECKPOINTS_MAX 256
#define BLOBS_MAX 2048
#define ROWS_INCIDENTS_MAX 32
#define ROWS_UNIT_TIMES_MAX 1024
#define ROWS_LINK_TIMES_MAX 1024
#define ROWS_MIXES_MAX 8192
#define CHANGES_MAX 4096

struct rows {
    struct device device[ROWS_DEVICES_MAX];
    size_t device_count;
    struct job job[ROWS_JOBS_MAX];
    size_t job_count;
    struct parent parent[ROWS_PARENTS_MAX]; /* of jobs that consist of groups */
    size_t parent_count;
    struct plan plan[ROWS_JOBS_MAX]; /* the newest of each job */
    size_t plan_count;
    struct dataset dataset[4];
    size_t dataset_count;
    struct checkpoint checkpoint[ROWS_CHECKPOINTS_MAX];
    size_t checkpoint_count;
    struct center_unit unit[ROWS_UNITS_MAX];
    size_t unit_count;
    struct incident incident[ROWS_INCIDENTS_MAX]; /* open ones */
    size_t incident_count;
    struct mix_row mix[ROWS_MIXES_MAX]; /* the log of groups that mix */
    size_t mix_count;
    struct capacity_row capacity[ROWS_DEVICES_MAX + 1];
    size_t capacity_count;
    struct unit_row unit_time[ROWS_UNIT_TIMES_MAX];
    size_t unit_time_count;
    struct link_row link_time[ROWS_LINK_TIMES_MAX];
    size_t link_time_count;
};

/* Blobs are known by their hash, which is their content. */
struct blobs {
    char sha256[BLOBS_MAX][SHA256_SIZE];
    size_t count;
};

struct change {
    bool forget;
    enum object_kind kind;
    char id[ID_SIZE];
    int64_t version;
    void *row;
};

struct transaction {
    struct change item[CHANGES_MAX];
    size_t count;
};

/* Whether rows of this kind are kept; others are read by people only. */
bool rows_keep(enum object_kind kind);
void transaction_add(struct transaction *transaction, const struct action *action);
void transaction_clear(struct transaction *transaction);
/* Make the transaction's changes, which is over then. */
void rows_commit(struct rows *rows, struct transaction *transaction);
/* Store capacities; a list that is full takes no more. */
void rows_take_capacity(struct rows *rows, const struct capacity_change *change);
/* NULL: there is none. */
const struct job *rows_job(const struct rows *rows, const char *id);
const struct parent *rows_parent(const struct rows *rows, const char *job_id);
const struct job *rows_job_named(const struct rows *rows, const char *name);
const struct plan *rows_plan(const struct rows *rows, const char *job_id);

bool blobs_have(const struct blobs *blobs, const char *sha256);
void blobs_add(struct blobs *blobs, const char *sha256);
void blobs_delete(struct blobs *blobs, const char *sha256);
/* Delete what no row refers to. */
/* Whether a row of a unit or a checkpoint names the blob. */
bool rows_refer(const struct rows *rows, const char *sha256);
void blobs_sweep(struct blobs *blobs, const struct rows *rows);

#endif
