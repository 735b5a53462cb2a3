#include "coordinator/content/deletion.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "coordinator/content/awaited.h"
#include "coordinator/coordinator.h"
#include "schema/wire.h"

#define PIECE_PARTS 1024 /* of one event: its step has room for an action of each */

/* The rows and blobs that belong to the object. */
struct belongings {
    char (*sha256)[SHA256_SIZE];
    size_t count, capacity, unit_count;
    struct job_id *part;
    size_t part_count, part_capacity;
    struct event_delete *deletion;
    int code;
    struct err *err;
};

static void add_blob(struct belongings *all, const char *sha256)
{
    void *grown = grow(all->sha256, sizeof(*all->sha256), all->count, &all->capacity);
    if (!grown) {
        all->code = err_set(all->err, ERR_MEMORY, "out of memory");
        return;
    }
    all->sha256 = grown;
    memcpy(all->sha256[all->count++], sha256, SHA256_SIZE);
}

static bool read_document(struct belongings *all, const struct record *record,
                          const struct state_row *row, void *out)
{
    struct record_faults faults = {0};
    struct err err = {0};
    if (wire_read(record, row->document, row->document_size, out, &faults, &err)) {
        all->code =
            err_set(all->err, ERR_FORMAT, "state.db: %s '%s': %s", record->name, row->id, err.text);
    }
    return !all->code;
}

static bool read_unit(void *arg, const struct state_row *row)
{
    struct belongings *all = arg;
    struct center_unit unit = {0};
    if (read_document(all, &center_unit_record, row, &unit)) {
        add_blob(all, unit.sha256);
    }
    return !all->code;
}

static bool read_checkpoint(void *arg, const struct state_row *row)
{
    struct belongings *all = arg;
    struct checkpoint checkpoint = {0};
    if (read_document(all, &checkpoint_record, row, &checkpoint)) {
        add_blob(all, checkpoint.sha256);
        all->deletion->revision = checkpoint.revision;
    }
    return !all->code;
}

static bool read_part(void *arg, const struct state_row *row)
{
    struct belongings *all = arg;
    const size_t size = strlen(row->id) + 1;
    if (size > ID_SIZE) {
        all->code = err_set(all->err, ERR_FORMAT, "state.db: job '%.80s' has no valid id", row->id);
        return false;
    }
    void *grown = grow(all->part, sizeof(*all->part), all->part_count, &all->part_capacity);
    if (!grown) {
        all->code = err_set(all->err, ERR_MEMORY, "out of memory");
        return false;
    }
    all->part = grown;
    memcpy(all->part[all->part_count++].text, row->id, size);
    return true;
}

static bool read_job(void *arg, const struct state_row *row)
{
    struct belongings *all = arg;
    all->deletion->revision = row->revision;
    if (row->parent[0]) {
        all->code = err_set(all->err, ERR_STATE, "%s", row->parent);
    }
    return false;
}

static bool read_incident(void *arg, const struct state_row *row)
{
    struct belongings *all = arg;
    all->deletion->revision = row->revision;
    if (strlen(row->parent) < ID_SIZE) {
        memcpy(all->deletion->job.text, row->parent, strlen(row->parent) + 1);
    }
    return false;
}

static int find_job(struct coordinator *coordinator, struct belongings *all)
{
    struct state_store *state = coordinator->state;
    struct event_delete *deletion = all->deletion;
    const char *id = deletion->id;
    int rc = state_get(state, STATE_JOBS, id, read_job, all, all->err);
    rc = rc ? rc : all->code;
    memcpy(deletion->job.text, id, strlen(id) + 1);
    if (rc || core_job(coordinator->core, id)) {
        return rc; /* a live job is not deleted */
    }
    const struct state_query of_job = {
        .after_id = "", .limit = SIZE_MAX, .job = id, .states = "", .name = ""};
    rc = state_search(state, STATE_CENTER_UNITS, &of_job, read_unit, all, all->err);
    all->unit_count = all->count;
    const int64_t revision = deletion->revision;
    rc = rc || all->code
             ? rc
             : state_search(state, STATE_CHECKPOINTS, &of_job, read_checkpoint, all, all->err);
    deletion->revision = revision;
    return rc || all->code
               ? rc
               : state_list(state, STATE_JOBS, id, "", SIZE_MAX, false, read_part, all, all->err);
}

