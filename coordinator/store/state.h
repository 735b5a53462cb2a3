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

/* Open or create DIR/state.db, run migrations (forward only, with a backup of the file before the
 * first) and preallocate the reserve. When the disk is full, a transaction may use the 8 MiB of the
 * reserve once, until there is room for a new one. If the reserve cannot be made, that is only a
 * warning, because only a running coordinator can free a full disk. ERR_FULL, ERR_IO, ERR_FORMAT
 * (not our database), ERR_UNSUPPORTED (made by a newer version), ERR_STATE (another process has it
 * open). */
NODISCARD int state_open(const char *directory, struct state_store **out, struct err *err);
void state_close(struct state_store **store);

/* One transaction contains all puts and deletes of a turn; they are possible only inside it. After
 * commit has returned 0, all changes survive a power cut; before that, all or none do. After a
 * failed put or delete the transaction can only be rolled back. A failed commit ends the
 * transaction, with one exception: ERR_FULL, the disk is full and the reserve is used up. Then the
 * transaction stays open with all its changes and takes more of them, and commit may be retried;
 * readers see the earlier rows. Only commit returns ERR_FULL for this. */
NODISCARD int state_begin(struct state_store *store, struct err *err);
NODISCARD int state_commit(struct state_store *store, struct err *err);
void state_rollback(struct state_store *store);
bool state_in_transaction(const struct state_store *store);
/* Check that the disk has room for rows of users: min_free_bytes stay free beside uncommitted
 * changes, and the reserve exists or has room to be created. Do not call it for rows of running
 * jobs. ERR_FULL says how much is missing; ERR_IO. Reads the state of the file system once. */
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
/* Insert or replace a row. In STATE_MIXES the first row of an id stays: a later report of the same
 * mix, by the same group or another one, changes nothing. */
NODISCARD int state_put(struct state_store *store, enum state_table table,
                        const struct state_row *row, struct err *err);
/* Delete a row, if it exists. With a job, its plans, incidents and metrics are deleted too. */
NODISCARD int state_delete(struct state_store *store, enum state_table table, const char *id,
                           struct err *err);
/* Delete all rows of a parent with an id below `below_id` (NULL: all rows of the parent). */
NODISCARD int state_delete_children(struct state_store *store, enum state_table table,
                                    const char *parent, const char *below_id, struct err *err);
/* Keep the newest `keep` rows by id (events). */
NODISCARD int state_trim(struct state_store *store, enum state_table table, size_t keep,
                         struct err *err);

/* Visit at most `limit` rows of `parent` (NULL: any) in the order of their ids, after `after_id`
 * ("": from the start). visit returns false to stop. It may read rows of other tables, but must not
 * list or get rows of the same table. Texts are borrowed for the call. */
typedef bool (*state_visit_fn)(void *arg, const struct state_row *row);
NODISCARD int state_list(struct state_store *store, enum state_table table, const char *parent,
                         const char *after_id, size_t limit, bool newest_first,
                         state_visit_fn visit, void *arg, struct err *err);
/* The conditions of state_search. Texts are borrowed. */
struct state_query {
    const char *after_id; /* as of state_list, with `limit` and `newest_first` */
    size_t limit;
    bool newest_first;
    const char *parent; /* NULL: any */
    const char *job;    /* rows of this job and of the jobs that are its parts; NULL: any */
    const char *states; /* ",A,B,": the document's `state` is one of them; "": any */
    const char *name;   /* the document's `spec.name`, or a prefix of it and "*"; "": any */
};
/* Visit `limit` rows, as state_list. Rows that do not match are visited without a document (size
 * 0). */
NODISCARD int state_search(struct state_store *store, enum state_table table,
                           const struct state_query *query, state_visit_fn visit, void *arg,
                           struct err *err);
NODISCARD int state_count(struct state_store *store, enum state_table table, size_t *out,
                          struct err *err);
/* Visit the row with this id. ERR_NOT_FOUND. */
NODISCARD int state_get(struct state_store *store, enum state_table table, const char *id,
                        state_visit_fn visit, void *arg, struct err *err);

/* The hash of a blob that a row needs; NULL: the row is damaged. Returns false to stop. */
typedef bool (*state_reference_fn)(void *arg, const char *table, const char *id,
                                   const char *sha256);
NODISCARD int state_references(struct state_store *store, state_reference_fn visit, void *arg,
                               struct err *err);
/* Delete the descriptions that no job, model or data set names, outside of a transaction. Reads all
 * jobs. On failure all stay. */
NODISCARD int state_sweep_texts(struct state_store *store, size_t *removed, struct err *err);

/* Release free space inside state.db to the file system, a bounded piece per call, outside of a
 * transaction. A share stays for the next rows. *left: there is more to release. */
NODISCARD int state_vacuum(struct state_store *store, bool *left, struct err *err);

/* Telemetry is batched: state_flush writes it in one transaction (the loop calls it about once a
 * second). A crash may lose the last second of it. */
NODISCARD int state_metric(struct state_store *store, const char *job, int64_t step,
                           const char *name, double value,
                           struct err *err); /* upserted by (job, name, step) */
NODISCARD int state_flush(struct state_store *store, struct err *err);
typedef bool (*state_metric_fn)(void *arg, int64_t step, const char *name, double value);
/* Visit at most `limit` metrics of a job with steps > since, ascending. name NULL: all. */
NODISCARD int state_metrics(struct state_store *store, const char *job, const char *name,
                            int64_t since, size_t limit, state_metric_fn visit, void *arg,
                            struct err *err);

/* Keep at most `keep` points (>= 2) of each metric of a job and of its parts, evenly spread,
 * including the first and the last. *thinned: the number of deleted points. */
NODISCARD int state_thin_metrics(struct state_store *store, const char *job, size_t keep,
                                 size_t *thinned, struct err *err);

#endif
