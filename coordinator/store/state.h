/* state.h: the coordinator's durable objects and telemetry: state.db (SQLite, WAL,
 * synchronous=FULL). Objects are rows of their kind's table with id, parent, revision and the
 * document (JSON); telemetry has columns. Only the loop's thread uses a state store. Only this room
 * sees sqlite3.h. */
#ifndef COORDINATOR_STORE_STATE_H
#define COORDINATOR_STORE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum state_table {
    STATE_DEVICES,
    STATE_JOBS,
    STATE_PLANS, /* parent: job */
    STATE_DATASETS,
    STATE_MODELS,
    STATE_CHECKPOINTS,  /* parent: job */
    STATE_CENTER_UNITS, /* id: job/version/unit; parent: job */
    STATE_DESCRIPTIONS, /* id: sha256 of a model description, or of a list of class names; document:
                           its text */
    STATE_REPLAYS,      /* id: idempotency key; document: request hash, status and answer */
    STATE_EVENTS,       /* id: sortable event id */
    STATE_INCIDENTS,    /* parent: job */
    STATE_MIXES,        /* parent: job */
    STATE_PARENTS,      /* id: of the job that consists of groups */
    STATE_TOKENS,
    STATE_AUDIT,
    STATE_META, /* id: name; document: value (ticket key, schema facts) */
    STATE_TABLES,
};

struct state_store;

/* Open or create DIR/state.db, run migrations (forward only, a backup of the file before the first)
 * and preallocate the reserve. The reserve is 8 MiB that a transaction gets once when the disk is
 * full, until there is room for a new one. A reserve that cannot be made is a warning: only a
 * running coordinator can free a full disk. ERR_FULL, ERR_IO, ERR_FORMAT (not our database),
 * ERR_UNSUPPORTED (made by a newer version), ERR_STATE (another process has it). */
NODISCARD int state_open(const char *directory, struct state_store **out, struct err *err);
void state_close(struct state_store **store);

/* One transaction around all puts and deletes of a turn; they are possible only inside. All of it
 * survives a power cut when commit returned 0, and all or nothing of it otherwise. After a failed
 * put or delete the transaction can only be rolled back; a failed commit has ended it, with one
 * exception: ERR_FULL, the disk is full and the reserve is used up. Then the transaction stays open
 * with all its changes, takes more of them, and commit may be retried; readers see the rows as they
 * were before. Only commit returns ERR_FULL for this. */
NODISCARD int state_begin(struct state_store *store, struct err *err);
NODISCARD int state_commit(struct state_store *store, struct err *err);
void state_rollback(struct state_store *store);
bool state_in_transaction(const struct state_store *store);
/* Whether there is room for rows of users: this much stays free beside uncommitted changes, and the
 * reserve exists or has room to be created. The rows of running jobs are not asked about. ERR_FULL
 * says how much is missing; ERR_IO. One look at the file system. */
NODISCARD int state_check_room(const struct state_store *store, uint64_t min_free_bytes,
                               struct err *err);

struct state_row {
    const char *id;
    const char *parent; /* "" when the table has none */
    int64_t revision;
    int64_t created_ms;
    const char *document;
    size_t document_size;
};
/* Of STATE_MIXES the first row of an id stays: what a group says of a mix later, or what another
 * one says of it, changes nothing. */
NODISCARD int state_put(struct state_store *store, enum state_table table,
                        const struct state_row *row, struct err *err);
/* A row that is not there is fine. A job takes its plans, incidents and metrics with it. */
NODISCARD int state_delete(struct state_store *store, enum state_table table, const char *id,
                           struct err *err);
/* All rows of a parent whose id is below `below_id` (NULL: all of the parent). */
NODISCARD int state_delete_children(struct state_store *store, enum state_table table,
                                    const char *parent, const char *below_id, struct err *err);
/* Keep the newest `keep` rows by id (events). */
NODISCARD int state_trim(struct state_store *store, enum state_table table, size_t keep,
                         struct err *err);

/* Visit rows in order of ids, after `after_id` ("" from the start), of `parent` (NULL: any), at
 * most `limit`. visit returns false to stop; it may read rows of other tables, but not list or get
 * of the same. Texts are borrowed for the call. */
typedef bool (*state_visit_fn)(void *arg, const struct state_row *row);
NODISCARD int state_list(struct state_store *store, enum state_table table, const char *parent,
                         const char *after_id, size_t limit, bool newest_first,
                         state_visit_fn visit, void *arg, struct err *err);
/* What state_search looks for. Texts are borrowed. */
struct state_query {
    const char *after_id; /* as of state_list, with `limit` and `newest_first` */
    size_t limit;
    bool newest_first;
    const char *parent; /* NULL: any */
    const char *job;    /* rows of this job and of the jobs that are its parts; NULL: any */
    const char *states; /* ",A,B,": the document's `state` is one of them; "": any */
    const char *name;   /* its `spec.name`, or the beginning of it and "*"; "": any */
};
/* Visit `limit` rows, as state_list. A row that does not match has no document (size 0). */
NODISCARD int state_search(struct state_store *store, enum state_table table,
                           const struct state_query *query, state_visit_fn visit, void *arg,
                           struct err *err);
NODISCARD int state_count(struct state_store *store, enum state_table table, size_t *out,
                          struct err *err);
/* ERR_NOT_FOUND. */
NODISCARD int state_get(struct state_store *store, enum state_table table, const char *id,
                        state_visit_fn visit, void *arg, struct err *err);

/* The hash of a blob that a row needs; NULL: the row is damaged. Returns false to stop. */
typedef bool (*state_reference_fn)(void *arg, const char *table, const char *id,
                                   const char *sha256);
NODISCARD int state_references(struct state_store *store, state_reference_fn visit, void *arg,
                               struct err *err);
/* Delete the descriptions that no job, model or data set names, outside of a transaction. Reads all
 * jobs. ERR_*: all stay. */
NODISCARD int state_sweep_texts(struct state_store *store, size_t *removed, struct err *err);

/* Give free space inside state.db back to the file system, a bounded piece at a time, outside of a
 * transaction; a share stays for the next rows. *left: more is to give. */
NODISCARD int state_vacuum(struct state_store *store, bool *left, struct err *err);

/* Telemetry is batched: state_flush writes it in one transaction (the loop calls it about once a
 * second). A crash may lose the last second of it. */
NODISCARD int state_metric(struct state_store *store, const char *job, int64_t step,
                           const char *name, double value,
                           struct err *err); /* upserted by (job, name, step) */
NODISCARD int state_flush(struct state_store *store, struct err *err);
typedef bool (*state_metric_fn)(void *arg, int64_t step, const char *name, double value);
/* name NULL: all. Steps > since, ascending, at most limit. */
NODISCARD int state_metrics(struct state_store *store, const char *job, const char *name,
                            int64_t since, size_t limit, state_metric_fn visit, void *arg,
                            struct err *err);

/* Keep at most `keep` points (>= 2) of each metric of a job and of its parts, evenly spread, the
 * first and the last among them. *thinned: how many were deleted. */
NODISCARD int state_thin_metrics(struct state_store *store, const char *job, size_t keep,
                                 size_t *thinned, struct err *err);

#endif