static int find_dataset(struct coordinator *coordinator, struct belongings *all)
{
    const struct dataset *dataset = core_dataset(coordinator->core, all->deletion->id);
    if (!dataset) {
        return err_set(all->err, ERR_NOT_FOUND, "no data set '%s'", all->deletion->id);
    }
    all->deletion->revision = dataset->revision;
    add_blob(all, dataset->sha256);
    return 0;
}

static int find_model(struct coordinator *coordinator, struct belongings *all)
{
    const struct model_row *model = core_model(coordinator->core, all->deletion->id);
    if (!model) {
        return err_set(all->err, ERR_NOT_FOUND, "no model '%s'", all->deletion->id);
    }
    all->deletion->revision = model->revision;
    return 0;
}

static int find(struct coordinator *coordinator, struct belongings *all)
{
    struct state_store *state = coordinator->state;
    const char *id = all->deletion->id;
    switch (all->deletion->kind) {
    case DELETE_DATASET: return find_dataset(coordinator, all);
    case DELETE_MODEL: return find_model(coordinator, all);
    case DELETE_CHECKPOINT:
        return state_get(state, STATE_CHECKPOINTS, id, read_checkpoint, all, all->err);
    case DELETE_JOB: return find_job(coordinator, all);
    case DELETE_INCIDENT:
        return state_get(state, STATE_INCIDENTS, id, read_incident, all, all->err);
    }
    return 0;
}

/* Discard the blobs after the commit. While the commit is held, or if the store has failed, they
 * wait for the sweep of the next start. Blobs that the core refused to delete are still needed. */
static void discard_blobs(struct coordinator *coordinator, const struct belongings *all)
{
    if (!turn_settle(coordinator->turn) || turn_held(coordinator->turn)) {
        return;
    }
    for (size_t i = 0; i < all->count; i++) {
        awaited_discard(coordinator, all->sha256[i]);
    }
}

/* A job of sub-models may have any number of parts: one for each attempt, also for attempts that a
 * damaged model caused. Parts beyond one piece are deleted before the job, so that a crash in
 * between leaves a job that can be deleted. */
static void delete_all(struct coordinator *coordinator, struct event *event,
                       const struct belongings *all, struct http_exchange *exchange,
                       const struct turn_extra *extra)
{
    struct event_delete *deletion = &event->delete;
    deletion->sha256 = (const char(*)[SHA256_SIZE])all->sha256;
    deletion->sha256_count = all->count;
    deletion->unit_count = all->unit_count;
    deletion->part = all->part;
    deletion->part_count = all->part_count;
    const bool refused = exchange && turn_held(coordinator->turn); /* the disk is full */
    deletion->parts_only = true;
    while (!refused && deletion->part_count > PIECE_PARTS) {
        const size_t left = deletion->part_count - PIECE_PARTS;
        deletion->part_count = PIECE_PARTS;
        turn_event(coordinator->turn, event, NULL, NULL);
        deletion->part += PIECE_PARTS;
        deletion->part_count = left;
    }
    deletion->parts_only = false;
    turn_event(coordinator->turn, event, exchange, extra);
}

int deletion_run(struct coordinator *coordinator, enum delete_kind kind, const char *id,
                 int64_t if_revision, struct http_exchange *exchange,
                 const struct turn_extra *extra, struct err *err)
{
    struct event event = {.type = EVENT_DELETE,
                          .delete = {.kind = kind, .if_revision = if_revision}};
    struct belongings all = {.deletion = &event.delete, .err = err};
    if (strlen(id) >= sizeof(event.delete.id)) {
        return err_set(err, ERR_NOT_FOUND, "no '%.80s'", id);
    }
    memcpy(event.delete.id, id, strlen(id) + 1);
    int rc = find(coordinator, &all);
    rc = rc ? rc : all.code;
    if (rc == 0) {
        delete_all(coordinator, &event, &all, exchange, extra);
        discard_blobs(coordinator, &all);
    }
    free(all.sha256);
    free(all.part);
    return rc;
}
